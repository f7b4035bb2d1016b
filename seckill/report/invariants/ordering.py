"""Check order and time: first come, first served, inside the sale's window and before the deadline."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from seckill.report.evidence import Evidence
from seckill.report.identity import Id
from seckill.report.invariants import clocks
from seckill.report.rows import RESERVED, Attempt, Decision, RecordPosition, RequestRecord
from seckill.report.verdicts import Findings, Subject


def user_order_kept(evidence: Evidence, findings: Findings) -> None:
    """I16. The requests of a user stay in order: a request that was sent after an earlier one had been acknowledged
    comes after it in the log, among the decisions, among the order events and in each sink. Dead letters are decided
    out of order; they are counted instead."""
    pairs = list(_sent_in_turn(evidence.attempts))
    stages = dict(_stages(evidence, {request for pair in pairs for request in pair}))
    examined = {
        evidence.request_by_position[place].request_id
        for place in evidence.dead_request_by_position
        if place in evidence.request_by_position
    }
    for earlier, later in pairs:
        if earlier in examined or later in examined:
            findings.facts["dead letters, not compared"] = int(findings.facts.get("dead letters, not compared", 0)) + 1
            continue
        findings.checked += 1
        for stage, positions in stages.items():
            first, second = positions.get(earlier), positions.get(later)
            if first is not None and second is not None and not _is_before(first, second):
                findings.add_violation(
                    f"{stage}: {later} comes before {earlier}, which was sent earlier", Subject(later)
                )
    findings.facts["pairs of requests of one user"] = findings.checked
    findings.checked += len(evidence.attempts)  # even if no user sent two requests, something was checked


def _sent_in_turn(attempts: Iterable[Attempt]) -> Iterator[tuple[Id, Id]]:
    """Pairs of requests of one user, of which the second was first sent after the first had been answered."""
    began: dict[Id, int] = {}
    answered: dict[Id, int] = {}
    by_user: dict[str, dict[Id, None]] = defaultdict(dict)
    keys: dict[tuple[str, int, str], int] = {}
    for attempt in attempts:
        key = (attempt.user_id, attempt.sale_id, attempt.key)
        keys[key] = min(attempt.at_ms, keys.get(key, attempt.at_ms))
    for attempt in attempts:
        if attempt.status == 202 and attempt.request_id is not None:
            ended = attempt.at_ms + attempt.took_ms
            answered[attempt.request_id] = min(ended, answered.get(attempt.request_id, ended))
            began[attempt.request_id] = keys[attempt.user_id, attempt.sale_id, attempt.key]
            by_user[attempt.user_id][attempt.request_id] = None
    for requests in by_user.values():
        if len(requests) > 1:
            for earlier in requests:
                for later in requests:
                    if began[later] > answered[earlier]:
                        yield earlier, later


class Arrival(NamedTuple):
    """Ordered by offset within a partition, and by time across partitions, because a user may have been moved."""

    at_ms: int
    topic: str
    partition: int
    offset: int


def _is_before(first: Arrival, second: Arrival) -> bool:
    if (first.topic, first.partition) == (second.topic, second.partition):
        return first.offset < second.offset
    return first.at_ms <= second.at_ms


def _first(turns: dict[Id, Arrival], request: Id, at_ms: int, place: RecordPosition) -> None:
    turn = Arrival(at_ms, *place)
    turns[request] = min(turn, turns.get(request, turn))


def _stages(evidence: Evidence, wanted: Set[Id]) -> Iterator[tuple[str, dict[Id, Arrival]]]:
    """The first arrival of each of these requests at each stage."""
    logged = {request: evidence.first_request_by_id.get(request) for request in wanted}
    yield (
        "in the log",
        {
            request: Arrival(record.timestamp_ms, *record.position)
            for request, record in logged.items()
            if record is not None
        },
    )
    decisions: dict[Id, Arrival] = {}
    for record in evidence.decision_events:
        if record.request_id in wanted and record.decision != "UnitsReleased":
            _first(decisions, record.request_id, record.timestamp_ms, record.position)
    yield "among the decisions", decisions
    placed: dict[Id, Arrival] = {}
    request_of: dict[Id, Id] = {}
    for event in evidence.order_events:
        if event.request_id in wanted and event.event == "OrderPlaced":
            _first(placed, event.request_id, event.timestamp_ms, event.position)
            request_of[event.event_id] = event.request_id
    yield "among the order events", placed
    sinks: dict[str, dict[Id, Arrival]] = defaultdict(dict)
    for number, line in enumerate(evidence.sink_lines):
        if line.what == "effect" and line.event_id in request_of:
            sinks[line.channel].setdefault(request_of[line.event_id], Arrival(line.at_ms, line.channel, 0, number))
    for channel, positions in sinks.items():
        yield f"in the sink of {channel}", positions


def served_in_arrival_order(evidence: Evidence, findings: Findings) -> None:
    """I17. Within a partition, no request is served after an earlier request for no more units was refused as sold out,
    unless units came back in between or a dead letter was replayed. Across partitions such inversions are allowed; they
    are counted, with the longest time between the two requests."""
    rows = [
        (evidence.request_by_position[row.position], row)
        for row in evidence.decisions
        if row.position in evidence.request_by_position
        and row.position not in evidence.dead_request_by_position
        and row.decision in (RESERVED, "SOLD_OUT")
    ]
    returns = _return_versions(evidence)
    articles: dict[tuple[int, str], list[tuple[RequestRecord, Decision]]] = defaultdict(list)
    partitions: dict[tuple[int, str, int, str], list[tuple[RequestRecord, Decision]]] = defaultdict(list)
    for record, row in rows:
        articles[row.sale_id, row.sku].append((record, row))
        partitions[row.sale_id, row.sku, record.position.partition, record.position.topic].append((record, row))
    findings.checked += len(rows)
    for (sale_id, sku, *_), group in partitions.items():
        group.sort(key=lambda pair: pair[0].position.offset)
        for record, row, before, _ in _inversions(group, returns.get((sale_id, sku), [])):
            findings.add_violation(
                f"served at {record.position} although {before} came earlier and was refused", _of(row)
            )
    count, regret_ms = 0, 0
    for article, group in articles.items():
        group.sort(key=lambda pair: pair[0].timestamp_ms)
        for *_, waited_ms in _inversions(group, returns.get(article, [])):
            count, regret_ms = count + 1, max(regret_ms, waited_ms)
    findings.facts["inversions across partitions"] = count
    findings.facts["longest inversion, ms"] = regret_ms


def _inversions(
    group: Iterable[tuple[RequestRecord, Decision]], returns: list[int]
) -> Iterator[tuple[RequestRecord, Decision, Id, int]]:
    """Requests served after an earlier request for no more units was refused as sold out, with the first such request
    since units last came back. `returns`: the stock versions at which they did."""
    refused: dict[int, list[tuple[RequestRecord, Decision]]] = defaultdict(list)  # by quantity, by rising version
    for record, row in group:
        if row.decision == "SOLD_OUT":
            known = refused[row.quantity]
            if not known or known[-1][1].stock_version < row.stock_version:
                known.append((record, row))
            continue
        number = bisect_left(returns, row.stock_version)
        last_return = returns[number - 1] if number else 0
        for quantity, known in refused.items():
            first = bisect_left(known, last_return, key=lambda pair: pair[1].stock_version)
            if quantity > row.quantity or first == len(known):
                continue
            before = known[first][0]
            if before.timestamp_ms <= record.timestamp_ms:
                yield record, row, before.request_id, record.timestamp_ms - before.timestamp_ms
                break


def _return_versions(evidence: Evidence) -> dict[tuple[int, str], list[int]]:
    """By article, the stock versions at which units came back or were added."""
    return {
        (stock.sale_id, stock.sku): [
            entry.version
            for entry in evidence.entries_by_stock.get(stock.id, ())
            if entry.credit == "available" and entry.kind != "declare"
        ]
        for stock in evidence.stocks
    }


def admitted_inside_the_window(evidence: Evidence, findings: Findings) -> None:
    """I18. No request is admitted before its sale opens or after it closes, by the clock of Redis. By the clock of the
    broker, no request reaches the log before its sale opens, or too long after it closed to have been admitted in
    time."""
    sent = clocks.attempts_of(evidence)
    windows = {sale.id: sale for sale in evidence.sales}
    for record in evidence.requests:
        findings.checked += 1
        sale = windows.get(record.sale_id)
        subject = Subject(record.request_id)
        if sale is None:
            row = evidence.decision_by_request.get(record.request_id)
            if row is not None and row.decision != "INVALID":
                findings.add_violation(f"{row.decision} in sale {record.sale_id}, which does not exist", subject)
        elif not sale.opens_at_ms <= record.admitted_at_ms < sale.closes_at_ms:
            late_ms = record.admitted_at_ms - sale.closes_at_ms
            when = (
                f"{late_ms} ms after its end"
                if late_ms >= 0
                else f"{sale.opens_at_ms - record.admitted_at_ms} ms before its start"
            )
            findings.add_violation(f"admitted to sale {sale.id} {when}", subject)
        elif record.timestamp_ms < sale.opens_at_ms - clocks.SKEW_MS:
            findings.add_violation(
                f"in the log {sale.opens_at_ms - record.timestamp_ms} ms before sale {sale.id} opened", subject
            )
        elif record is evidence.first_request_by_id[record.request_id] and not clocks.is_in_time(
            evidence, findings, sent, record, sale.closes_at_ms
        ):
            late_ms = record.timestamp_ms - sale.closes_at_ms
            findings.add_violation(
                f"in the log {late_ms} ms after the end of sale {sale.id}, without an attempt at that time", subject
            )


def reserved_before_the_deadline(evidence: Evidence, findings: Findings) -> None:
    """I19. No request is reserved after its deadline, and none is refused as too late before it."""
    for row in evidence.decisions:
        findings.checked += 1
        late_ms = row.decided_at_ms - row.deadline_ms
        record = evidence.request_by_position.get(row.position)
        if record is not None and (record.admitted_at_ms, record.deadline_ms) != (row.admitted_at_ms, row.deadline_ms):
            findings.add_violation("decided with another deadline than the one in the log", _of(row))
        if row.decision == RESERVED and late_ms > 0:
            findings.add_violation(f"reserved {late_ms} ms after its deadline", _of(row))
        elif row.decision == "TOO_LATE" and late_ms <= 0:
            findings.add_violation(f"refused as too late {-late_ms} ms before its deadline", _of(row))


def _of(row: Decision) -> Subject:
    return Subject(row.request_id)
