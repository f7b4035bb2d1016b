"""Shell: write the result of a soak as STEM.md and STEM.svg: what the report said, what grew, and the curves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seckill.lab.faults.growth import MIB, WORK_TABLES, Sample, Series
from seckill.report.html import hardware
from seckill.report.verdicts import Judgement

HEIGHT = 190
CURVES_MAX = 8
"""Each chart shows the curves that end highest."""


def write_soak_page(
    stem: Path, command: str, counts: Mapping[str, object], judged: Sequence[Judgement], series: Sequence[Series],
    samples: Sequence[Sample],
) -> None:  # fmt: skip
    stem.with_suffix(".svg").write_text(growth_svg(samples), encoding="utf-8")
    lines = [
        "# Soak: sale after sale while processes die and freeze", "",
        f"Written by `{command}`; run it again to compare.", "",
        f"* machine: {hardware.describe_machine()}", f"* run: {time.strftime('%Y-%m-%d')}",
        *(f"* {name}: {value}" for name, value in counts.items()), "",
        f"![memory, open files, bytes per purchase]({stem.name}.svg)", "",
        "## What the report said", "",
        "| | invariant | verdict | checked |", "|---|---|---|---:|",
        *(f"| {each.invariant.name} | {each.invariant.title} | {each.verdict.value} | {each.checked:,} |"
          for each in judged), "",
        "## What grew", "",
        "`middle` and `last` are the medians of the second and of the last third of the run, because caches and pools"
        " fill up in the first third. A row grows if `last` exceeds `middle` by more than its limit.", "",
        "| | unit | middle | last | limit | |", "|---|---|---:|---:|---|---|",
        *(_row(each) for each in series), "",
    ]  # fmt: skip
    stem.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _row(each: Series) -> str:
    limit = f"+{each.limit.share:.0%} and {each.limit.slack:,.0f}"
    verdict = "**grows**" if each.grows else "flat"
    return f"| {each.what} | {each.unit} | {each.middle:,.0f} | {each.last:,.0f} | {limit} | {verdict} |"


def growth_svg(samples: Sequence[Sample]) -> str:
    """Memory, open files and bytes per purchase over time, as an SVG file of its own."""
    import altair as alt  # takes more than a second

    from seckill.report.html.charts import WIDTH, chart_of, file_svg

    memory = [
        {"minutes": sample.at_s / 60, "what": name, "value": process.rss / MIB}
        for sample in samples for name, process in sample.services.items()
    ]  # fmt: skip
    files = [
        {"minutes": sample.at_s / 60, "what": name, "value": process.files}
        for sample in samples for name, process in sample.services.items()
    ]  # fmt: skip
    kept = [
        {"minutes": sample.at_s / 60, "what": name, "value": size / max(1, sample.purchases)}
        for sample in samples
        for name, size in {**sample.tables, "Redis": sample.redis, "topics on disk": sample.topics}.items()
        if name not in WORK_TABLES and sample.purchases
    ]  # fmt: skip
    charts = [
        chart_of(_largest(rows))
        .mark_line(strokeWidth=1.3)
        .encode(
            x=alt.X("minutes:Q", title="minutes" if is_last else None),
            y=alt.Y("value:Q", title=title),
            color=alt.Color("what:N", title=None, legend=alt.Legend(orient="right")),
        )
        .properties(width=WIDTH, height=HEIGHT)
        for rows, title, is_last in (
            (memory, "memory, MiB", False),
            (files, "open files", False),
            (kept, "bytes per purchase", True),
        )
    ]
    label = "memory, open files and bytes per purchase during the soak"
    return file_svg(alt.vconcat(*charts).resolve_scale(color="independent"), label)


def _largest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ends = {row["what"]: row["value"] for row in rows}
    chosen = set(sorted(ends, key=lambda name: ends[name], reverse=True)[:CURVES_MAX])
    return [row for row in rows if row["what"] in chosen]
