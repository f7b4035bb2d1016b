"""Commands that show a stack to operators and to the programs that watch it."""

from __future__ import annotations

import json

import pytest

from seckill.cli.__main__ import main
from seckill.messaging import lag
from seckill.messaging.lag import Lag


@pytest.mark.parametrize(("most", "code"), [(100, 1), (5_000, 0), (None, 0)])
def test_a_group_further_behind_than_the_alarm_is_named_and_the_exit_code_is_1(
    most: int | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    behind = [Lag("inventory", "purchase.requests", 5_000, 3), Lag("orders", "inventory.decisions", 0, 0)]
    monkeypatch.setattr(lag, "measure_lag", lambda bootstrap_servers, topics: behind)
    alarm = [] if most is None else ["--alarm", str(most)]
    assert main(["lag", *alarm]) == code
    output = capsys.readouterr()
    assert "5,000" in output.out, "the lag is shown in any case"
    assert ("inventory is 5,000 records behind in purchase.requests" in output.err) == bool(code)


def test_switches_are_shown_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "off", "analytics"]) == 0
    capsys.readouterr()
    assert main(["switch", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["analytics"] == "off"
    assert main(["switch", "show"]) == 0
    assert "analytics     off" in capsys.readouterr().out.splitlines()


def test_sales_are_listed_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sale", "list"]) == 0
    assert capsys.readouterr().out == "", "compose creates the first sale if this prints nothing"
    assert main(["sale", "create", "--name", "Gong", "--sku", "phone", "--units", "5"]) == 0
    sale = json.loads(capsys.readouterr().out)["sale"]
    assert main(["sale", "adjust", str(sale), "phone", "-2"]) == 0
    assert capsys.readouterr().out == "available: 3\n"
    assert main(["sale", "list", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["sale"], row["declared"], row["available"]) == (sale, 5, 3)
