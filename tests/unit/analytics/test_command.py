"""`seckill stats`: what is asked wrongly is answered in one line."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import psycopg
import pytest

from analytics import command
from analytics.faults import StatsFault


def test_a_time_may_be_written_in_three_ways() -> None:
    moment = int(datetime(2026, 11, 11, 12, tzinfo=UTC).timestamp() * 1000)
    for text in ("2026-11-11T20:00:00+08:00", "2026-11-11T12:00:00", str(moment)):
        assert command._time_ms(text) == moment


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(StatsFault, match="is no time"):
        command._time_ms("yesterday")


def test_only_settings_of_spark_are_passed_on() -> None:
    assert command._pairs(["spark.driver.memory=4g"]) == {"spark.driver.memory": "4g"}
    with pytest.raises(StatsFault, match="is not spark"):
        command._pairs(["memory=4g"])


def test_without_java_it_says_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from analytics import session

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(StatsFault, match="Java 17"):
        session.start(session.LOCAL, tmp_path_factory.mktemp("spark"))


def test_a_replay_that_fails_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise psycopg.OperationalError("psycopg.OperationalError: the server closed the connection\n\tat java.X\n")

    monkeypatch.setattr("analytics.jars.present", list)
    monkeypatch.setattr("analytics.session.start", MagicMock())
    monkeypatch.setattr("analytics.jobs.replay.replay", fails)
    assert command.main(["replay", "--data", str(tmp_path)]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(
        "seckill stats: the replay failed: psycopg.OperationalError: the server closed the connection;"
    )


@pytest.mark.parametrize("word", ["fetch", "replay", "live", "report"])
def test_every_word_explains_itself(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([word, "--help"])
    assert ended.value.code == 0
    assert f"seckill stats {word}" in capsys.readouterr().out
