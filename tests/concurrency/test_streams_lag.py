"""The alarm of a group that is behind: a word with an exit code, for whoever is to be rung."""

from __future__ import annotations

import argparse

import pytest

from seckill import operating
from seckill.streams import lag
from seckill.streams.lag import Lag


@pytest.mark.parametrize(("most", "code"), [(100, 1), (5_000, 0), (None, 0)])
def test_a_group_further_behind_than_the_alarm_is_named_and_ends_in_1(
    most: int | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = [Lag("inventory", "purchase.requests", 5_000, 3), Lag("orders", "inventory.decisions", 0, 0)]
    monkeypatch.setattr(lag, "measure", lambda bootstrap_servers, topics: behind)
    assert operating._lag(argparse.Namespace(json=False, alarm=most), "nowhere:1") == code
    said = capsys.readouterr()
    assert "5,000" in said.out, "it is shown in any case"
    assert ("inventory is 5,000 records behind in purchase.requests" in said.err) == bool(code)
