"""The outside world misbehaves exactly as it was told to."""

from __future__ import annotations

import pytest

from loadtest.sandbox.behaviour import BadControl, Behaviour
from loadtest.sandbox.serving import Cut


def asked(behaviour: Behaviour, path: str = "/payments") -> tuple[str, bool]:
    """What an asker sees, and whether the thing was done."""
    done = False
    try:
        with behaviour.around(path) as instead:
            if instead is not None:
                return str(instead[0]), done
            done = True
    except Cut:
        return "cut", done
    return "ok", done


@pytest.mark.parametrize(
    ("answers", "seen"),
    [("ok", ("ok", True)), ("fail", ("500", False)), ("cut", ("cut", True)), ("cut_before", ("cut", False))],
)
def test_each_way_to_answer(answers: str, seen: tuple[str, bool]) -> None:
    behaviour = Behaviour()
    behaviour.control({"answers": answers})
    assert asked(behaviour) == asked(behaviour) == seen


def test_so_many_times_and_where_it_was_told_to() -> None:
    behaviour = Behaviour()
    behaviour.control({"answers": "fail", "times": 2, "only": "refund"})
    assert asked(behaviour, "/payments/x/void") == ("ok", True)
    assert [asked(behaviour, "/payments/x/refund")[0] for _ in range(3)] == ["500", "500", "ok"]


def test_one_payment_or_order_may_be_told_apart_from_the_others() -> None:
    behaviour = Behaviour()
    behaviour.control({"mode": "late", "delay_s": 3})
    behaviour.control({"mode": "never", "order": "o-1"})
    behaviour.control({"mode": "twice", "payment": "p-1"})
    assert behaviour.paying_of("p-2", "o-2").after_s == 3
    assert behaviour.paying_of("p-2", "o-1").after_s is None
    assert behaviour.paying_of("p-1", "o-1").tellings == 2


@pytest.mark.parametrize(
    "said",
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
def test_what_makes_no_sense_is_refused_and_changes_nothing(said: dict[str, object]) -> None:
    behaviour = Behaviour()
    with pytest.raises(BadControl):
        behaviour.control(said)
    assert asked(behaviour) == ("ok", True)
    assert behaviour.paying_of("p", "o").mode == "at_once"


def test_a_payment_may_be_taken_in_spite_of_having_been_voided_and_only_if_told_so() -> None:
    behaviour = Behaviour()
    assert not behaviour.may_pay_voided
    behaviour.control({"mode": "in_spite", "delay_s": 3, "order": "stubborn"})
    assert behaviour.may_pay_voided
    stubborn, other = behaviour.paying_of("p", "stubborn"), behaviour.paying_of("p", "other")
    assert (stubborn.after_s, stubborn.before) == (3.0, ("open", "voided"))
    assert other.before == ("open",)
