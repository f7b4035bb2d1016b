"""Codec: the ratios as a picture, SVG written by hand: one bar a row, on a scale of doublings around 1 ×.

To the right is always better: where less is better the ratio is turned over.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log2
from statistics import median

from loadtest.broker.report import KAFKA, Measured, number
from loadtest.broker.rows import LESS

WIDTH, ROW, TOP, TITLES = 960, 24, 64, 400
LOWEST, HIGHEST = -2.0, 6.0  # doublings: ¼ × to 64 ×
GREEN, RED, GREY, INK = "#2f7d4f", "#b3412e", "#7a8794", "#1d2733"


def svg(rows: Sequence[Measured], subtitle: str) -> str:
    """All rows that have a ratio to Kafka."""
    shown = [measured for measured in rows if measured.ratios(KAFKA)]
    height = TOP + ROW * len(shown) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        f' font-size="12" fill="{INK}" role="img">',
        "<title>mqcore beside Apache Kafka</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="16" y="24" font-size="16" font-weight="bold">mqcore beside Apache Kafka</text>',
        f'<text x="16" y="44" fill="{GREY}">{escape(subtitle)}</text>',
    ]
    for doubling in range(int(LOWEST), int(HIGHEST) + 1):
        x, label = _x(doubling), f"{2**doubling}×" if doubling >= 0 else f"1/{2**-doubling}×"
        stroke = INK if doubling == 0 else "#dfe4e8"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 26}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle" fill="{GREY}">{label}</text>')
    for line, measured in enumerate(shown):
        parts += _bar(measured, TOP + ROW * line)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(measured: Measured, y: int) -> list[str]:
    ratios = measured.ratios(KAFKA)
    goods = sorted(1 / ratio if measured.figure.better == LESS else ratio for ratio in ratios)
    good = median(goods)
    color = {True: GREEN, False: RED, None: GREY}[measured.reached()]
    zero, end, low, high = (_x(log2(ratio)) for ratio in (1.0, good, goods[0], goods[-1]))
    left, width, middle = min(zero, end), abs(end - zero), y + ROW / 2
    parts = [
        f'<text x="{TITLES - 8}" y="{middle + 4}" text-anchor="end">{escape(measured.figure.title)}</text>',
        f'<rect x="{left:.1f}" y="{y + 5}" width="{width:.1f}" height="{ROW - 10}" fill="{color}"/>',
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{INK}"/>',
        f'<text x="{max(zero, high) + 6:.1f}" y="{middle + 4}">{number(good)}×</text>',
    ]
    if measured.goal is not None:
        goal = _x(log2(1 / measured.goal if measured.figure.better == LESS else measured.goal))
        parts.append(
            f'<line x1="{goal:.1f}" x2="{goal:.1f}" y1="{y + 2}" y2="{y + ROW - 2}" stroke="{INK}" stroke-width="2"/>'
        )
    return parts


def _x(doublings: float) -> float:
    within = min(HIGHEST, max(LOWEST, doublings))
    return TITLES + (WIDTH - TITLES - 60) * (within - LOWEST) / (HIGHEST - LOWEST)
