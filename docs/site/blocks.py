"""Runs the code blocks of one page and writes the page with what they printed and drew.

    python docs/site/blocks.py SOURCE.md PAGE.md     # writes PAGE.md, figures beside it, its code as code/PAGE.py,
                                                     # and a tutorial as notebooks/PAGE.ipynb too

All `python` blocks of a page run one after the other in one namespace, in an empty folder. Words after the language say
what is special: `raises` (the block ends with an exception, which is shown, or a command with an exit status that is not 0), `fragment` (a part of a file that the text
speaks of; it is shown only). Lines `$ command` of `console` blocks run in the same folder;
a word there names a program without which the block is shown only, such as `cc`. Blocks of other languages are shown.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from notebooks import FENCE, notebook

# Lines of a traceback that belong to this program.
FRAMES = re.compile(rf' *File "{re.escape(__file__)}".*\n( +.*\n)')


class Page:
    """One page while its blocks run."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.figures = 0
        self.shown: Any = None  # the value of a block's last line
        self.code: list[str] = []
        lines = source.read_text("utf-8").splitlines(keepends=True)
        linecache.cache[source.name] = (
            0,
            None,
            lines,
            source.name,
        )  # tracebacks show the lines of the page

    def run(self) -> str:
        """The text of the page with all results."""
        return FENCE.sub(self._block, self.source.read_text("utf-8"))

    def _block(self, match: re.Match) -> str:
        language, words, code = match[1], (match[2] or "").split(), match[3]
        line = match.string.count("\n", 0, match.start()) + 2
        if language == "console":
            commands = [row[2:] for row in code.splitlines() if row.startswith("$ ")]
            if any(shutil.which(program) is None for program in words if program != "raises"):
                return f"```console\n{code}```\n"
            return f"```console\n{self._console(commands, line, 'raises' in words)}```\n"
        if language != "python" or "fragment" in words:
            return match[0]
        shown = self._output(code, line, raises="raises" in words)
        result = f"```python\n{code}```\n"
        if shown.strip():
            kind = "output error" if "raises" in words else "output"
            result += f"\n```{{code-block}} text\n:class: {kind}\n\n{shown.rstrip()}\n```\n"
        return result + self._pictures()

    def _output(self, code: str, line: int, raises: bool) -> str:
        """What the block prints. SystemExit with a message when it fails, or does not though it says so."""
        where = f"{self.source.name}:{line}"
        text = io.StringIO()
        failed = ""
        self.code.append(f"# {where}\n{code}")
        tree = ast.parse("\n" * (line - 1) + code, self.source.name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        program = compile(tree, self.source.name, "exec")
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            try:
                exec(program, self.namespace)
                if last is not None:  # as in a notebook
                    shown = compile(ast.Expression(last.value), self.source.name, "eval")
                    self.shown = eval(shown, self.namespace)
            except Exception as error:
                failed = "".join(traceback.format_exception_only(error))
                if not raises:
                    sys.exit(
                        f"{where}: {traceback.format_exc()}",
                    )
        if raises and not failed:
            sys.exit(f"{where}: the block says `raises` and does not")
        return FRAMES.sub("", text.getvalue()) + failed

    def _pictures(self) -> str:
        """The picture or page that the last line of a block is, and the figures that are open, saved and closed."""
        result, shown = "", self.shown
        self.shown = None
        if type(shown).__name__ == "Page":
            frame = shown._repr_html_().replace("\n", "&#10;")  # an empty line would end it
            return f"\n<p>{frame}</p>\n"
        if hasattr(shown, "_repr_svg_"):
            self.figures += 1
            name = f"{self.target.stem}_{self.figures}.svg"
            (self.target.parent / name).write_text(shown._repr_svg_(), "utf-8")
            result = f"\n![A picture of {shown.what}]({name})\n"
        if "matplotlib.pyplot" not in sys.modules:
            return result
        from matplotlib import pyplot

        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            self.figures += 1
            name = f"{self.target.stem}_{self.figures}.svg"
            figure.savefig(self.target.parent / name, metadata={"Date": None}, bbox_inches="tight")
            title = figure.get_suptitle() or figure.axes[0].get_title()
            if not title:
                sys.exit(
                    f"{self.source.name}: figure {self.figures} has no title, which is its text for readers without pictures"
                )
            result += f"\n![{title}]({name})\n"
            pyplot.close(figure)
        return result

    def _console(self, commands: list[str], line: int, raises: bool) -> str:
        """Commands with what they print. SystemExit with a message when one fails, or with `raises` when none does."""
        shown, failed = "", False
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", f"set -o pipefail; {command}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            shown += f"$ {command}\n{done.stdout}"
            failed = failed or done.returncode != 0
        if failed != raises:
            sys.exit(f"{self.source.name}:{line}: another exit status was expected:\n{shown}")
        return shown


def offer(content: dict[str, Any], text: str, target: Path) -> str:
    """The page with a link, under its title, to the notebook, which is written beside it."""
    path = target.parent / "notebooks" / f"{target.stem}.ipynb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")
    link = f"{{download}}`This page as a notebook <notebooks/{path.name}>`"
    title, rest = text.split("\n", 1)
    return f"{title}\n\n{link}\n{rest}"


def main() -> None:
    source, target = (Path(each).resolve() for each in sys.argv[1:])
    here = str(
        Path(sys.executable).parent
    )  # of the command `rushlight`, also where no environment is activated
    os.environ |= {
        "MPLBACKEND": "agg",
        "COLUMNS": "100",
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
    }
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, *_: print(f"{category.__name__}: {message}")
    with contextlib.suppress(ImportError):
        import matplotlib

        matplotlib.rcParams |= {
            "svg.hashsalt": "rushlight", "figure.figsize": (6.4, 3.2), "figure.dpi": 100,
            "axes.spines.top": False, "axes.spines.right": False, "font.size": 10,
        }  # fmt: skip
    page = Page(source, target)
    with tempfile.TemporaryDirectory() as here:
        os.chdir(here)
        text = page.run()
        os.chdir(target.parent)
    if page.code and source.parent.name == "tutorials":
        text = offer(notebook(source.read_text("utf-8")), text, target)
    target.write_text(text, "utf-8")
    if page.code:
        code = target.parent / "code" / f"{target.stem}.py"
        code.parent.mkdir(exist_ok=True)
        code.write_text("\n".join(page.code), "utf-8")


if __name__ == "__main__":
    main()
