"""Checks the built pages: every link leads to a page and a place on it, and nothing is loaded from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself when it shows a page.
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
}


class Links(HTMLParser):
    """The places (ids) of a page, where it points to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.targets.append(given["href"])
        elif (
            tag in LOADED
            and LOADED[tag] in given
            and given.get("rel") not in ("canonical", "alternate")
        ):
            self.loaded.append(given[LOADED[tag]])


def problems(folder: Path) -> list[str]:
    """One line for each broken link and for each thing that a page would fetch from another machine."""
    pages = {path.resolve(): Links(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        for target in page.targets + page.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loaded and parts.scheme != "data":
                    found.append(f"{name}: loads {target}")
                continue
            where = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = where / "index.html" if where.is_dir() else where
            if not where.exists():
                found.append(f"{name}: no page {target}")
            elif (
                parts.fragment
                and where in pages
                and unquote(parts.fragment) not in pages[where].places
            ):
                found.append(f"{name}: no place {target}")
    return found


def clicks(folder: Path, start: str) -> dict[str, int]:
    """{page or page#place: how many links a reader follows at least to come there from the page `start`}."""
    folder = folder.resolve()
    found = {start: 0}
    todo = [start]
    for name in todo:  # grows
        path = folder / name
        for target in Links(path).targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            where = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            page = where.relative_to(folder).as_posix()
            if page not in found and where.suffix == ".html":
                found[page] = found[name] + 1
                todo.append(page)
            if parts.fragment:
                found.setdefault(f"{page}#{unquote(parts.fragment)}", found[name] + 1)
    return found
