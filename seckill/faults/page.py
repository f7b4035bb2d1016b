"""The results as one HTML page: which faults, how strong they were, what the books said. Needs no network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape

from seckill.consistency.page.style import STYLE
from seckill.faults.running import Row


def written(rows: Sequence[Row], seed: int, scale: float) -> str:
    run = [row for row in rows if row.verdict != "NOT RUN"]
    bad = [row for row in run if not row.behaved]
    mark, word = ("FAIL", "not as marked") if bad else ("PASS", "as marked")
    head = (
        f"<h1><span class={mark}>{word}</span> · {len(run) - len(bad)} of {len(run)} faults behaved as marked, "
        f"{len(rows) - len(run)} could not be run</h1>"
    )
    columns = ("", "case", "what happened", "in flight", "again", "recovered", "report", "must say", "")
    table = "".join(f"<th>{escape(name)}" for name in columns)
    taken = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>faults</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style></head><body>{head}"
        f"<table><tr>{table}{''.join(map(_row, rows))}</table>"
        f"<p class=dim>{taken} · seed {seed}, scale {scale:g} · “in flight”: requests in the log and not decided when "
        "the fault began · “again”: deliveries beyond the first, on the stack so far · “recovered”: from the first "
        "blow until every process was up, all that stood in the topics was worked off and a new "
        "buyer was answered · “✗”: there the report must "
        "not say PASS</p></body></html>\n"
    )


def _row(row: Row) -> str:
    if row.verdict == "NOT RUN":
        return f"<tr class=dim><td>{row.number}<td>{row.name}<td colspan=7>{escape(row.title)} — {escape(row.why)}"
    power = "; ".join(
        f"{escape(name)} {value:,}" if isinstance(value, int) else f"{escape(name)} {escape(value)}"
        for name, value in row.power.items()
    )
    name = f"<a href='{row.report}'>{row.name}</a>" if row.report else row.name
    mark = "<span class=PASS>as marked</span>" if row.behaved else f"<span class=FAIL>{escape(row.why)}</span>"
    return (
        f"<tr><td>{row.number}<td>{name}<td>{escape(row.title)}<br><span class=dim>{power}</span>"
        f"<td class=n>{'' if row.in_flight < 0 else f'{row.in_flight:,}'}<td class=n>{row.again or ''}"
        f"<td class=n>{'' if row.recovery_ms < 0 else f'{row.recovery_ms / 1000:.1f} s'}"
        f"<td>{row.verdict}<td>{escape(row.expected)}<td>{mark}"
    )
