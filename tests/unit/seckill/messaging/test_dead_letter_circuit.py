"""A few dead letters are business as usual; a share of all is a bad deploy."""

from __future__ import annotations

from seckill.messaging.dead_letter_circuit import DEAD_LETTERS_MIN, WINDOW_SECONDS, DeadLetterCircuit


def test_a_few_dead_letters_leave_the_circuit_closed() -> None:
    circuit = DeadLetterCircuit()
    circuit.note(0, dead=DEAD_LETTERS_MIN - 1)
    assert not circuit.is_open(0)


def test_a_small_share_of_dead_letters_leaves_the_circuit_closed() -> None:
    circuit = DeadLetterCircuit()
    circuit.note(0, good=1000)
    circuit.note(0, dead=DEAD_LETTERS_MIN)
    assert not circuit.is_open(0)


def test_a_large_share_opens_the_circuit_and_a_quiet_window_closes_it() -> None:
    circuit = DeadLetterCircuit()
    circuit.note(0, good=DEAD_LETTERS_MIN)
    circuit.note(1, dead=DEAD_LETTERS_MIN)
    assert circuit.is_open(1)
    assert circuit.is_open(WINDOW_SECONDS)
    assert not circuit.is_open(WINDOW_SECONDS + 1)


def test_counts_outside_the_window_are_dropped_even_if_the_circuit_is_not_read() -> None:
    circuit = DeadLetterCircuit()
    for batch in range(100_000):
        circuit.note(batch * 0.02, good=1)
    assert len(circuit._counts) <= WINDOW_SECONDS / 0.02 + 1
