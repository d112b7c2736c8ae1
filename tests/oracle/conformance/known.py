"""The list of what is known to fail. It may only shrink: what passes must be struck off."""

from __future__ import annotations

from pathlib import Path

LIST = Path(__file__).with_name("known_failures.txt")


def known_failures(path: Path = LIST) -> dict[tuple[str, str], str]:
    """{(entry, kind of check): reason}; a line is `entry | kind of check | reason`."""
    listed: dict[tuple[str, str], str] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|", 2)]
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"{path.name}:{number}: not `entry | kind of check | reason`: {line}")
        if (parts[0], parts[1]) in listed:
            raise ValueError(f"{path.name}:{number}: listed twice: {line}")
        listed[parts[0], parts[1]] = parts[2]
    return listed


def difference(entries, listed, whole=True):
    """(failures that are not listed, listed ones that pass), as lines of text."""
    failing = {
        (f"{section}/{name}", label): texts[0]
        for section, of in entries.items()
        for name, summary in of.items()
        for label, texts in summary["failures"].items()
    }
    seen = {f"{section}/{name}" for section, of in entries.items() for name in of}
    new = [
        f"{e} | {label} | {failing[e, label]}" for e, label in failing if (e, label) not in listed
    ]
    stale = [
        f"{e} | {label} | {listed[e, label]}"
        for e, label in listed
        if (e, label) not in failing and (whole or e in seen)
    ]
    return new, stale
