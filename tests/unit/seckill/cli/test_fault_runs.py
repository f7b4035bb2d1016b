"""The page of a fault run names the command that repeats it."""

from __future__ import annotations

from pathlib import Path

from seckill.cli.fault_runs import run_command


def test_the_command_has_the_options_that_change_the_results() -> None:
    given = run_command(["all"], brokers=3, seed=7, scale=0.3, together=6, write=Path("w"))
    assert given == "seckill faults run all --brokers 3 --seed 7 --scale 0.3 --together 6 --write w"


def test_the_command_leaves_out_the_defaults() -> None:
    assert run_command(["41", "42"], brokers=1, seed=1, scale=1.0, together=1, write=Path("w")) == (
        "seckill faults run 41 42 --write w"
    )
