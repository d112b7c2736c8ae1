"""What makes the documentation site out of pages: code blocks and their results, the check of links."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import viz
from rushlight.cli import bench_page

SITE = Path(__file__).resolve().parent.parent / "docs" / "site"
sys.path.insert(0, str(SITE))

import links  # noqa: E402
from notebooks import notebook  # noqa: E402


@pytest.fixture
def built(tmp_path):
    """A function that runs the blocks of a page: the program's result, and the page that it wrote."""

    def build(text: str):
        source, target = tmp_path / "source.md", tmp_path / "page.md"
        source.write_text(text, "utf-8")
        command = [sys.executable, str(SITE / "blocks.py"), str(source), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done, target.read_text("utf-8") if target.exists() else ""

    return build


def test_blocks_run_in_one_namespace(built):
    done, page = built(
        "# T\n\n```python\nx = 20\nprint(x)\n```\n\nText.\n\n```python\nprint(x + 1)\n```\n"
    )
    assert done.returncode == 0, done.stderr
    assert ":class: output\n\n20\n```" in page
    assert ":class: output\n\n21\n```" in page


def test_an_error_is_shown_only_where_the_block_says_so(built):
    block = "```python{}\nraise ValueError('no such thing')\n```\n"
    _, page = built(block.format(" raises"))
    assert "ValueError: no such thing" in page
    done, _ = built("\n" + block.format(""))
    assert done.returncode == 1
    assert "source.md:3" in done.stderr
    done, _ = built("```python raises\nprint(1)\n```\n")
    assert "does not" in done.stderr


def test_commands_and_fragments(built):
    _, page = built("```console\n$ echo a word\n```\n\n```python fragment\nnowhere()\n```\n")
    assert page == "```console\n$ echo a word\na word\n```\n\n```python fragment\nnowhere()\n```\n"


def test_a_command_that_fails_ends_the_build(built):
    done, _ = built("```console\n$ no_such_command_anywhere\n```\n")
    assert done.returncode == 1
    assert "source.md:2" in done.stderr and "not found" in done.stderr
    done, page = built("```console raises\n$ ls no_such_file\n```\n")
    assert done.returncode == 0
    assert "no_such_file'" in page
    _, page = built("```console no_such_compiler\n$ no_such_compiler main.c\n```\n")
    assert page == "```console\n$ no_such_compiler main.c\n```\n"
    _, page = built("```console\n$ python -c 'import sys; print(sys.executable)'\n```\n")
    assert sys.executable in page


def test_links_to_nothing_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="b.html#there">x</a><a href="#here">x</a>'
    )
    (tmp_path / "b.html").write_text('<a href="c.html">x</a><img src="https://example.org/x.png">')
    assert links.problems(tmp_path) == [
        "a.html: no place b.html#there",
        "b.html: no page c.html",
        "b.html: loads https://example.org/x.png",
    ]


def test_the_fewest_clicks_to_a_place(tmp_path):
    (tmp_path / "zh").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="zh/a.html">x</a><a href="https://a.org/b.html">x</a>'
    )
    (tmp_path / "zh" / "a.html").write_text(
        '<p id="p"></p><a href="#p">x</a><a href="../b.html#q">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="q"></p><a href="index.html">x</a>')
    assert links.clicks(tmp_path, "index.html") == {
        "index.html": 0, "zh/a.html": 1, "zh/a.html#p": 2, "b.html": 2, "b.html#q": 2,
    }  # fmt: skip


def test_pictures_of_measurements(tmp_path):
    pytest.importorskip("matplotlib")
    import benchmarks

    few = "case        us     us  ratio\nadd, 4 elements   3.11   5.56   0.575  (0.402 .. 0.752)  <= 0.60 yes\nexp(x)   1.00   2.00   0.50\n"
    assert benchmarks.ROW.findall(few) == [
        ("add, 4 elements", "0.575", "0.402", "0.752"), ("exp(x)", "0.50", "", ""),
    ]  # fmt: skip
    benchmarks.picture(few, "few", tmp_path / "few.svg")
    many = "".join(f"case {k}   1.00   2.00   {k / 50}\n" for k in range(1, 100))
    benchmarks.picture(many, "many", tmp_path / "many.svg")
    assert all(b"</svg>" in (tmp_path / f"{n}.svg").read_bytes() for n in ("few", "many"))


def test_words_of_chinese_pages():
    pytest.importorskip("sphinx")
    import conf

    words = conf.Chinese({}).split("学习率 lr，梯度。")
    assert words == ["学习率", "梯度", "学习", "习率", "梯度", "lr"]
    assert (
        "ChineseStemmer" not in conf.Chinese.js_stemmer_code
    )  # Sphinx's own names it, and nobody defines it


