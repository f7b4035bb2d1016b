"""Fuzzing without a fuzzer: random mutations of the seeds, which repeat for the same random seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.fuzz.targets import Target

TELLING = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"]


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        position = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0:
                del data[position:]
            case 1:
                data[position : position + chance.randrange(1, 5)] = b""
            case 2:
                data[position:position] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                other = chance.choice(seeds)
                data[position:] = other[chance.randrange(len(other) + 1) :]
            case 4 if position < len(data):
                data[position] ^= 1 << chance.randrange(8)
            case _:
                telling = chance.choice(TELLING)
                data[position : position + len(telling)] = telling
    return bytes(data)


def search(target: Target, executions: int, seed: int) -> None:
    """Run the target; raises its exception with the input that caused it."""
    chance = random.Random(seed)
    seeds = target.seeds()
    for data in seeds:
        target.run(data)
    for number in range(executions):
        data = mutated(chance, seeds)
        try:
            target.run(data)
        except Exception as error:
            error.add_note(f"seed {seed}, execution {number}, input {data!r}")
            raise
