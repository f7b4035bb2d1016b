"""Lab 3: .venv/bin/pytest docs/labs/exercises/test_lab03.py"""

from __future__ import annotations

from docs.labs.exercises import lab03_redis_decides as lab
from docs.labs.exercises.lab03_redis_decides import Gate


def test_1_a_gate_grants_once_and_says_nothing_without_its_counter() -> None:
    gate = Gate(free=3)
    answers = [
        lab.propose(gate, name, units).name for name, units in (("a", 2), ("a", 2), ("b", 2), ("c", 1), ("b", 1))
    ]
    assert answers == ["GRANTED", "GRANTED", "REFUSED", "GRANTED", "REFUSED"]
    assert (gate.free, gate.granted) == (0, {"a": 2, "c": 1})
    assert lab.propose(Gate(), "a", 1).name == "CLOSED"


def test_2_a_rebuilt_gate_knows_the_units_and_who_holds_them() -> None:
    holds = {"a": 2, "b": 1}
    gate = lab.rebuild(4, holds)
    holds.clear()
    assert (gate.free, gate.granted) == (4, {"a": 2, "b": 1})


def test_3_the_row_decides_whatever_redis_says() -> None:
    proposals = {proposal.name: proposal for proposal in lab.Proposal}
    cases = {
        ("GRANTED", 1): ("RESERVED", False), ("GRANTED", 0): ("SOLD_OUT", True), ("REFUSED", 1): ("RESERVED", True),
        ("REFUSED", 0): ("SOLD_OUT", False), ("CLOSED", 1): ("RESERVED", True), ("CLOSED", 0): ("SOLD_OUT", True),
    }  # fmt: skip
    found = {(name, units): lab.decide(proposals[name], units, 1) for name, units in cases}
    assert found == cases
