"""The command that runs franz-go's own suite: what it concludes from an output, and how it troubles brokers."""

from __future__ import annotations

import shutil
from collections import Counter
from random import Random
from typing import Any, cast

import pytest

from tests.conformance import franz_go

OUTPUT = """
=== RUN   TestPing
--- PASS: TestPing (0.01s)
--- FAIL: TestConsumeRegex (2.10s)
    --- PASS: TestConsumeRegex/one (0.10s)
    consumer_test.go:12: unexpected record
--- FAIL: TestGroupETL (9.00s)
    --- FAIL: TestGroupETL/range (8.90s)
    --- SKIP: TestGroupETL/range/848 (0.00s)
"""


class Node:
    number = 1

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)


def test_each_test_and_each_case_of_the_long_one_has_an_outcome() -> None:
    assert franz_go.outcomes(OUTPUT) == {
        "TestPing": "PASS",
        "TestConsumeRegex": "FAIL",
        "TestGroupETL": "FAIL",
        "TestGroupETL/range": "FAIL",
        "TestGroupETL/range/848": "SKIP",
    }


@pytest.mark.parametrize(("kind", "call"), [("stop", "stop"), ("kill", "kill"), (None, None)])
def test_a_broker_goes_away_and_is_back_when_the_trouble_ends(
    monkeypatch: pytest.MonkeyPatch, kind: str | None, call: str | None
) -> None:
    monkeypatch.setattr(franz_go, "PERIOD_S", 0.001)
    monkeypatch.setattr(franz_go, "AWAY_S", 0.001)
    node = Node()
    cluster = cast(Any, type("Cluster", (), {"nodes": {1: node}}))
    with franz_go.trouble(cluster, kind, Random(1)) as away:
        for _ in range(10_000_000):
            if kind is None or len(node.calls) >= 4:
                break
    rounds = away[1]
    assert node.calls == [call, "start"] * rounds if call else away == Counter()
    assert (rounds >= 2) == (kind is not None)


def test_without_go_the_command_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(SystemExit, match="this needs Go"):
        franz_go.main([])


def test_one_broker_cannot_go_away(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        franz_go.main(["--brokers", "1", "--trouble", "kill"])
    assert "--trouble needs --brokers 3" in capsys.readouterr().err
