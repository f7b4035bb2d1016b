"""I17: which requests were served although an earlier one of their partition had been refused."""

from __future__ import annotations

import pytest

from seckill.report.invariants.ordering import _inversions
from seckill.report.rows import RESERVED
from tests.unit.seckill.report.good_run import good_run

REFUSED = "SOLD_OUT"
Step = tuple[str, int] | tuple[str, int, int]
"""Decision, stock version, and quantity if it is not 1."""


def inverted(*steps: Step, returns: tuple[int, ...] = ()) -> list[int]:
    """The numbers of the steps that were served out of turn."""
    run = good_run()
    record, row = run.requests[0], run.decisions[0]
    group = [
        (
            record._replace(timestamp_ms=number),
            row._replace(decision=decision, stock_version=version, quantity=quantity[0] if quantity else 1),
        )
        for number, (decision, version, *quantity) in enumerate(steps)
    ]
    return [found.timestamp_ms for found, *_ in _inversions(group, list(returns))]


@pytest.mark.parametrize(
    ("steps", "returns", "found"),
    [
        ([(RESERVED, 1), (REFUSED, 1)], (), []),
        ([(REFUSED, 1), (RESERVED, 2)], (), [1]),
        ([(REFUSED, 1), (RESERVED, 3)], (2,), []),
        # Units came back after the first refusal, and a second one followed when they were gone.
        ([(REFUSED, 1), (RESERVED, 3), (REFUSED, 3), (RESERVED, 4)], (2,), [3]),
        ([(REFUSED, 1), (REFUSED, 3), (RESERVED, 5)], (2, 4), []),
        ([(REFUSED, 1, 2), (RESERVED, 2, 1)], (), []),  # one unit was left, and two were wanted
        ([(REFUSED, 1, 1), (RESERVED, 2, 2)], (), [1]),
        ([(REFUSED, 5), (RESERVED, 2)], (), [1]),  # served before the other was refused, although it came later
    ],
)
def test_a_refusal_counts_until_units_come_back(steps: list[Step], returns: tuple[int, ...], found: list[int]) -> None:
    assert inverted(*steps, returns=returns) == found
