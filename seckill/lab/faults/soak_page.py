"""The result of a soak as STEM.md with STEM.svg: what the report said, what grew, and the curves themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seckill.consistency.page import machine
from seckill.consistency.verdicts import Judged
from seckill.faults.growth import MIB, WORK_TABLES, Sample, Series

WIDTH, HEIGHT = 760, 190
LARGEST = 8
"""So many curves in one picture: those that end highest."""


def write(
    stem: Path, command: str, counts: Mapping[str, object], judged: Sequence[Judged], series: Sequence[Series],
    samples: Sequence[Sample],
) -> None:  # fmt: skip
    stem.with_suffix(".svg").write_text(picture(samples), encoding="utf-8")
    lines = [
        "# Soak: sale after sale while processes die and freeze", "",
        f"Written by `{command}`; run it again to compare.", "",
        f"* machine: {machine.described()}", f"* run: {time.strftime('%Y-%m-%d')}",
        *(f"* {name}: {value}" for name, value in counts.items()), "",
        f"![memory, open files, bytes a purchase]({stem.name}.svg)", "",
        "## What the report said", "",
        "| | invariant | verdict | looked at |", "|---|---|---|---:|",
        *(f"| {each.invariant.name} | {each.invariant.title} | {each.verdict.value} | {each.looked_at:,} |"
          for each in judged), "",
        "## What grew", "",
        "Medians of the second and of the last third of the run; in the first third everything fills up. A row grows if"
        " the last exceeds the middle by more than its limit.", "",
        "| | unit | middle | last | limit | |", "|---|---|---:|---:|---|---|",
        *(_row(each) for each in series), "",
    ]  # fmt: skip
    stem.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


def _row(each: Series) -> str:
    limit = f"+{each.limit.share:.0%} and {each.limit.slack:,.0f}"
    verdict = "**grows**" if each.grows else "flat"
    return f"| {each.what} | {each.unit} | {each.middle:,.0f} | {each.last:,.0f} | {limit} | {verdict} |"


def picture(samples: Sequence[Sample]) -> str:
    import altair as alt
    import vl_convert

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
        alt.Chart(alt.Data(values=_largest(rows)))  # type: ignore[no-untyped-call]
        .mark_line(strokeWidth=1.3)
        .encode(
            x=alt.X("minutes:Q", title="minutes" if last else None),
            y=alt.Y("value:Q", title=title),
            color=alt.Color("what:N", title=None),
        )
        .properties(width=WIDTH, height=HEIGHT)
        for rows, title, last in (
            (memory, "memory, MiB", False),
            (files, "open files", False),
            (kept, "bytes a purchase", True),
        )
    ]
    whole = alt.vconcat(*charts).resolve_scale(color="independent").properties(background="white")
    return str(vl_convert.vegalite_to_svg(whole.to_dict()))


def _largest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ends = {row["what"]: row["value"] for row in rows}
    chosen = set(sorted(ends, key=lambda name: ends[name], reverse=True)[:LARGEST])
    return [row for row in rows if row["what"] in chosen]
