"""Plots as inline SVG, coloured by the page's style sheet, so that they follow its light and dark.

Why not plotly: the one bundle that its package brings is 4.8 MB, for a page that is 100 kB without it, and its colours
are fixed when the page is made. Every plot is drawn twice, once for a wide place and once for a telephone: letters that
shrink with a drawing cannot be read there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from attendant.markup import Markup, safe
from clients.load.report.scales import Scale

Point = tuple[float, float]
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 14.0, 24.0, 42.0
_NARROW = 350.0
_A_LABEL, _A_LINE, _LEAST = 84.0, 44.0, 44.0  # pixels between ticks: along, above, and no less than


@dataclass(slots=True, kw_only=True)
class Frame:
    """A drawing with two axes.

    Attributes:
        width: in pixels.
        height: in pixels.
        x: from left to right.
        y: from bottom to top.
        layers: what has been drawn, the lowest first.
        hover: name → points with what is told of them.
    """

    width: float
    height: float
    x: Scale
    y: Scale
    layers: list[str] = field(default_factory=list)
    hover: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)

    def at(self, point: Point) -> Point:
        """Pixels of a point."""
        across, up = self.x.place(point[0]), self.y.place(point[1])
        bottom = self.height - _BOTTOM
        return (
            round(_LEFT + across * (self.width - _LEFT - _RIGHT), 1),
            round(bottom - up * (bottom - _TOP), 1),
        )

    def axes(self, x_text: Callable[[float], str], y_text: Callable[[float], str], x_name: str, y_name: str) -> None:
        """Draw grid, ticks and names."""
        left, bottom, right = _LEFT, self.height - _BOTTOM, self.width - _RIGHT
        for value in self.y.ticks(int((bottom - _TOP) / _A_LINE)):
            up = self._up(value)
            self._add(f'<line class="grid" x1="{left:g}" x2="{right:g}" y1="{up}" y2="{up}"/>')
            self._add(
                f'<text class="tick" x="{left - 8:g}" y="{up + 4:g}" text-anchor="end">{safe(y_text(value))}</text>'
            )
        last = -_LEAST
        for value in self.x.ticks(int((right - left) / _A_LABEL)):
            across = self._across(value)
            if across - last < _LEAST:
                continue
            last = across
            self._add(f'<line class="grid" x1="{across}" x2="{across}" y1="{_TOP:g}" y2="{bottom:g}"/>')
            self._add(
                f'<text class="tick" x="{across}" y="{bottom + 17:g}" text-anchor="middle">{safe(x_text(value))}</text>'
            )
        self._add(f'<text class="axis" x="{right:g}" y="{self.height - 6:g}" text-anchor="end">{safe(x_name)}</text>')
        self._add(f'<text class="axis" x="2" y="{_TOP - 11:g}">{safe(y_name)}</text>')

    def line(self, kind: str, points: Iterable[Point]) -> None:
        """Draw a line through points."""
        self._path(f"line {kind}", "L".join(f"{x:g} {y:g}" for x, y in map(self.at, points)))

    def area(self, kind: str, points: Sequence[Point], base: float) -> None:
        """Fill from a base to a line."""
        if points:
            around = [*points, (points[-1][0], base), (points[0][0], base)]
            self._path(f"area {kind}", "L".join(f"{x:g} {y:g}" for x, y in map(self.at, around)) + "Z")

    def dots(self, kind: str, points: Iterable[Point]) -> None:
        """Draw round dots, all in one path: thousands of them stay small."""
        self._path(f"dots {kind}", "M".join(f"{x:g} {y:g}h0" for x, y in map(self.at, points)))

    def points(self, kind: str, points: Iterable[Point]) -> None:
        """Draw round dots large enough to be told one by one."""
        self._path(f"points {kind}", "M".join(f"{x:g} {y:g}h0" for x, y in map(self.at, points)))

    def crosses(self, kind: str, points: Iterable[Point]) -> None:
        """Draw crosses, which are told from dots without their colour."""
        self._path(f"cross {kind}", "M".join(f"{x - 3:g} {y - 3:g}l6 6m0 -6l-6 6" for x, y in map(self.at, points)))

    def bars(self, kind: str, edges: Sequence[float], heights: Sequence[float]) -> None:
        """Draw bars from 0, each from one edge to the next."""
        bottom = self.height - _BOTTOM
        for low, high, height in zip(edges, edges[1:], heights, strict=False):
            left, top = self.at((low, height))
            width = max(self._across(high) - left - 1, 0.5)
            if height:
                self._add(
                    f'<rect class="bar {kind}" x="{left}" y="{top}" width="{width:g}" height="{bottom - top:g}"/>'
                )

    def shade(self, kind: str, low: float, high: float) -> None:
        """Shade a span of x."""
        left, right = self._across(low), self._across(high)
        if right > left:
            size = f'width="{right - left:g}" height="{self.height - _BOTTOM - _TOP:g}"'
            self._add(f'<rect class="shade {kind}" x="{left}" y="{_TOP:g}" {size}/>')

    def upright(self, kind: str, value: float, told: str, row: int = 0) -> None:
        """Draw an upright line, and its name beside it in one of a few rows."""
        across, bottom = self._across(value), self.height - _BOTTOM
        side, shift = ("end", -4) if across > self.width * 0.7 else ("start", 4)
        self._add(f'<line class="rule {kind}" x1="{across}" x2="{across}" y1="{_TOP:g}" y2="{bottom:g}"/>')
        place = f'x="{across + shift:g}" y="{_TOP + 12 + 15 * row:g}"'
        self._add(f'<text class="note {kind}" {place} text-anchor="{side}">{safe(told)}</text>')

    def level(self, kind: str, value: float, told: str) -> None:
        """Draw a level line with its name."""
        up = self._up(value)
        self._add(f'<line class="rule {kind}" x1="{_LEFT:g}" x2="{self.width - _RIGHT:g}" y1="{up}" y2="{up}"/>')
        self._add(f'<text class="note {kind}" x="{_LEFT + 6:g}" y="{up - 5:g}">{safe(told)}</text>')

    def tell(self, name: str, points: Iterable[tuple[float, float, str]]) -> None:
        """Say what is shown of the point nearest to the pointer."""
        self.hover[name] = [(*self.at((x, y)), told) for x, y, told in points]

    def markup(self, told: str, kind: str) -> Markup:
        """The drawing."""
        points = json.dumps(self.hover, separators=(",", ":"), ensure_ascii=False)
        quoted = points.replace("&", "&amp;").replace("'", "&#39;")
        hover = f" data-hover='{quoted}'" if self.hover else ""
        return Markup(
            f'<svg class="plot {kind}" role="img" aria-label="{safe(told)}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}"{hover}>{"".join(self.layers)}</svg>'
        )

    def _across(self, value: float) -> float:
        return self.at((value, 0.0))[0]

    def _up(self, value: float) -> float:
        return self.at((0.0, value))[1]

    def _path(self, kind: str, steps: str) -> None:
        if steps:
            self._add(f'<path class="{kind}" d="M{steps}"/>')

    def _add(self, element: str) -> None:
        self.layers.append(element)


def plot(
    told: str, x: Scale, y: Scale, draw: Callable[[Frame], None], width: float = 560, height: float = 300
) -> Markup:
    """A plot for a wide place and for a narrow one; the style sheet shows one of them.

    Args:
        told: what it shows, for those who do not see it.
        x: the axis from left to right.
        y: the axis from bottom to top.
        draw: puts everything into a frame.
        width: in pixels, of the wide one.
        height: in pixels, of both.
    """
    drawings = []
    for kind, across in (("broad", width), ("slim", _NARROW)):
        frame = Frame(width=across, height=height, x=x, y=y)
        draw(frame)
        drawings.append(frame.markup(told, kind))
    return Markup("".join(drawings))
