"""Order and time: first come is first served, inside the window and before the deadline, by one clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from seckill.consistency.evidence import Evidence
from seckill.consistency.identity import Id
from seckill.consistency.invariants import clocks
from seckill.consistency.rows import RESERVED, Attempt, Decided, Place, Requested
from seckill.consistency.verdicts import Found, Subject


def one_users_order(evidence: Evidence, found: Found) -> None:
    """I16. What a client sent after an earlier request of his was acknowledged comes after it: in the log, among the
    decisions, among the order events, and in each sink. Dead letters, worked on out of turn, are excepted, and
    counted."""
    pairs = list(_sent_in_turn(evidence.attempts))
    stages = dict(_stages(evidence, {request for pair in pairs for request in pair}))
    examined = {
        evidence.requested_at[place].request_id for place in evidence.dead_requests if place in evidence.requested_at
    }
    for earlier, later in pairs:
        if earlier in examined or later in examined:
            found.facts["dead letters, excepted"] = int(found.facts.get("dead letters, excepted", 0)) + 1
            continue
        found.looked_at += 1
        for stage, positions in stages.items():
            first, second = positions.get(earlier), positions.get(later)
            if first is not None and second is not None and not _is_before(first, second):
                found.say_wrong(f"{stage}: {later} comes before {earlier}, which was sent first", Subject(later))
    found.facts["pairs of one user"] = found.looked_at
    found.looked_at += len(evidence.attempts)  # nobody sent two: the rule holds for what there is


def _sent_in_turn(attempts: Iterable[Attempt]) -> Iterator[tuple[Id, Id]]:
    """Pairs of requests of a user, in one sale or in two; the second was first sent after the answer to the first."""
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


class Turn(NamedTuple):
    """When something came: by offset within a partition, by time across them (a user's slot may have been moved, or he
    diverted)."""

    at_ms: int
    partition: int
    offset: int
    topic: str = ""


def _is_before(first: Turn, second: Turn) -> bool:
    if (first.topic, first.partition) == (second.topic, second.partition):
        return first.offset < second.offset
    return first.at_ms <= second.at_ms


def _first(turns: dict[Id, Turn], request: Id, at_ms: int, place: Place) -> None:
    turn = Turn(at_ms, *place)
    turns[request] = min(turn, turns.get(request, turn))


def _stages(evidence: Evidence, wanted: Set[Id]) -> Iterator[tuple[str, dict[Id, Turn]]]:
    """When each of these requests first comes at each stage."""
    logged = {request: evidence.first_requested.get(request) for request in wanted}
    yield (
        "in the log",
        {request: Turn(said.timestamp_ms, *said.place) for request, said in logged.items() if said is not None},
    )
    decisions: dict[Id, Turn] = {}
    for said in evidence.decisions_said:
        if said.request_id in wanted and said.decision != "UnitsReleased":
            _first(decisions, said.request_id, said.timestamp_ms, said.place)
    yield "among the decisions", decisions
    placed: dict[Id, Turn] = {}
    request_of: dict[Id, Id] = {}
    for event in evidence.orders_said:
        if event.request_id in wanted and event.event == "OrderPlaced":
            _first(placed, event.request_id, event.timestamp_ms, event.place)
            request_of[event.event_id] = event.request_id
    yield "among the order events", placed
    sinks: dict[str, dict[Id, Turn]] = defaultdict(dict)
    for number, line in enumerate(evidence.sink):
        if line.what == "effect" and line.event_id in request_of:
            sinks[line.channel].setdefault(request_of[line.event_id], Turn(line.at_ms, 0, number))
    for channel, positions in sinks.items():
        yield f"in the sink of {channel}", positions


def fair(evidence: Evidence, found: Found) -> None:
    """I17, graded. Within a partition nobody is served while an earlier one who wanted no more is sent away; units that
    came back in between, and dead letters, are excepted. Across partitions inversions are counted, and how long before
    the served one the other had come."""
    rows = [
        (evidence.requested_at[row.place], row)
        for row in evidence.decided
        if row.place in evidence.requested_at
        and row.place not in evidence.dead_requests
        and row.decision in (RESERVED, "SOLD_OUT")
    ]
    backs = _backs(evidence)
    articles: dict[tuple[int, str], list[tuple[Requested, Decided]]] = defaultdict(list)
    partitions: dict[tuple[int, str, int, str], list[tuple[Requested, Decided]]] = defaultdict(list)
    for said, row in rows:
        articles[row.sale_id, row.sku].append((said, row))
        partitions[row.sale_id, row.sku, said.place.partition, said.place.topic].append((said, row))
    found.looked_at += len(rows)
    for (sale_id, sku, *_), group in partitions.items():
        group.sort(key=lambda pair: pair[0].place.offset)
        for said, row, before, _ in _inversions(group, backs.get((sale_id, sku), [])):
            found.say_wrong(f"served at {said.place}, while {before} stood before it and was sent away", _of(row))
    count, regret_ms = 0, 0
    for article, group in articles.items():
        group.sort(key=lambda pair: pair[0].timestamp_ms)
        for *_, waited_ms in _inversions(group, backs.get(article, [])):
            count, regret_ms = count + 1, max(regret_ms, waited_ms)
    found.facts["inversions across partitions"] = count
    found.facts["most regret, ms"] = regret_ms


def _inversions(
    group: Iterable[tuple[Requested, Decided]], backs: list[int]
) -> Iterator[tuple[Requested, Decided, Id, int]]:
    """Who was served after an earlier one, of no more units, had been sent away for want of stock."""
    refused: dict[int, tuple[Requested, Decided]] = {}  # the first of each quantity
    for said, row in group:
        if row.decision == "SOLD_OUT":
            refused.setdefault(row.quantity, (said, row))
            continue
        for quantity, (before, sent_away) in refused.items():
            if quantity > row.quantity or before.timestamp_ms > said.timestamp_ms:
                continue
            if not _between(backs, sent_away.stock_version, row.stock_version):
                yield said, row, before.request_id, said.timestamp_ms - before.timestamp_ms
                break


def _between(versions: list[int], after: int, before: int) -> bool:
    return bisect_left(versions, before) > bisect_right(versions, after)


def _backs(evidence: Evidence) -> dict[tuple[int, str], list[int]]:
    """The versions at which units came back or were added, by article."""
    return {
        (stock.sale_id, stock.sku): [
            entry.version
            for entry in evidence.entries.get(stock.id, ())
            if entry.credit == "available" and entry.kind != "declare"
        ]
        for stock in evidence.stocks
    }


def inside_the_window(evidence: Evidence, found: Found) -> None:
    """I18. Nothing was admitted before its sale opened or after it closed, by the one clock; nor did the log, by its
    own, take in a request before its sale opened, or so long after it closed that no admission explains it."""
    sent = clocks.attempts_of(evidence)
    windows = {sale.id: sale for sale in evidence.sales}
    for said in evidence.requested:
        found.looked_at += 1
        sale = windows.get(said.sale_id)
        subject = Subject(said.request_id)
        if sale is None:
            row = evidence.decision_of.get(said.request_id)
            if row is not None and row.decision != "INVALID":
                found.say_wrong(f"{row.decision} in sale {said.sale_id}, which is not there", subject)
        elif not sale.opens_at_ms <= said.admitted_at_ms < sale.closes_at_ms:
            late_ms = said.admitted_at_ms - sale.closes_at_ms
            when = (
                f"{late_ms} ms after its end" if late_ms >= 0 else f"{sale.opens_at_ms - said.admitted_at_ms} ms early"
            )
            found.say_wrong(f"admitted to sale {sale.id} {when}", subject)
        elif said.timestamp_ms < sale.opens_at_ms - clocks.SKEW_MS:
            found.say_wrong(
                f"in the log {sale.opens_at_ms - said.timestamp_ms} ms before sale {sale.id} opened", subject
            )
        elif said is evidence.first_requested[said.request_id] and not clocks.is_in_time(
            evidence, found, sent, said, sale.closes_at_ms
        ):
            late_ms = said.timestamp_ms - sale.closes_at_ms
            found.say_wrong(f"in the log {late_ms} ms after the end of sale {sale.id}, and not sent then", subject)


def before_the_deadline(evidence: Evidence, found: Found) -> None:
    """I19. Nothing is reserved past its deadline, and nothing is called too late before it."""
    for row in evidence.decided:
        found.looked_at += 1
        late_ms = row.decided_at_ms - row.deadline_ms
        said = evidence.requested_at.get(row.place)
        if said is not None and (said.admitted_at_ms, said.deadline_ms) != (row.admitted_at_ms, row.deadline_ms):
            found.say_wrong("decided by another deadline than it was given", _of(row))
        if row.decision == RESERVED and late_ms > 0:
            found.say_wrong(f"reserved {late_ms} ms past its deadline", _of(row))
        elif row.decision == "TOO_LATE" and late_ms <= 0:
            found.say_wrong(f"too late, {-late_ms} ms before its deadline", _of(row))


def _of(row: Decided) -> Subject:
    return Subject(row.request_id)
