"""The picture of a lab, as SVG for a page and as a few lines of text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from seckill.lab.labs.lab import Bar, Chart, Lab, Observation, Variant

WIDTH = 900
PANEL_WIDTH, PLOT_HEIGHT, LEFT, TOP = 420, 150, 46, 96
BAR_LEFT, BAR_WIDTH, BAR_STEP = 195, 180, 34
GOOD, BAD, INK, PALE = "#2f7d4f", "#c0392b", "#1f2933", "#9aa5b1"
COLUMNS, ROWS, BAR_COLUMNS, NAME_COLUMNS = 48, 6, 32, 34
BLOCKS = " ▁▂▃▄▅▆▇█"


# ── SVG ──────────────────────────────────────────────────────────────────────────────────────────


def to_svg(lab: Lab, observations: Mapping[Variant, Observation]) -> str:
    top = max(each.chart.top for each in observations.values())
    height = max(_height(each.chart) for each in observations.values())
    panels = [
        f'<g transform="translate({15 + number * (PANEL_WIDTH + 30)} 0)">{_panel(lab, variant, observation, top)}</g>'
        for number, (variant, observation) in enumerate(observations.items())
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
            f' aria-label="{escape(_described(lab, observations))}" font-family="system-ui, sans-serif" fill="{INK}">',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="15" y="28" font-size="17" font-weight="600">{lab.number} · {escape(lab.question)}</text>',
            *panels,
            "</svg>\n",
        )
    )


def _described(lab: Lab, observations: Mapping[Variant, Observation]) -> str:
    return "; ".join(f"{variant}: {each.damage:,} {lab.damage}" for variant, each in observations.items())


def _panel(lab: Lab, variant: Variant, observation: Observation, top: float) -> str:
    color = BAD if observation.damage else GOOD
    heading = (
        f'<text y="56" font-size="15" font-weight="600" fill="{color}">{variant}: {observation.damage:,}'
        f" {escape(lab.damage)}</text>"
    )
    chart = observation.chart
    return heading + (_line(chart, top, color) if chart.line else _bars(chart, top))


def _height(chart: Chart) -> int:
    return TOP + PLOT_HEIGHT + 30 if chart.line else TOP + BAR_STEP * len(chart.bars) + 12


def _line(chart: Chart, top: float, color: str) -> str:
    right = max((x for x, _ in chart.line), default=1) or 1
    width = PANEL_WIDTH - LEFT - 10

    def at(x: float, y: float) -> str:
        return f"{LEFT + width * x / right:.1f},{TOP + PLOT_HEIGHT * (1 - y / top):.1f}"

    points = [at(chart.line[0][0], chart.line[0][1])]
    for (_, before), (x, y) in zip(chart.line, chart.line[1:], strict=False):
        points += [at(x, before), at(x, y)]  # a count stays until it changes
    pieces = [
        f'<path d="M{LEFT} {TOP}V{TOP + PLOT_HEIGHT}H{LEFT + width}" fill="none" stroke="{PALE}"/>',
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="2.5"/>',
        _label(LEFT - 6, TOP + 5, f"{top:,.0f}", "end"),
        _label(LEFT - 6, TOP + PLOT_HEIGHT, "0", "end"),
        _label(LEFT, TOP - 10, chart.y),
        _label(LEFT + width, TOP + PLOT_HEIGHT + 18, f"{chart.x} {right:,.4g}", "end"),
    ]
    if chart.limit is not None:
        y = TOP + PLOT_HEIGHT * (1 - chart.limit / top)
        pieces.append(f'<path d="M{LEFT} {y:.1f}h{width}" stroke="{INK}" stroke-dasharray="5 4"/>')
        pieces.append(_label(LEFT + width, y - 5, chart.limit_name, "end"))
    return "".join(pieces)


def _bars(chart: Chart, top: float) -> str:
    pieces = [_label(0, TOP - 10, chart.y)]
    for number, bar in enumerate(chart.bars):
        y = TOP + number * BAR_STEP
        color = BAD if bar.is_bad and bar.value else GOOD
        length = max(0.0 if not bar.value else 2.0, BAR_WIDTH * bar.value / top)
        pieces.append(_label(BAR_LEFT - 8, y + BAR_STEP / 2 + 4, bar.name, "end"))
        pieces.append(f'<rect x="{BAR_LEFT}" y="{y + 4}" width="{length:.1f}" height="{BAR_STEP - 8}" fill="{color}"/>')
        pieces.append(_label(BAR_LEFT + 6 + length, y + BAR_STEP / 2 + 4, f"{bar.value:,.0f}"))
    return "".join(pieces)


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" text-anchor="{anchor}">{escape(text)}</text>'


# ── terminal ─────────────────────────────────────────────────────────────────────────────────────


def to_text(chart: Chart, top: float) -> list[str]:
    """`top` is the largest value of all variants, so that their pictures compare."""
    return _line_text(chart, top) if chart.line else [_bar_text(bar, top) for bar in chart.bars]


def _bar_text(bar: Bar, top: float) -> str:
    mark = "  ← damage" if bar.is_bad and bar.value else ""
    return f"{bar.name:>{NAME_COLUMNS}} {'█' * _columns(bar.value, top)} {bar.value:,.0f}{mark}"


def _columns(value: float, top: float) -> int:
    return max(1 if value else 0, round(BAR_COLUMNS * value / top))


def _line_text(chart: Chart, top: float) -> list[str]:
    right = max(x for x, _ in chart.line) or 1
    heights = [_height_at(chart, (column + 1) * right / COLUMNS) / top * ROWS for column in range(COLUMNS)]
    lines = []
    for row in reversed(range(ROWS)):
        cells = "".join(BLOCKS[round(8 * min(1.0, max(0.0, height - row)))] for height in heights)
        has_limit = chart.limit is not None and row <= chart.limit / top * ROWS < row + 1
        name = f"{top:,.0f}" if row == ROWS - 1 else ""
        lines.append(f"{name:>9} │{cells}{f' ┈ {chart.limit_name}' if has_limit else ''}".rstrip())
    lines.append(f"{'0':>9} └{'─' * COLUMNS} {chart.x} {right:,.4g}")
    return [f"{'':>9}  {chart.y}", *lines]


def _height_at(chart: Chart, x: float) -> float:
    reached = [y for at, y in chart.line if at <= x + 1e-9]
    return reached[-1] if reached else chart.line[0][1]
