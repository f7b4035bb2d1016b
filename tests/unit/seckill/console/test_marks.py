"""The marks of the traffic chart: outages are bands, operations and sold-out are lines."""

from __future__ import annotations

from seckill.console.marks import KEPT_MS, ChartMarks, MarkKind, Operation

NOW_MS = 10_000
PAUSE = Operation(500, "sale pause", "sale 1", "olga")


def row(name: str, state: str = "up", restarts: int = 0) -> dict[str, object]:
    return {"name": name, "state": state, "restarts": restarts}


def test_an_outage_lasts_until_the_process_is_up_again() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("inventory.1")])
    marks.observe_processes(2000, [row("inventory.1", "died")])
    assert [(mark.at_ms, mark.until_ms) for mark in marks.listed(NOW_MS)] == [(2000, None)]
    marks.observe_processes(5000, [row("inventory.1", "up", 1)])
    assert [(mark.at_ms, mark.until_ms) for mark in marks.listed(NOW_MS)] == [(2000, 5000)]


def test_an_outage_between_two_observations_is_still_shown() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("orders.1")])
    marks.observe_processes(2000, [row("orders.1", "up", 1)])
    [mark] = marks.listed(NOW_MS)
    assert (mark.kind, mark.subject, mark.until_ms) == (MarkKind.DOWN, "orders.1", 2000)


def test_the_outage_of_a_removed_process_ends() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("orders.2", "down")])
    marks.observe_processes(2000, [])
    assert [mark.until_ms for mark in marks.listed(NOW_MS)] == [2000]


def test_operations_and_sold_out_are_shown_once_each() -> None:
    marks = ChartMarks()
    for _ in range(2):
        marks.add_operations([PAUSE])
        marks.add_sold_out([700])
    assert [(mark.at_ms, mark.kind) for mark in marks.listed(NOW_MS)] == [
        (500, MarkKind.OPERATION),
        (700, MarkKind.SOLD_OUT),
    ]


def test_old_marks_are_dropped() -> None:
    marks = ChartMarks()
    marks.add_operations([PAUSE])
    assert marks.listed(KEPT_MS + 500) != []
    assert marks.listed(KEPT_MS + 501) == []


def test_an_outage_that_lasts_is_never_dropped() -> None:
    marks = ChartMarks()
    marks.observe_processes(1000, [row("orders.1", "died")])
    assert [mark.subject for mark in marks.listed(1000 + 2 * KEPT_MS)] == ["orders.1"]


def test_partitions_with_a_new_leader_are_counted_for_each_broker() -> None:
    marks = ChartMarks()
    marks.observe_leaders(1000, {("a", 0): 1, ("a", 1): 1, ("a", 2): 2})
    assert marks.listed(NOW_MS) == [], "the first observation is not an election"
    marks.observe_leaders(2000, {("a", 0): 2, ("a", 1): 2, ("a", 2): 2})
    [mark] = marks.listed(NOW_MS)
    assert (mark.kind, mark.subject, mark.count) == (MarkKind.ELECTION, "2", 2)
    marks.observe_leaders(3000, {("a", 0): -1})
    assert (marks.listed(NOW_MS)[-1].subject, marks.listed(NOW_MS)[-1].count) == ("", 1)


def test_a_sale_opens_once_and_not_before_its_time() -> None:
    marks = ChartMarks()
    marks.add_openings(1000, [(7, 1500)])
    assert marks.listed(NOW_MS) == []
    for now_ms in (1500, 2000):
        marks.add_openings(now_ms, [(7, 1500)])
    assert [(mark.at_ms, mark.kind, mark.subject) for mark in marks.listed(NOW_MS)] == [
        (1500, MarkKind.SALE_OPENED, "7")
    ]
