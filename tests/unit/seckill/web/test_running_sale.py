"""Which sale a command or page uses if no sale is named."""

from __future__ import annotations

from seckill.web.running_sale import importance

NOW_MS = 1000


def order(*sales: tuple[int, str, int, int]) -> list[int]:
    return [number for *_, number in sorted((*importance(*sale, now_ms=NOW_MS), sale[0]) for sale in sales)]


def test_running_sales_come_first_and_the_newest_of_them() -> None:
    assert order((1, "open", 0, 2000), (2, "open", 0, 2000), (3, "open", 1500, 2000)) == [2, 1, 3]


def test_the_next_sale_to_open_comes_before_later_ones() -> None:
    assert order((1, "open", 1600, 2000), (2, "open", 1700, 2000), (3, "open", 1500, 2000)) == [3, 1, 2]


def test_paused_sales_come_before_ended_ones() -> None:
    assert order((4, "closed", 0, 2000), (3, "open", 0, 1000), (1, "paused", 0, 2000)) == [1, 4, 3]
