"""What several scenarios of replication do and ask."""

from __future__ import annotations

from collections.abc import Callable

from mqcore.wire.errors import ErrorCode
from tests.simulation.replication.bench import Bench
from tests.simulation.replication.replica import Produced

Scenario = Callable[[Bench], None]
ALL = {1, 2, 3}


def acknowledged(answers: list[Produced]) -> bool:
    return [answer.error for answer in answers] == [ErrorCode.NONE]


def errors(answers: list[Produced]) -> list[str]:
    return [answer.error.name for answer in answers]


def without_three(bench: Bench) -> None:
    """Broker 3 leaves the ISR before anything is written."""
    bench.fence(3)
    bench.tell(1, 2)
    assert bench.isr == {1, 2}


def elect(bench: Bench, number: int) -> None:
    """Fence leaders until this broker leads; the fenced ones come back as followers."""
    while bench.controller.terms[bench.partition].leader != number:
        leader = bench.controller.terms[bench.partition].leader
        bench.fence(leader)
        bench.unfence(leader)
    bench.tell(1, 2, 3)
