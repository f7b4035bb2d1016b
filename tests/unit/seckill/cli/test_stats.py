"""`seckill stats` answers wrong arguments and failures in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import psycopg
import pytest

from analytics.faults import StatsFault
from seckill.cli import stats
from seckill.cli.__main__ import main
from seckill.cli.context import CommandError


def test_a_time_may_be_written_in_three_ways() -> None:
    moment = int(datetime(2026, 11, 11, 12, tzinfo=UTC).timestamp() * 1000)
    for text in ("2026-11-11T20:00:00+08:00", "2026-11-11T12:00:00", str(moment)):
        assert stats.parse_time_ms(text) == moment


def test_a_text_that_is_not_a_time_is_refused() -> None:
    with pytest.raises(CommandError, match="must be a time such as .* got 'yesterday'"):
        stats.parse_time_ms("yesterday")


def test_only_settings_of_spark_are_passed_on() -> None:
    assert stats.parse_spark_settings(["spark.driver.memory=4g"]) == {"spark.driver.memory": "4g"}
    with pytest.raises(CommandError, match="must be spark.NAME=VALUE"):
        stats.parse_spark_settings(["memory=4g"])


def test_without_java_it_says_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from analytics import session

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(StatsFault, match="Java 17"):
        session.start_session(session.LOCAL, tmp_path_factory.mktemp("spark"))


def test_a_replay_that_fails_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise psycopg.OperationalError("psycopg.OperationalError: the server closed the connection\n\tat java.X\n")

    monkeypatch.setattr("analytics.spark_jars.checked_jars", list)
    monkeypatch.setattr("analytics.session.start_session", MagicMock())
    monkeypatch.setattr("analytics.jobs.replay.run_replay", fail)
    assert main(["stats", "replay", "--data", str(tmp_path)]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("seckill: the replay failed: psycopg.OperationalError: the server closed the connection;")
