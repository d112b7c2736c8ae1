"""What makes the documentation site out of pages: code blocks and their results, the check of links."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parent.parent / "docs" / "site"
sys.path.insert(0, str(SITE))

import links  # noqa: E402


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
