"""A few dead letters are business as usual; a share of all is a bad deploy."""

from __future__ import annotations

from seckill.streams.circuit import LEAST_DEAD, WINDOW_S, Circuit


def test_a_few_dead_letters_stop_nothing() -> None:
    circuit = Circuit()
    circuit.note(0, dead=LEAST_DEAD - 1)
    assert not circuit.is_open(0)


def test_many_among_very_many_stop_nothing() -> None:
    circuit = Circuit()
    circuit.note(0, good=1000)
    circuit.note(0, dead=LEAST_DEAD)
    assert not circuit.is_open(0)


def test_a_large_share_opens_it_and_a_quiet_window_closes_it() -> None:
    circuit = Circuit()
    circuit.note(0, good=LEAST_DEAD)
    circuit.note(1, dead=LEAST_DEAD)
    assert circuit.is_open(1)
    assert circuit.is_open(WINDOW_S)
    assert not circuit.is_open(WINDOW_S + 1)


def test_what_left_the_window_is_forgotten_although_nobody_asks() -> None:
    circuit = Circuit()
    for batch in range(100_000):
        circuit.note(batch * 0.02, good=1)
    assert len(circuit._counts) <= WINDOW_S / 0.02 + 1
