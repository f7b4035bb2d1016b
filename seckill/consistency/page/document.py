"""The page: one sentence, the invariants, the pictures, the evidence, in this order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape

from seckill.consistency import timeline
from seckill.consistency.evidence import Evidence
from seckill.consistency.page import figures, pictures
from seckill.consistency.rows import SOURCES
from seckill.consistency.verdicts import NOBODY, Judged, Verdict, overall

MOST_EXAMPLES = 5
STYLE = """
:root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--dim:#666;--line:#ddd;--a:#0b62a8;--b:#b35900;--c:#2d7a3a;
--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--dim:#a0a0a0;--line:#3a3a3a;--a:#6db3f2;--b:#f0a35e;
--c:#7cc98a;--bad:#ff8a80}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:960px;
margin:32px auto;padding:0 16px}
h1{font-size:22px}h2{font-size:22px;margin-top:40px}table{border-collapse:collapse;width:100%;
font-variant-numeric:tabular-nums}
td,th{text-align:left;padding:4px 8px;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
.FAIL{color:var(--bad);font-weight:600}.UNKNOWN{color:var(--b);font-weight:600}.PASS{color:var(--c)}.NOT{color:var(--dim)}
.dim,.unit{color:var(--dim);fill:var(--dim)}svg{width:100%;height:auto;font-size:13px}svg text{fill:currentColor}
.a{fill:var(--a);stroke:var(--a)}.b{fill:var(--b);stroke:var(--b)}.c{fill:var(--c);stroke:var(--c)}
.line{fill:none;stroke-width:1.5}.area{opacity:.35;stroke:none}.axis{stroke:var(--line)}svg text.name{stroke:none}
svg text.a{fill:var(--a)}svg text.b{fill:var(--b)}svg text.c{fill:var(--c)}details{margin:8px 0}summary{cursor:pointer}
@media print{details{display:block}}
"""


def written(evidence: Evidence, judged: Sequence[Judged]) -> str:
    total = overall(list(judged))
    return "".join(
        [
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>",
            f"{total.value} · consistency report</title><meta name=viewport content='width=device-width'>",
            f"<style>{STYLE}</style></head><body>",
            f"<h1><span class='{_style(total)}'>{total.value}</span> · {escape(sentence(evidence, judged))}</h1>",
            *(f"<p class=UNKNOWN>not drained: {escape(reason)}</p>" for reason in evidence.under_way),
            _invariants(judged),
            *(_story(evidence, each) for each in judged if each.verdict in (Verdict.FAIL, Verdict.UNKNOWN)),
            _pictures(evidence),
            _books(evidence),
            _sources(evidence),
            "</body></html>\n",
        ]
    )


def sentence(evidence: Evidence, judged: Sequence[Judged]) -> str:
    """The verdict with its numbers."""
    run = [each for each in judged if each.verdict is not Verdict.NOT_RUN]
    holds = sum(each.verdict is Verdict.PASS for each in run)
    declared = sum(entry.units for entry in evidence.ledger if entry.kind == "declare")
    sold = sum(stock.sold for stock in evidence.stocks)
    over = sum(max(0, stock.reserved + stock.sold - _supplied(evidence, stock.id)) for stock in evidence.stocks)
    return (
        f"{len(evidence.attempts):,} attempts, {declared:,} units, {len(evidence.injected):,} faults: "
        f"{holds} of {len(run)} invariants hold, {sold:,} sold, {over:,} oversold"
    )


def _supplied(evidence: Evidence, stock_id: int) -> int:
    entries = evidence.entries.get(stock_id, ())
    return sum(entry.units * ((entry.debit == "supply") - (entry.credit == "supply")) for entry in entries)


def _invariants(judged: Sequence[Judged]) -> str:
    rows = []
    for each in judged:
        facts = "; ".join(f"{name}: {value}" for name, value in each.facts.items())
        found = each.violations[0].text if each.violations else "; ".join(each.reasons[:2]) or facts
        rows.append(
            f"<tr><td>{each.invariant.name}<td>{escape(each.invariant.title)}"
            f"<td class='{_style(each.verdict)}'>{each.verdict.value}<td class=n>{each.looked_at:,}"
            f"<td class=n>{len(each.violations):,}<td class=dim>{escape(found)}"
        )
    head = "<th><th>invariant<th>verdict<th class=n>looked at<th class=n>violations<th>what was found"
    return f"<h2>Invariants</h2><table><tr>{head}{''.join(rows)}</table>"


def _story(evidence: Evidence, each: Judged) -> str:
    listed = "".join(
        f"<li>{escape(violation.text)} <span class=dim>{escape(str(violation.subject))}</span>"
        for violation in each.violations[:MOST_EXAMPLES]
    )
    reasons = "".join(f"<li>{escape(reason)}" for reason in each.reasons[:MOST_EXAMPLES])
    example = next((violation.subject for violation in each.violations if violation.subject != NOBODY), None)
    told = ""
    if example is not None:
        rows = "".join(
            f"<tr><td>{_clock(moment.at_ms)}<td>{escape(moment.where)}<td>{escape(moment.what)}"
            for moment in timeline.of(evidence, example)
        )
        told = f"<p>the whole story of {escape(str(example))}</p><table>{rows}</table>"
    title = f"{each.invariant.name} {escape(each.invariant.title)}"
    summary = f"<summary class='{_style(each.verdict)}'>{title}</summary>"
    return f"<details open>{summary}<ul>{reasons}{listed}</ul>{told}</details>"


def _pictures(evidence: Evidence) -> str:
    parts = ["<h2>How far they came</h2>", pictures.bars(figures.funnel(evidence))]
    peak = figures.peak(evidence)
    if peak is not None:
        series = [
            ("offered", "a", peak.offered),
            ("acknowledged", "b", peak.acknowledged),
            ("decided", "c", peak.decided),
        ]
        parts += [
            "<h2>The peak, absorbed</h2>",
            pictures.lines(series, peak.step_ms, "per second"),
            pictures.lines(
                [("backlog", "a", [float(count) for count in peak.backlog])], peak.step_ms, "requests", True
            ),
        ]
    rows = "".join(
        f"<tr><td>{escape(row.stage)}" + "".join(f"<td class=n>{value:,}" for value in row[1:])
        for row in figures.latencies(evidence)
    )
    head = "<th>stage" + "".join(f"<th class=n>{name}" for name in ("count", "p50 ms", "p90 ms", "p99 ms", "most ms"))
    return "".join(parts) + f"<h2>How long it took</h2><table><tr>{head}{rows}</table>"


def _books(evidence: Evidence) -> str:
    parts = ["<h2>The books</h2>"]
    for stock in evidence.stocks:
        head = "<th>account<th>debit<th>credit<th class=n>balance"
        rows = "".join(
            f"<tr><td>{account.name}<td>{_moves(account.debits.items())}<td>{_moves(account.credits.items())}"
            f"<td class=n>{account.balance:,}"
            for account in figures.accounts(evidence, stock)
        )
        name = f"sale {stock.sale_id}, {escape(stock.sku)}, {stock.declared:,} declared"
        parts.append(f"<h3>{name}</h3><table><tr>{head}{rows}</table>")
    return "".join(parts)


def _moves(moves: Iterable[tuple[str, int]]) -> str:
    return "<br>".join(f"{escape(kind)} {units:,}" for kind, units in moves)


def _sources(evidence: Evidence) -> str:
    rows = []
    for letter, source in evidence.sources.items():
        read = ", ".join(f"{name} {count:,}" for name, count in source.counts.items() if count)
        state = "declared off" if letter in evidence.off else "; ".join(source.faults) or ("whole" if read else "empty")
        rows.append(f"<tr><td>{letter}<td>{escape(SOURCES[letter])}<td>{escape(read)}<td>{escape(state)}")
    cut = ", ".join(f"{log.topic}-{log.partition}: {log.start}–{log.cut}" for log in evidence.logs)
    taken = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(evidence.taken_at_ms / 1000))
    return (
        f"<h2>The evidence</h2><p>taken {taken}</p><table>{''.join(rows)}</table>"
        f"<details><summary>the cut</summary><p class=dim>{escape(cut)}</p></details>"
    )


def _style(verdict: Verdict) -> str:
    return verdict.value.split()[0]


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"
