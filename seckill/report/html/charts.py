"""Codec: from an Altair chart to SVG in the style of the pages. The only place that knows colours, fonts and renderer.

Vega-Lite does not know CSS variables, so a chart is drawn with stand-in colours that are replaced in the finished SVG:
by the variables of the stylesheet for a page, which follows the reader's light or dark setting, or by fixed colours for
an SVG file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

WIDTH = 760

INK, DIM, RULE = "#010101", "#020202", "#030303"
BLUE, ORANGE, GREEN, RED = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04"
PURPLE, YELLOW, PINK, SLATE = "#0a0a05", "#0a0a06", "#0a0a07", "#0a0a08"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, PINK, SLATE, RED)
"""For series without a colour of their own."""

OFFERED, ACKNOWLEDGED, ARRIVED, DECIDED, BACKLOG = BLUE, ORANGE, ORANGE, GREEN, PURPLE
DECISIONS = {
    "RESERVED": GREEN, "SOLD_OUT": DIM, "DUPLICATE": YELLOW, "LIMIT_REACHED": PINK, "CLOSED": SLATE,
    "TOO_LATE": ORANGE, "INVALID": RED,
}  # fmt: skip
"""A series has the same colour in every chart."""

PAGE_COLOURS = {
    INK: "currentColor",
    DIM: "var(--dim)",
    RULE: "var(--rule)",
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    GREEN: "var(--green)",
    RED: "var(--red)",
    PURPLE: "var(--purple)",
    YELLOW: "var(--yellow)",
    PINK: "var(--pink)",
    SLATE: "var(--slate)",
}
FILE_COLOURS = {
    INK: "#1b1b1b",
    DIM: "#5c5c5c",
    RULE: "#dddddd",
    BLUE: "#0b62a8",
    ORANGE: "#b35900",
    GREEN: "#2d7a3a",
    RED: "#b3261e",
    PURPLE: "#7a56a8",
    YELLOW: "#8a6d00",
    PINK: "#a8556b",
    SLATE: "#5b6a8a",
}
PADDING = {"left": 32, "right": 32, "top": 4, "bottom": 4}
"""Browsers may draw labels wider than vl-convert measures them."""
CONFIG: dict[str, Any] = {
    "font": "sans-serif",
    "view": {"stroke": None, "continuousWidth": WIDTH},
    "axis": {
        "labelColor": DIM, "titleColor": DIM, "domainColor": RULE, "tickColor": RULE, "gridColor": RULE,
        "titleFontWeight": "normal", "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 220,
    },
    "legend": {"labelColor": INK, "labelFontSize": 12, "titleColor": INK, "orient": "top", "title": None},
    "range": {"category": list(SERIES)},
    "text": {"fontSize": 12},
    "title": {"color": INK, "fontSize": 12, "fontWeight": "normal", "anchor": "start"},
}  # fmt: skip


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart whose rows are part of its specification."""
    return alt.Chart(alt.Data(values=[dict(row) for row in rows]))  # type: ignore[no-untyped-call]


def vega_spec(chart: Any, background: str | None = None) -> dict[str, Any]:
    """The Vega-Lite specification with the style of the pages."""
    return {**chart.to_dict(), "padding": PADDING, "config": {**CONFIG, "background": background}}


def page_svg(chart: Any, label: str) -> Markup:
    """An SVG element for a page. Screen readers read the label."""
    return Markup(_svg(vega_spec(chart), label, PAGE_COLOURS))  # drawn by us, texts escaped by Vega  # nosec B704


def file_svg(chart: Any, label: str) -> str:
    """An SVG file of its own, with fixed colours on white."""
    return _svg(vega_spec(chart, "white"), label, FILE_COLOURS)


def _svg(spec: dict[str, Any], label: str, colours: Mapping[str, str]) -> str:
    drawing = str(vl_convert.vegalite_to_svg(spec))
    for stand_in, colour in colours.items():
        drawing = drawing.replace(stand_in, colour)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
