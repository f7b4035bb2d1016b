"""A program that is given addresses uses these alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from seckill.stack.stack_process import run_module

SHOW = "from seckill.cli.context import data_folder, stack_addresses; print(stack_addresses(data_folder()))"


@pytest.mark.parametrize(("environment", "is_read"), [({}, False), ({"SECKILL_DATA": "var/stack"}, True)])
def test_the_addresses_of_a_stack_in_the_working_folder_count_only_if_it_is_named(
    environment: dict[str, str], is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    run = tmp_path / "var" / "stack" / "run"
    run.mkdir(parents=True)
    (run / "environment.json").write_text('{"SECKILL_KAFKA_SSL_CAFILE": "/of/another/cluster.pem"}')
    monkeypatch.chdir(tmp_path)
    assert ("another" in run_module(environment, "show")) is is_read
