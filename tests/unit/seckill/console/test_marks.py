"""The marks of the traffic chart: outages are bands, operations and sold-out are lines."""

from __future__ import annotations

from seckill.console.marks import KEPT_MS, ChartMarks, MarkKind, Operation

PAUSE = Operation(500, "sale pause", "sale 1")


def row(name: str, state: str = "up", restarts: int = 0) -> dict[str, object]:
    return {"name": name, "state": state, "restarts": restarts}


def test_an_outage_lasts_until_the_process_is_up_again() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("inventory.1")])
    marks.observe_processes(2000, [row("inventory.1", "died")])
    assert [(mark.at_ms, mark.until_ms) for mark in marks.listed()] == [(2000, None)]
    marks.observe_processes(5000, [row("inventory.1", "up", 1)])
    assert [(mark.at_ms, mark.until_ms) for mark in marks.listed()] == [(2000, 5000)]


def test_an_outage_between_two_observations_is_still_shown() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("orders.1")])
    marks.observe_processes(2000, [row("orders.1", "up", 1)])
    [mark] = marks.listed()
    assert (mark.kind, mark.subject, mark.until_ms) == (MarkKind.DOWN, "orders.1", 2000)


def test_the_outage_of_a_removed_process_ends() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("orders.2", "down")])
    marks.observe_processes(2000, [])
    assert [mark.until_ms for mark in marks.listed()] == [2000]


def test_operations_and_sold_out_are_shown_once_each() -> None:
    marks = ChartMarks()
    for _ in range(2):
        marks.add_operations([PAUSE])
        marks.add_sold_out([700])
    assert [(mark.at_ms, mark.kind) for mark in marks.listed()] == [
        (500, MarkKind.OPERATION),
        (700, MarkKind.SOLD_OUT),
    ]


def test_old_marks_are_dropped() -> None:
    marks = ChartMarks()
    marks.add_operations([PAUSE])
    marks.observe_processes(KEPT_MS + 501, [])
    assert marks.listed() == []
