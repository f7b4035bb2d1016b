"""The state of each sale over time, from tables, audit trail and crowd log, for the checks of refusals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from seckill.report.evidence import Evidence
from seckill.report.invariants.refusals import closed_at
from seckill.report.invariants.stock import AVAILABLE, HELD
from seckill.report.rows import Attempt, OtherCall


class StockLevel(NamedTuple):
    """The state of a stock from one ledger entry to the next."""

    from_ms: int
    until_ms: int
    version: int
    is_sold_out: bool


class SaleHistory:
    """Each part is computed when it is first needed."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.sales = {sale.id: sale for sale in evidence.sales}
        self.closed = closed_at(evidence)

    @cached_property
    def levels(self) -> dict[int, list[StockLevel]]:
        found: dict[int, list[StockLevel]] = {}
        for stock in self.evidence.stocks:
            entries = self.evidence.entries_by_stock.get(stock.id)
            if not entries:
                continue
            ends = [entry.at_ms for entry in entries[1:]] + [self.evidence.taken_at_ms]
            balance: Counter[str] = Counter()
            levels = found.setdefault(stock.sale_id, [])
            for entry, until_ms in zip(entries, ends, strict=True):
                balance[entry.debit] -= entry.units
                balance[entry.credit] += entry.units
                is_sold_out = balance[AVAILABLE] <= 0 and balance[HELD] <= 0
                levels.append(StockLevel(entry.at_ms, until_ms, entry.version, is_sold_out))
        return found

    @cached_property
    def sold_out(self) -> dict[int, list[StockLevel]]:
        """By sale, when no unit was available or held."""
        return {sale: [level for level in levels if level.is_sold_out] for sale, levels in self.levels.items()}

    @cached_property
    def at_version(self) -> dict[tuple[int, int], list[StockLevel]]:
        """By sale and stock version. Each article of the sale has its own."""
        found: dict[tuple[int, int], list[StockLevel]] = defaultdict(list)
        for sale, levels in self.levels.items():
            for level in levels:
                found[sale, level.version].append(level)
        return found

    @cached_property
    def paused(self) -> dict[int, list[tuple[int, int]]]:
        """By sale, the start and end of each pause."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        began: dict[str, int] = {}
        for verb in self.evidence.operator_actions:
            number = verb.target.removeprefix("sale ")
            if verb.result != "done" or not number.isdecimal():
                continue
            if verb.verb == "sale pause":
                began.setdefault(number, verb.at_ms)
            elif verb.verb in ("sale open", "sale close") and number in began:
                found[int(number)].append((began.pop(number), verb.at_ms))
        for number, at_ms in began.items():
            found[int(number)].append((at_ms, self.evidence.taken_at_ms))
        return found

    @cached_property
    def keys(self) -> dict[tuple[str, int, str], set[int]]:
        """The quantities that were requested under each key."""
        found: dict[tuple[str, int, str], set[int]] = defaultdict(set)
        for attempt in self.evidence.attempts:
            found[attempt.user_id, attempt.sale_id, attempt.key].add(attempt.quantity)
        return found

    @cached_property
    def tickets(self) -> dict[str, OtherCall]:
        return {call.ticket: call for call in self.evidence.other_calls if call.what == "ticket" and call.ticket}

    @cached_property
    def ticket_users(self) -> dict[str, set[tuple[str, str]]]:
        """The users and keys that used each ticket."""
        found: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for attempt in self.evidence.attempts:
            if attempt.ticket:
                found[attempt.ticket].add((attempt.user_id, attempt.key))
        return found

    @cached_property
    def accepted_keys(self) -> dict[str, set[str]]:
        """The keys of accepted purchases by ticket."""
        found: dict[str, set[str]] = defaultdict(set)
        for attempt in self.evidence.attempts:
            if attempt.ticket and attempt.status == 202:
                found[attempt.ticket].add(attempt.key)
        return found

    @cached_property
    def asked_ms(self) -> dict[tuple[str, int], list[int]]:
        """The times of each user's attempts in each sale, in order."""
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for attempt in self.all_attempts:
            found[attempt.user_id, attempt.sale_id].append(attempt.at_ms)
        return found

    @cached_property
    def first_accepted(self) -> dict[int, dict[tuple[str, str], int]]:
        """By sale, the first two purchases (user and key) that were or may have been accepted, with their times."""
        found: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        for attempt in self.all_attempts:
            first = found[attempt.sale_id]
            if len(first) < 2 and attempt.status in (0, 202, 503):
                first.setdefault((attempt.user_id, attempt.key), attempt.at_ms)
        return found

    @cached_property
    def by_user(self) -> dict[str, list[Attempt]]:
        return _grouped(self.evidence.attempts, lambda attempt: attempt.user_id)

    @cached_property
    def by_address(self) -> dict[str, list[Attempt]]:
        return _grouped(self.evidence.attempts, lambda attempt: attempt.address)

    @cached_property
    def all_attempts(self) -> list[Attempt]:
        return sorted(self.evidence.attempts, key=lambda attempt: attempt.at_ms)

    @cached_property
    def queue(self) -> tuple[list[int], list[int]]:
        """The times at which requests reached the log, and for each the latest decision on any request up to it."""
        pairs = sorted(
            (record.timestamp_ms, row.decided_at_ms)
            for row in self.evidence.decisions
            if (record := self.evidence.request_by_position.get(row.position)) is not None
        )
        return [entered for entered, _ in pairs], list(accumulate((decided for _, decided in pairs), max))


def _grouped(attempts: list[Attempt], name: Callable[[Attempt], str]) -> dict[str, list[Attempt]]:
    found: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[name(attempt)].append(attempt)
    for each in found.values():
        each.sort(key=lambda attempt: attempt.at_ms)
    return found
