"""The numbers of a demo are those of the crowd's log and the database."""

from __future__ import annotations

from pathlib import Path

from seckill.lab.crowd_log import CrowdLog
from seckill.lab.demo.progress import Sample, rates
from seckill.lab.demo.screen import sparkline

ATTEMPT = '{"what":"purchase","status":%d,"request_id":"%s"}\n'


def test_an_incomplete_line_of_the_crowds_log_is_read_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "rush.jsonl"
    log = CrowdLog(path)
    log.read_new_lines()
    assert log.attempts == 0
    path.write_text('{"what":"begin"}\n' + ATTEMPT % (202, "a") + ATTEMPT % (503, "") + '{"what":"purch')
    log.read_new_lines()
    assert (log.attempts, log.accepted) == (2, 1)
    with path.open("a") as rest:
        rest.write('ase","status":202,"request_id":"b"}\n')
    log.read_new_lines()
    assert (log.attempts, log.accepted) == (3, 2)


def test_a_request_that_is_accepted_twice_counts_as_two_attempts_and_one_acceptance(tmp_path: Path) -> None:
    (tmp_path / "rush.jsonl").write_text(2 * (ATTEMPT % (202, "a")))
    log = CrowdLog(tmp_path / "rush.jsonl")
    log.read_new_lines()
    assert (log.attempts, log.accepted) == (2, 1)


def test_rates_are_differences_over_time() -> None:
    before, after = Sample(1.0, 10, 5, 3, 0, 0, 0), Sample(3.0, 30, 15, 3, 0, 0, 0)
    assert rates(before, after) == (10.0, 5.0, 0.0)
    assert rates(after, after) == (0, 0, 0)
    assert after.backlog == 12


def test_a_sparkline_is_scaled_to_its_highest_value() -> None:
    assert sparkline([0.0, 1.0, 4.0, 8.0]) == " ▁▄█"
    assert sparkline([0.0, 0.0]) == "  "
    assert sparkline([]) == ""
