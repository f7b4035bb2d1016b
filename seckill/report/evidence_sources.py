"""Values: the ten sources of evidence, and how completely each of them was read.

The value of each `Source` is the letter that JSON, `docs/invariants.md` and the tables on the terminal show.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    CROWD = "C"
    TOPICS = "K"
    GATE = "R"
    STOCK = "L"
    ORDERS = "O"
    PAYMENTS = "P"
    MESSAGES = "N"
    COMMITS = "G"
    STATISTICS = "S"
    FAULTS = "F"

    @property
    def description(self) -> str:
        return DESCRIPTIONS[self]


DESCRIPTIONS = {
    Source.CROWD: "answers that the simulated buyers logged",
    Source.TOPICS: "topics, from their start to the recorded cut",
    Source.GATE: "the gate in Redis",
    Source.STOCK: "sales, stock and ledger",
    Source.ORDERS: "orders, inbox, outbox, offsets",
    Source.PAYMENTS: "payments and the payment provider's log",
    Source.MESSAGES: "deliveries and the notification sinks' log",
    Source.COMMITS: "offsets committed to the broker",
    Source.STATISTICS: "tables that Spark wrote",
    Source.FAULTS: "faults, injected or observed",
}


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """What was read from a source. `faults` says why it is incomplete; without faults it was read to its end."""

    source: Source
    counts: dict[str, int]
    faults: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """An empty source counts as incomplete, because it proves nothing."""
        return not self.faults and any(self.counts.values())
