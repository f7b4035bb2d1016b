"""Values: a fault case, and the table of all cases.

A case is a generator. The part before its `yield` breaks something while a crowd buys. The part after it runs when the
system has recovered and the crowd has finished, and collects the proof that the fault really happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seckill.lab.faults.fault_run import FaultRun
    from seckill.lab.kafka_target import KafkaTarget

Steps = Iterator[None]
PAYMENT_TTL_S = 12
"""Short, so that unpaid orders expire while the case runs."""


@dataclass(frozen=True, slots=True)
class CrowdPlan:
    """The crowd that buys during the fault, and the units of its sale."""

    units: int = 40
    buyers: int = 160
    over_s: float = 5.0
    options: tuple[str, ...] = ()  # further options for `loadtest.rush`
    payment_ttl_s: int = PAYMENT_TTL_S
    outlasts_fault: bool = False  # buys until the fault is over, so no other buyers are needed


@dataclass(frozen=True, slots=True)
class Case:
    """`must_break` names invariants that must fail afterwards; if it is empty, the report must say PASS."""

    number: str
    name: str
    title: str
    steps: Callable[[FaultRun], Steps]
    crowd: CrowdPlan = field(default_factory=CrowdPlan)
    must_break: tuple[str, ...] = ()
    after_sale: bool = False  # damages the evidence when the sale is over
    brokers: int = 1  # that the stack has at least
    stops_brokers: bool = False  # kills, freezes or stops the processes of brokers
    not_on_kafka: str = ""  # why it cannot run on Apache Kafka
    servers: str = ""  # a name in OUTSIDE_SERVERS: the stack uses these instead of its own

    def find_obstacle(self, brokers: int, kafka: KafkaTarget | None = None) -> str:
        """Why it cannot run with this number of brokers, or on this cluster; empty if it can."""
        if kafka is not None and self.not_on_kafka:
            return f"not on Apache Kafka: {self.not_on_kafka}"
        if kafka is not None and self.stops_brokers and kafka.nodes is None:
            return "stops brokers, and their processes are not within reach (--kafka-nodes)"
        return f"needs {self.needs}" if brokers < self.brokers else ""

    @property
    def needs(self) -> str:
        """What the usual stack lacks to run the case."""
        return f"{self.brokers} brokers (--brokers {self.brokers})" if self.brokers > 1 else ""

    @property
    def expected(self) -> str:
        return "✗ " + " ".join(self.must_break) if self.must_break else "PASS"

    @property
    def spoils_stack(self) -> bool:
        """Whether no later case on the same stack could be judged."""
        return bool(self.must_break) or self.after_sale


CASES: dict[str, Case] = {}


def case(
    number: str,
    name: str,
    title: str,
    *,
    crowd: CrowdPlan | None = None,
    must_break: tuple[str, ...] = (),
    after_sale: bool = False,
    brokers: int = 1,
    stops_brokers: bool = False,
    not_on_kafka: str = "",
    servers: str = "",
) -> Callable[[Callable[[FaultRun], Steps]], Callable[[FaultRun], Steps]]:
    """Decorator that adds a case to the table."""

    def register(steps: Callable[[FaultRun], Steps]) -> Callable[[FaultRun], Steps]:
        assert name not in CASES, f"two cases have the name {name}"
        CASES[name] = Case(
            number, name, title, steps, crowd or CrowdPlan(), must_break, after_sale, brokers,
            stops_brokers=stops_brokers or brokers > 1, not_on_kafka=not_on_kafka, servers=servers,
        )  # fmt: skip
        return steps

    return register


def cases_in_order() -> list[Case]:
    """By number; cases that spoil their stack come last."""

    def rank(case: Case) -> tuple[bool, int, str]:
        digits = case.number.rstrip("abcdefghijklmnopqrstuvwxyz")
        return case.spoils_stack, int(digits or 1000), case.number

    return sorted(CASES.values(), key=rank)
