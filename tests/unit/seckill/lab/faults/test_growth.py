"""What counts as growth in a soak, with made-up samples; and that process groups are measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seckill.lab.faults import growth, soak_page
from seckill.lab.faults.growth import MIB, Process, Sample
from seckill.report.verdicts import Judgement

MINUTES = range(30)


def samples(
    rss: Callable[[int], float] = lambda at: 80 * MIB,
    files: Callable[[int], float] = lambda at: 40,
    outbox: Callable[[int], float] = lambda at: MIB,
    decided: Callable[[int], float] = lambda at: 1000 * at * 300,
    redis: Callable[[int], float] = lambda at: 1000 * at * 500,
) -> list[Sample]:
    return [
        Sample(
            60.0 * at, 1000 * at, {"inventory.1": Process(int(rss(at)), int(files(at)))},
            {"streams_outbox": int(outbox(at)), "inventory_decided": int(decided(at))}, int(redis(at)), 0,
        )
        for at in MINUTES
    ]  # fmt: skip


def growing(found: list[Sample]) -> set[str]:
    return {each.what for each in growth.judge(found) if each.grows}


def test_constant_bytes_per_purchase_are_not_growth() -> None:
    assert growing(samples()) == set()


def test_caches_that_fill_in_the_first_third_are_not_growth() -> None:
    assert growing(samples(rss=lambda at: min(at, 9) * 20 * MIB)) == set()


@pytest.mark.parametrize(
    ("grown", "what"),
    [
        (samples(rss=lambda at: (80 + 3 * at) * MIB), "inventory.1: memory"),
        (samples(files=lambda at: 40 + 20 * at), "inventory.1: open files"),
        (samples(outbox=lambda at: at * MIB), "streams_outbox"),
        (samples(decided=lambda at: 1000 * at * 100 * at), "inventory_decided"),
        (samples(redis=lambda at: 1000 * at * 100 * at), "Redis"),
    ],
)
def test_each_kind_of_growth_is_found(grown: list[Sample], what: str) -> None:
    assert growing(grown) == {what}


@pytest.mark.parametrize(("leak", "found"), [(0, set()), (2 * MIB, {"redis: memory"})])
def test_memory_of_redis_beyond_its_data_counts_as_growth(leak: int, found: set[str]) -> None:
    """Its keys expire an hour after their sale, so within a shorter run its data grows with the purchases."""
    of_redis = [
        replace(sample, services={"redis": Process(20 * MIB + sample.redis + leak * at, 10)})
        for at, sample in enumerate(samples())
    ]
    assert growing(of_redis) == found


def test_a_process_group_is_measured_and_one_that_has_ended_is_left_out(tmp_path: Path) -> None:
    sleeper = "import time; print('started', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", sleeper]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"started\n"
        found = growth.processes({"child": child.pid, "gone": 2**22 + 1})
        child.kill()
    assert set(found) == {"child"} and found["child"].rss > MIB // 4 and found["child"].files >= 3
    (tmp_path / "segment").write_bytes(os.urandom(100_000))
    assert 100_000 <= growth.folder_bytes(tmp_path) < 200_000


def test_the_page_shows_what_grows(tmp_path: Path) -> None:
    found = samples(files=lambda at: 40 + 20 * at)
    judged: list[Judgement] = []
    soak_page.write_soak_page(
        tmp_path / "soak", "seckill faults soak", {"sales": 3}, judged, growth.judge(found), found
    )
    text = (tmp_path / "soak.md").read_text()
    assert "| inventory.1: open files | files |" in text and text.count("**grows**") == 1
    assert (tmp_path / "soak.svg").read_text().startswith("<svg")
