"""Sphinx's settings for the documentation site; `docs/build.py` runs Sphinx."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.search import SearchLanguage
from sphinx.util.logging import getLogger

import rushlight

logger = getLogger(__name__)

project = "Rushlight"
author = "the Rushlight authors"
copyright = author  # noqa: A001  Sphinx's name
release = version = rushlight.version.release
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_ambiguous", "ref.python"]
nitpicky = False
exclude_patterns = ["code", "**/notebooks"]
templates_path = ["_templates"]
gettext_compact = False
locale_dirs = ["locales"]
add_module_names = False
toc_object_entries = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 90

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"Rushlight {release}"
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = (
    False  # browsers refuse to read the found pages where the site is a folder of files
)
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/languages.html", "sidebar/search.html", "sidebar/scroll-start.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
pygments_style = "friendly"
pygments_dark_style = "monokai"


def link_names(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Make code such as `nn.Linear` or `torch.add` a link to its place in the reference, which is English."""
    places = json.loads(
        (Path(app.srcdir).parent / "source" / "reference" / "names.json").read_text("utf-8")
    )
    english = "" if app.config.language == "en" else "../"
    for literal in list(tree.findall(nodes.literal)):
        if _inside(literal, nodes.reference | nodes.title | addnodes.pending_xref):
            continue
        name = literal.astext().removesuffix("()").removeprefix("torch.")
        if "." not in name and name in ORDINARY and not literal.astext().startswith("torch."):
            continue
        full = [f"torch.{name}", f"torch.nn.functional.{name.removeprefix('F.')}"]
        found = next((n for n in full if n in places), None)
        if found:
            root = app.builder.get_relative_uri(page, "index").removesuffix("index.html")
            target = f"{root}{english}reference/{places[found]}.html#{found}"
            link = nodes.reference("", "", internal=True, refuri=target)
            literal.replace_self(link)
            link += literal


def _inside(node: nodes.Node, kinds: Any) -> bool:
    """Whether a node stands in one of these kinds."""
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


# Names of the reference that are also words of Python, or parameters, wherever a text has them.
ORDINARY = frozenset(
    "any all abs bool char complex device diff dtype double float gather half int max min sum size std var set split "
    "layout mean mode new numpy pin_memory pow round scatter short sort step type values where width".split()
)


def ask_for_translations(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of a page that is translated in part."""
    for page, data in env.metadata.items():
        progress = data.get("translation_progress", {})
        if 0 < progress.get("translated", 0) < progress["total"]:
            missing = progress["total"] - progress["translated"]
            logger.warning(
                "%d paragraphs lack a translation: docs/build.py --messages", missing, location=page
            )


class Chinese(SearchLanguage):
    """The search of Chinese pages. Chinese has no spaces: runs of characters are words, and so is each pair in them.

    A browser finds two characters as a pair and more of them inside of a run. Sphinx's own class needs a dictionary, and what it
    writes for browsers names a function that is not there.
    """

    lang, language_name = "zh", "Chinese"

    def split(self, text: str) -> list[str]:
        runs = re.findall(r"[\u4e00-\u9fff]+", text)
        pairs = [run[k : k + 2] for run in runs for k in range(len(run) - 1)]
        return runs + pairs + re.findall(r"[a-zA-Z0-9_]+", text)

    def stem(self, word: str) -> str:
        return word.lower()


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_search_language(Chinese)
    app.connect("doctree-resolved", link_names)
    app.connect("env-check-consistency", ask_for_translations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
