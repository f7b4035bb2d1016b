"""Pictures as SVG, by hand: two kinds are all that is needed. Colours come from the page's style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM = 860, 220, 60, 130, 24


def bars(rows: Sequence[tuple[str, int]]) -> str:
    """One bar a row, with its number."""
    most = max((count for _, count in rows), default=0) or 1
    parts = []
    for number, (name, count) in enumerate(rows):
        top = 4 + 26 * number
        wide = round(count / most * (WIDTH - 290), 1)
        parts.append(f'<text x="150" y="{top + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="160" y="{top}" width="{max(wide, 1)}" height="20" class="a"/>')
        parts.append(f'<text x="{168 + wide}" y="{top + 15}">{count:,}</text>')
    return _svg(26 * len(rows) + 8, parts, "how many came how far")


def lines(series: Sequence[tuple[str, str, Sequence[float]]], step_ms: int, unit: str, filled: bool = False) -> str:
    """Each series (name, class, values) over the same time; labelled where it is highest in the legend's order."""
    most = max((max(values, default=0) for _, _, values in series), default=0) or 1
    count = max(len(values) for _, _, values in series)
    across = (WIDTH - LEFT - RIGHT) / max(1, count - 1)
    floor = HEIGHT - BOTTOM

    def at(number: int, value: float) -> str:
        return f"{LEFT + number * across:.1f},{floor - value / most * (floor - 12):.1f}"

    parts = [
        f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" class="axis"/>',
        f'<text x="{LEFT - 6}" y="16" text-anchor="end">{most:,.0f}</text>',
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end">0</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 6}">0 s</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{(count - 1) * step_ms / 1000:,.1f} s</text>',
    ]
    for place, (name, style, values) in enumerate(series):
        points = " ".join(at(number, value) for number, value in enumerate(values))
        if filled:
            points = f"{at(0, 0)} {points} {at(len(values) - 1, 0)}"
            parts.append(f'<polygon points="{points}" class="{style} area"/>')
        else:
            parts.append(f'<polyline points="{points}" class="{style} line"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{22 + 18 * place}" class="{style} name">{escape(name)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{26 + 18 * len(series)}" class="unit">{escape(unit)}</text>')
    return _svg(HEIGHT, parts, ", ".join(name for name, _, _ in series))


def _svg(height: int, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
