"""Boxes of text and arrows between them, placed in layers and written as SVG."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

LINE = 15  # the height of a line of text
CHARACTER = 6.7  # the width of a character at this size, on the safe side
MARGIN = 12  # around the picture
PADDING = 8  # inside of a box
LONGEST = 44  # characters of a line; what is cut off stands in the tooltip
BETWEEN = 34  # from a row of boxes to the next

# kind of a box -> (fill, border)
COLOURS = {
    "plain": ("#f4f4f5", "#a1a1aa"),
    "result": ("#dcfce7", "#4d9a6a"),
    "input": ("#fef3c7", "#c08a2d"),
    "parameter": ("#dbeafe", "#5b86c7"),
    "buffer": ("#ede9fe", "#8a74c9"),
    "module": ("#ffe8dc", "#c9764a"),
}
STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#18181b}"
    ".t{font-weight:bold}.n{fill:#52525b}.s{fill:#a2480b}.p{fill:#1d4f91}.e{fill:none;stroke:#71717a}"
)


def bytes_text(n: float) -> str:
    """A number of bytes to read.

    >>> bytes_text(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"


def text_width(line: str, style: str = "") -> float:
    """How wide a line of text may become."""
    return min(len(line), LONGEST) * (CHARACTER + 1 if style == "t" else CHARACTER)


class Picture:
    """An SVG image. `svg` is its text; notebooks show it; `save(path)` writes it."""

    def __init__(self, what: str, width: float, height: float, parts: list[str]) -> None:
        self.what, self.width, self.height = what, round(width), round(height)
        marker = (
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#71717a"/></marker></defs>'
        )
        self.svg = "\n".join(
            [
                '<svg xmlns="http://www.w3.org/2000/svg"',
                f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}">',
                f"<title>{escape(what)}</title><style>{STYLE}</style>{marker}",
                '<rect width="100%" height="100%" fill="white"/>',
                *parts,
                "</svg>",
                "",
            ]
        )

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        """Write the picture to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __repr__(self) -> str:
        return f"<Picture of {self.what}: {self.width} x {self.height}>"


@dataclass
class Box:
    """A title, lines below it as (text, class of the text), and the kind, which is the colour."""

    title: str
    kind: str = "plain"
    lines: list[tuple[str, str]] = field(default_factory=list)
    x: float = 0  # of the left upper corner
    y: float = 0

    @property
    def width(self) -> float:
        lines = [(self.title, "t"), *self.lines]
        return 2 * PADDING + max(30.0, *(text_width(line, style) for line, style in lines))

    @property
    def height(self) -> float:
        return 2 * PADDING + LINE * (1 + len(self.lines)) - 3

    def drawn(self) -> str:
        """The elements of SVG."""
        fill, border = COLOURS[self.kind]
        tooltip = "\n".join([self.title, *(text for text, _ in self.lines)])
        parts = [
            f'<g><title>{escape(tooltip)}</title><rect x="{self.x:.1f}" y="{self.y:.1f}"',
            f' width="{self.width:.1f}" height="{self.height:.1f}" rx="4" fill="{fill}" stroke="{border}"/>',
        ]
        middle = self.x + self.width / 2
        for k, (line, style) in enumerate([(self.title, "t"), *self.lines]):
            y = self.y + PADDING + 11 + LINE * k
            parts.append(text(middle, y, line, style, "middle"))
        return "".join(parts) + "</g>"


def text(x: float, y: float, line: str, style: str = "", anchor: str = "start") -> str:
    """One line of text, cut where it is too long."""
    shown = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
        f"{escape(shown)}</text>"
    )


def layered(
    what: str, boxes: dict[Any, Box], edges: list[tuple[Any, Any]], note: str = ""
) -> Picture:
    """Boxes in rows from the top, so that edges go down; `note` stands above them."""
    number = {key: n for n, key in enumerate(boxes)}
    pairs = list(dict.fromkeys((number[a], number[b]) for a, b in edges))
    all_boxes = list(boxes.values())
    gap = 24
    spacing = max((box.width for box in all_boxes), default=0) + gap
    left, top = MARGIN, MARGIN + (LINE + 6 if note else 0)
    parts = [text(MARGIN, MARGIN + 12, note, "n")] if note else []
    paths: list[str] = []
    right, bottom = left + text_width(note), top
    for component in _components(pairs, len(all_boxes), spacing):
        width, height = _place(component, all_boxes, left, top)
        paths += component.paths(all_boxes)
        left += width + gap
        right, bottom = max(right, left - gap), max(bottom, top + height)
    parts += paths + [box.drawn() for box in all_boxes]
    return Picture(what, right + MARGIN, bottom + MARGIN, parts)


@dataclass
class _Component:
    """A connected part: positions in rows, and the way of each edge, through places between boxes.

    Numbers from that of the boxes on are such places.
    """

    rows: list[list[int]]  # from the top
    at: dict[int, float]  # the middle of each box and place, in pixels from the left
    ways: list[list[int]]
    spans: dict[int, tuple[float, float]] = field(default_factory=dict)  # (top, bottom) of its row

    def paths(self, boxes: list[Box]) -> list[str]:
        """The arrows. Those at one box leave and arrive side by side, in the order of where they lead."""
        leaving: dict[int, list[list[int]]] = {}
        arriving: dict[int, list[list[int]]] = {}
        for way in self.ways:
            leaving.setdefault(way[0], []).append(way)
            arriving.setdefault(way[-1], []).append(way)
        starts = self._ports(leaving, boxes, 1)
        ends = self._ports(arriving, boxes, -2)
        return [self._path(way, starts[id(way)], ends[id(way)], boxes) for way in self.ways]

    def _ports(
        self, groups: dict[int, list[list[int]]], boxes: list[Box], to: int
    ) -> dict[int, float]:
        found = {}
        for n, ways in groups.items():
            step = min(14.0, 0.7 * boxes[n].width / len(ways))
            for k, way in enumerate(sorted(ways, key=lambda way: self.at[way[to]])):
                found[id(way)] = self.at[n] + step * (k - (len(ways) - 1) / 2)
        return found

    def _path(self, way: list[int], start: float, end: float, boxes: list[Box]) -> str:
        first, last = boxes[way[0]], boxes[way[-1]]
        x, y = start, first.y + first.height
        d = [f"M{x:.1f},{y:.1f}"]
        if y < self.spans[way[0]][1]:  # below a low box in a high row: straight down first
            y = self.spans[way[0]][1]
            d.append(f"V{y:.1f}")
        for n in way[1:]:
            inside = n == way[-1]
            to, (top, bottom) = (end if inside else self.at[n]), self.spans[n]
            middle = (y + top) / 2
            d.append(f"C{x:.1f},{middle:.1f} {to:.1f},{middle:.1f} {to:.1f},{top:.1f}")
            x, y = to, last.y if inside else bottom
            if y > top:
                d.append(f"V{y:.1f}")
        return f'<path class="e" d="{" ".join(d)}" marker-end="url(#a)"/>'


def _components(pairs: list[tuple[int, int]], count: int, spacing: float) -> list[_Component]:
    """The connected parts of a graph, each with a layout."""
    found = []
    if pairs:
        try:
            import fast_sugiyama
        except ImportError as error:
            raise ImportError(
                "pictures of graphs need the extra: pip install 'rushlight[viz]'"
            ) from error
        used = sorted({n for pair in pairs for n in pair})
        number = {n: k for k, n in enumerate(used)}
        laid = fast_sugiyama.from_edges(
            [(number[a], number[b]) for a, b in pairs],
            vertex_spacing=spacing,
            dummy_vertices=True,
            dummy_size=0.15,
        )
        for positions, _, _, segments in laid:
            place = {n: used[n] if n < len(used) else count + n for n, _ in positions}
            heights = sorted({y for _, (_, y) in positions}, reverse=True)
            rows: dict[float, list[int]] = {y: [] for y in heights}
            at = {}
            for n, (x, y) in sorted(positions, key=lambda each: each[1][0]):
                rows[y].append(place[n])
                at[place[n]] = float(x)
            links = [(place[a], place[b]) for a, b in segments or ()]
            found.append(_Component(list(rows.values()), at, _ways(links, count)))
    alone = set(range(count)) - {n for pair in pairs for n in pair}
    found += [_Component([[n]], {n: 0.0}, []) for n in sorted(alone)]
    return found


def _ways(links: list[tuple[int, int]], count: int) -> list[list[int]]:
    """The edges between boxes as lists of all they go through; a place has one way on."""
    after = {a: b for a, b in links if a >= count}
    ways = []
    for a, b in links:
        if a < count:
            way = [a, b]
            while way[-1] >= count:
                way.append(after[way[-1]])
            ways.append(way)
    return ways


def _place(component: _Component, boxes: list[Box], left: float, top: float) -> tuple[float, float]:
    """Set the corners of the boxes; returns the size of the part."""
    count = len(boxes)
    edge = min(x - (boxes[n].width / 2 if n < count else 4) for n, x in component.at.items())
    component.at = {n: x - edge + left for n, x in component.at.items()}
    y = top
    for row in component.rows:
        height = max((boxes[n].height for n in row if n < count), default=0)
        for n in row:
            component.spans[n] = (y, y + height)
            if n < count:
                boxes[n].x = component.at[n] - boxes[n].width / 2
                boxes[n].y = y
        y += height + BETWEEN
    right = max(x + (boxes[n].width / 2 if n < count else 4) for n, x in component.at.items())
    return right - left, y - BETWEEN - top