def test_a_page_as_a_notebook():
    page = "# T\n\nText.\n\n```python\nx = 1\n```\n```python raises\n1 / 0\n```\n\n```python fragment\ny\n```\n\n```console\n$ ls\n```\n"
    cells = notebook(page)["cells"]
    assert [(c["cell_type"], c["source"]) for c in cells] == [
        ("markdown", "# T\n\nText."),
        ("code", "x = 1"),
        ("code", "1 / 0"),
        ("markdown", "```python fragment\ny\n```"),
        ("code", "!ls"),
    ]
    assert cells[2]["metadata"]["tags"] == ["raises-exception"]


EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], 4)
seconds = {"endless": 5}  # by the tag of a cell; the kernel is interrupted then
client = NotebookClient(
    notebook, interrupt_on_timeout=True, timeout=None,
    timeout_func=lambda cell: next((seconds[t] for t in cell.metadata.get("tags", ()) if t in seconds), 300),
)
client.execute()
for cell in notebook.cells:
    for output in cell.get("outputs", ()):
        print(output.get("text", output.get("data", {}).get("text/html", "\\n".join(output.get("traceback", ())))))
"""


def executed(content: dict, folder: Path) -> str:
    """What the cells of a notebook print."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    path = folder / "page.ipynb"
    path.write_text(json.dumps(content), "utf-8")
    command = [sys.executable, "-c", EXECUTE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("page", ["tensors", "autograd"])
def test_notebooks_run(page, tmp_path):
    source = SITE.parent / "tutorials" / f"{page}.md"
    assert "tensor(" in executed(notebook(source.read_text("utf-8")), tmp_path)


def test_an_interrupted_cell_leaves_everything_usable(tmp_path):
    blocks = [
        "import rushlight as torch\nx = torch.randn(200, 200, requires_grad=True)\nloader = torch.utils.data.DataLoader([1.0] * 9)",
        "while True:\n    for _ in loader:\n        (x @ x).relu().sum().backward()",
        "x.grad = None\n(2 * x).sum().backward()\nprint(x.grad.sum().item(), len(list(loader)))",
    ]
    content = notebook("\n".join(f"```python\n{block}\n```" for block in blocks))
    content["cells"][1]["metadata"]["tags"] = ["endless", "raises-exception"]
    printed = executed(content, tmp_path)
    assert "KeyboardInterrupt" in printed
    assert "80000.0 9" in printed


def test_a_progress_bar_in_a_notebook(tmp_path):
    pytest.importorskip("tqdm")
    content = notebook(
        "```python\nimport rushlight as torch\nfrom tqdm.auto import tqdm\nloader = torch.utils.data.DataLoader([1.0] * 9)\n"
        "print(sum(x.item() for x in tqdm(loader)))\n```\n"
    )
    printed = executed(content, tmp_path)
    assert "9.0" in printed
    assert "9/9" in printed or "HBox" in printed


def shown(path: Path) -> str:
    """The elements of a page in a browser, after its scripts ran. Fails where they print an error."""
    browser = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if browser is None:
        pytest.skip("needs Chromium")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent / 'profile'}",
         "--virtual-time-budget=2000", "--enable-logging=stderr", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def test_the_timeline_in_a_browser(tmp_path):
    x = torch.ones(100, requires_grad=True)
    with torch.profiler.profile(profile_memory=True, with_stack=True) as profile:
        x.exp().sum().backward()
    viz.timeline(profile).save(tmp_path / "timeline.html")
    page = shown(tmp_path / "timeline.html")
    assert (
        "test_site.py" in page.partition('id="below"')[2].partition("<script")[0]
    )  # lines that hold memory


def test_the_report_of_bench_in_a_browser(tmp_path):
    row = {"name": "add", "rushlight": 2e-6, "pytorch": 4e-6, "ratio": 0.5, "quartiles": [0.4, 0.6]}
    (tmp_path / "report.html").write_text(bench_page.page([row], {"CPU": "x"}, "today"), "utf-8")
    assert "0.40 to 0.60" in shown(tmp_path / "report.html")


def test_an_error_in_a_notebook_says_what_to_do(tmp_path):
    content = notebook(
        "```python\nimport rushlight as torch\n```\n\n```python raises\ntorch.ones(3) + torch.ones(4)\n```\n\n```python\nprint('on')\n```\n"
    )
    assert "errors/shapes-of-a-sum in the documentation" in executed(content, tmp_path)
