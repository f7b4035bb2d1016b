"""What a demo shows is what the crowd's log and the database say."""

from __future__ import annotations

from pathlib import Path

from seckill.demo.numbers import Count, CrowdLog, rates
from seckill.demo.screen import sparks

ATTEMPT = '{"what":"purchase","status":%d,"request_id":"%s"}\n'


def test_the_log_is_read_on_as_it_grows_and_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "rush.jsonl"
    log = CrowdLog(path)
    log.read_on()
    assert log.offered == 0
    path.write_text('{"what":"begin"}\n' + ATTEMPT % (202, "a") + ATTEMPT % (503, "") + '{"what":"purch')
    log.read_on()
    assert (log.offered, log.acknowledged) == (2, 1)
    with path.open("a") as more:
        more.write('ase","status":202,"request_id":"b"}\n')
    log.read_on()
    assert (log.offered, log.acknowledged) == (3, 2)


def test_the_same_request_twice_is_offered_twice_and_accepted_once(tmp_path: Path) -> None:
    (tmp_path / "rush.jsonl").write_text(2 * (ATTEMPT % (202, "a")))
    log = CrowdLog(tmp_path / "rush.jsonl")
    log.read_on()
    assert (log.offered, log.acknowledged) == (2, 1)


def test_rates_are_differences_over_time() -> None:
    before, after = Count(1.0, 10, 5, 3, 0, 0, 0), Count(3.0, 30, 15, 3, 0, 0, 0)
    assert rates(before, after) == (10.0, 5.0, 0.0)
    assert rates(after, after) == (0, 0, 0)
    assert after.backlog == 12


def test_a_picture_is_as_high_as_its_highest_value() -> None:
    assert sparks([0.0, 1.0, 4.0, 8.0]) == " ▁▄█"
    assert sparks([0.0, 0.0]) == "  "
    assert sparks([]) == ""
