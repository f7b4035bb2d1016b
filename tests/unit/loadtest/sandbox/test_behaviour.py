"""The sandbox misbehaves exactly as `/control` says."""

from __future__ import annotations

import pytest

from loadtest.sandbox.behaviour import BadControl, Behaviour
from loadtest.sandbox.http_server import ConnectionCut


def send_request(behaviour: Behaviour, path: str = "/payments") -> tuple[str, bool]:
    """The response, and whether the request was processed."""
    done = False
    try:
        with behaviour.apply(path) as instead:
            if instead is not None:
                return str(instead[0]), done
            done = True
    except ConnectionCut:
        return "cut", done
    return "ok", done


@pytest.mark.parametrize(
    ("answers", "seen"),
    [("ok", ("ok", True)), ("fail", ("500", False)), ("cut", ("cut", True)), ("cut_before", ("cut", False))],
)
def test_each_response_mode(answers: str, seen: tuple[str, bool]) -> None:
    behaviour = Behaviour()
    behaviour.control({"answers": answers})
    assert send_request(behaviour) == send_request(behaviour) == seen


def test_a_mode_applies_as_often_and_where_it_was_set() -> None:
    behaviour = Behaviour()
    behaviour.control({"answers": "fail", "times": 2, "only": "refund"})
    assert send_request(behaviour, "/payments/x/void") == ("ok", True)
    assert [send_request(behaviour, "/payments/x/refund")[0] for _ in range(3)] == ["500", "500", "ok"]


def test_a_mode_can_be_set_for_one_payment_or_order() -> None:
    behaviour = Behaviour()
    behaviour.control({"mode": "late", "delay_s": 3})
    behaviour.control({"mode": "never", "order": "o-1"})
    behaviour.control({"mode": "twice", "payment": "p-1"})
    assert behaviour.for_payment("p-2", "o-2").capture_after_s == 3
    assert behaviour.for_payment("p-2", "o-1").capture_after_s is None
    assert behaviour.for_payment("p-1", "o-1").callbacks == 2


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"mode": "sometimes"},
        {"mode": "late", "delay_s": -1},
        {"mode": "late", "delay_s": "soon"},
        {"answers": "perhaps"},
        {"answers": "fail", "times": 0},
        {"answers": "fail", "times": True},
    ],
)
def test_an_invalid_setting_is_refused_and_changes_nothing(setting: dict[str, object]) -> None:
    behaviour = Behaviour()
    with pytest.raises(BadControl):
        behaviour.control(setting)
    assert send_request(behaviour) == ("ok", True)
    assert behaviour.for_payment("p", "o").mode == "at_once"


def test_a_voided_payment_is_captured_only_in_the_mode_in_spite() -> None:
    behaviour = Behaviour()
    assert not behaviour.may_capture_voided
    behaviour.control({"mode": "in_spite", "delay_s": 3, "order": "stubborn"})
    assert behaviour.may_capture_voided
    stubborn, other = behaviour.for_payment("p", "stubborn"), behaviour.for_payment("p", "other")
    assert (stubborn.capture_after_s, stubborn.capturable_states) == (3.0, ("open", "voided"))
    assert other.capturable_states == ("open",)
