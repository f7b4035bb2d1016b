"""What the chart and the timeline say about an event."""

from __future__ import annotations

from typing import Any

import pytest

from seckill.console.board_events import event_json
from seckill.console.labels import GROUPS, INVARIANT_GROUPS
from seckill.console.marks import ChartMark, MarkKind
from seckill.report.live.residuals import LiveCounts, residuals


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (ChartMark(0, None, MarkKind.DOWN, "orders.1"), "orders.1 is down"),
        (ChartMark(0, 2500, MarkKind.DOWN, "orders.1"), "orders.1 was down for 2.5 s"),
        (ChartMark(0, 0, MarkKind.ELECTION, "2", count=1), "broker 2 now leads 1 partition"),
        (ChartMark(0, 0, MarkKind.ELECTION, "2", count=12), "broker 2 now leads 12 partitions"),
        (ChartMark(0, 0, MarkKind.ELECTION, "", count=3), "3 partitions without a leader"),
        (ChartMark(0, 0, MarkKind.OPERATION, "sale 1", "sale pause", "olga"), "sale paused · sale 1 · olga"),
        (ChartMark(0, 0, MarkKind.SALE_OPENED, "7"), "sale 7 opened"),
        (ChartMark(0, 0, MarkKind.SOLD_OUT), "the last unit was sold"),
    ],
)
def test_an_event_is_described_in_words(mark: ChartMark, text: str) -> None:
    assert event_json(mark)["text"] == text


def test_a_long_label_is_cut_and_its_text_is_not() -> None:
    event = event_json(ChartMark(0, 0, MarkKind.OPERATION, "x" * 100, "refund"))
    assert len(event["label"]) == 60
    assert event["text"].endswith("x" * 100)


def test_every_live_invariant_is_counted_on_a_card() -> None:
    numbers: dict[str, Any] = dict.fromkeys(LiveCounts._fields, 0) | {"behind": {}}
    names = {each.name for each in residuals(LiveCounts(**numbers))}
    assert names == set(INVARIANT_GROUPS)
    assert set(INVARIANT_GROUPS.values()) == set(GROUPS)
