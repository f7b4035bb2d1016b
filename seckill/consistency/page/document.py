"""The page: one sentence, the invariants, the pictures, the evidence, in this order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape

from seckill.consistency import timeline
from seckill.consistency.evidence import Evidence
from seckill.consistency.observed import unplanned
from seckill.consistency.page import figures, machine, pictures
from seckill.consistency.page.style import STYLE
from seckill.consistency.rows import SOURCES
from seckill.consistency.verdicts import NOBODY, Judged, Verdict, overall

MOST_EXAMPLES = 5
MOST_RUNS = 10


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
            f"<tr><td>{each.invariant.name}<td class=w>{escape(each.invariant.title)}"
            f"<br><span class=dim>{escape(_contract(each))}</span>"
            f"<td class='{_style(each.verdict)}'>{each.verdict.value}<td>{' '.join(each.invariant.needs) or 'all'}"
            f"<td class=n>{each.looked_at:,}<td class=n>{len(each.violations):,}<td class='dim f'>{escape(found)}"
        )
    head = "<th><th>invariant<th>verdict<th>sources<th class=n>looked at<th class=n>violations<th>what was found"
    return f"<h2>Invariants</h2><table><tr>{head}{''.join(rows)}</table>"


def _contract(each: Judged) -> str:
    """What holds if it holds, in the words of its check."""
    words = " ".join((each.invariant.check.__doc__ or "").split())
    return words.partition(". ")[2]


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
    """Of a run in which nothing happened there is nothing to draw."""
    parts = ["<h2>How far they came</h2>", pictures.funnel(figures.funnel(evidence))]
    peak = figures.peak(evidence)
    if peak is None:
        return "".join(parts)
    bands = figures.bands(evidence, peak)
    parts += ["<h2>The peak, absorbed</h2>", pictures.peak(peak, bands, figures.sold_out_s(evidence, peak))]
    rows = figures.latencies(evidence)
    if rows:
        parts += ["<h2>How long it took</h2>", pictures.latencies(rows), _percentiles(rows)]
    levels = figures.sell_through(evidence, peak.began_ms)
    if levels:
        declared = sum(entry.units for entry in evidence.ledger if entry.kind == "declare")
        parts += ["<h2>Units held and sold</h2>", pictures.sell_through(levels, declared)]
    shares = figures.fairness(evidence)
    if shares:
        parts += ["<h2>First come, first served</h2>", pictures.fairness(shares)]
    return "".join(parts)


def _percentiles(rows: Sequence[figures.Latency]) -> str:
    body = "".join(
        f"<tr><td>{escape(row.stage)}" + "".join(f"<td class=n>{value:,}" for value in row[1:]) for row in rows
    )
    names = ("count", "p50 ms", "p90 ms", "p99 ms", "most ms")
    head = "<th>stage" + "".join(f"<th class=n>{name}" for name in names)
    return f"<details><summary>in numbers</summary><table><tr>{head}{body}</table></details>"


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
        f"<h2>The evidence</h2><p>taken {taken}</p>{_origin(evidence)}<table>{''.join(rows)}</table>"
        f"<details><summary>the cut</summary><p class=dim>{escape(cut)}</p></details>"
    )


def _origin(evidence: Evidence) -> str:
    """On what it ran, and how to do it again."""
    runs = "".join(
        f"<li>sale {escape(str(run.get('sale', '?')))}, {escape(str(run.get('buyers', '?')))} buyers"
        + (f", seed {escape(str(run['seed']))}" if "seed" in run else "")
        + (f"<br><code>{escape(str(run['command']))}</code>" if run.get("command") else "")
        for run in evidence.runs[:MOST_RUNS]
    )
    more = f"<li>and {len(evidence.runs) - MOST_RUNS} more" if len(evidence.runs) > MOST_RUNS else ""
    faults = ", ".join(evidence.faults_planned) or "none"
    return (
        f"<p class=dim>{escape(machine.described())}</p><p>faults planned: {escape(faults)}</p>"
        f"<p>faults observed, not planned: {_unplanned(evidence)}</p>"
        f"<ul>{runs}{more}</ul><p>again: <code>seckill report</code></p>"
    )


def _unplanned(evidence: Evidence) -> str:
    listed = "".join(f"<li>{_clock(each.at_ms)} {escape(each.what)}" for each in unplanned(evidence))
    return f"</p><ul>{listed}</ul><p>" if listed else "none"


def _style(verdict: Verdict) -> str:
    return verdict.value.split()[0]


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"
