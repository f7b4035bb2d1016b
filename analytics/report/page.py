"""The page: one sentence, the pictures, and what they rest on, in this order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from analytics.measures.people import SUSPECT_GAP_MS, SUSPECT_REQUESTS
from analytics.report import figures, pictures
from analytics.report.reading import Found
from analytics.schemas import DECISIONS

STYLE = """
:root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--dim:#5c5c5c;--line:#ddd}
@media (prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--dim:#a8a8a8;--line:#3a3a3a}}
@media print{:root{--fg:#000;--bg:#fff}section{break-inside:avoid}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:960px;
margin:32px auto;padding:0 16px}
h1,h2{font-size:22px}h2{margin-top:40px}p.dim,td.dim{color:var(--dim)}svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{text-align:left;padding:4px 12px 4px 0;
border-bottom:1px solid var(--line);font-weight:normal}th{color:var(--dim)}td.n,th.n{text-align:right}
"""
ABSENT = "<p class=dim>nothing of the kind has happened yet</p>"


def sentence(found: Found) -> str:
    counts = {stage.stage: stage.purchases for stage in figures.funnel(found.totals)}
    records = sum(row["records"] for row in found.partitions)
    waits = [each for each in figures.latencies(found.latency) if each.stage == "decision"]
    decided = f", decided within {waits[0].p99_ms:,.0f} ms (p99)" if waits else ""
    return (
        f"{counts['requested']:,} requests, {counts['reserved']:,} reserved, {counts['paid']:,} paid{decided}; "
        f"from {records:,} records"
    )


def written(found: Found) -> str:
    updated = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found.updated_ms / 1000))
    return "".join(
        [
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>Statistics of the sale</title>",
            f"<meta name=viewport content='width=device-width'><style>{STYLE}</style></head><body>",
            f"<h1>{escape(sentence(found))}</h1>",
            f"<p class=dim>{found.kind} run {found.run}, added to last at {updated}</p>",
            _section("How far they came", found.totals, pictures.funnel),
            _section("The peak, absorbed", found.flow, lambda flow: pictures.peak(flow, found.step_ms)),
            _section("Waiting for a decision", found.flow, lambda flow: pictures.backlog(flow, found.step_ms)),
            _section("Decisions", _decided(found), lambda flow: pictures.decisions(flow, found.step_ms)),
            _section("How fast it sold", found.sell_through, lambda rows: pictures.sell_through(rows, found.step_ms)),
            _section("How long it took", found.latency, pictures.latency, _latencies(found)),
            _section("First come, first served?", found.fairness, pictures.fairness, _fairness(found)),
            _section("What they wanted", found.skus, pictures.skus),
            _section("Revenue", found.revenue, pictures.revenue),
            _section("Who asked how often", found.buyers, lambda _: _buyers(found)),
            _section("What was read", found.partitions, lambda _: _read(found)),
            "</body></html>\n",
        ]
    )


def as_json(found: Found) -> dict[str, Any]:
    plain = asdict(found) | {"run": str(found.run)}
    plain["percentiles"] = [each._asdict() for each in figures.latencies(found.latency)]
    plain["funnel"] = [each._asdict() for each in figures.funnel(found.totals)]
    plain["order_of_success"] = figures.fairness(found.fairness)._asdict()
    return plain


def _section(title: str, rows: Sequence[Any], draw: Callable[[Any], str], more: str = "") -> str:
    return f"<section><h2>{title}</h2>{draw(rows) + more if rows else ABSENT}</section>"


def _decided(found: Found) -> list[dict[str, Any]]:
    return [row for row in found.flow if row["kind"] in DECISIONS]


def _latencies(found: Found) -> str:
    rows = (
        (each.stage, f"{each.events:,}", f"{each.p50_ms:,.0f}", f"{each.p95_ms:,.0f}", f"{each.p99_ms:,.0f}",
         f"{each.most_ms:,}")
        for each in figures.latencies(found.latency)
    )  # fmt: skip
    note = "<p class=dim>From admission. Percentiles are read from buckets, and right to within 4.5 %.</p>"
    return _table(("stage", "events", "p50 ms", "p95 ms", "p99 ms", "most ms"), rows) + note


def _fairness(found: Found) -> str:
    fair = figures.fairness(found.fairness)
    return (
        f"<p class=dim>Of all pairs of one refused and one granted, {fair.inversions:.2%} have the refused one first; "
        f"the widest of them is {fair.regret_ms:,} ms. Units that came back are among them, and requests of the same "
        "tenth of a second count as neither.</p>"
    )


def _buyers(found: Found) -> str:
    most = max(row["requests"] for row in found.buyers)
    name = {most: f"{most} or more"} if most >= 20 else {}
    rows = ((name.get(row["requests"], str(row["requests"])), f"{row['buyers']:,}") for row in found.buyers)
    told = _table(("requests in a sale", "buyers"), rows)
    told += (
        f"<p>Suspected to be bots: {found.suspect_count:,} ({SUSPECT_REQUESTS} requests or more, on average less than "
        f"{SUSPECT_GAP_MS:,} ms apart).</p>"
    )
    suspects = (
        (escape(row["user_id"]), str(row["sale_id"]), f"{row['requests']:,}", f"{row['refused']:,}",
         f"{row['granted']:,}", f"{row['last_ms'] - row['first_ms']:,}")
        for row in found.suspects
    )  # fmt: skip
    head = ("suspect", "sale", "requests", "refused for asking twice", "granted", "within ms")
    return told + (_table(head, suspects) if found.suspects else "")


def _read(found: Found) -> str:
    rows = (
        (row["topic"], f"{row['records']:,}", f"{row['events']:,}",
         f"{row['records'] - row['events'] - row['unreadable']:,}", f"{row['unreadable']:,}", f"{row['late']:,}",
         f"{row['holes']:,}")
        for row in found.partitions
    )  # fmt: skip
    head = ("topic", "records", "distinct events", "duplicates", "unreadable", "late", "offsets without a record")
    told = _table(head, rows)
    if found.faults:
        told += _table(
            ("unreadable in", "because", "records"),
            ((row["topic"], escape(row["fault"]), f"{row['records']:,}") for row in found.faults),
        )
    return told + "<p class=dim>Late ones are counted like any other. Nothing is dropped for being late.</p>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is a name, the others are numbers unless they say otherwise."""
    cells = "".join(f"<th{' class=n' if number else ''}>{name}" for number, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if number else ''}>{value}" for number, value in enumerate(row))
        for row in rows
    )
    return f"<table><tr>{cells}</tr>{body}</table>"
