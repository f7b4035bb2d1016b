"""What goes wrong in one history: a list made up front from the seed, so that a failing one can be shortened."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

PERIOD_MS: Final = 2500
PERIODS: Final = 8
CALM_RATE: Final = 0.25


class Trouble(NamedTuple):
    at_ms: int
    kind: str
    brokers: tuple[int, ...]
    duration_ms: int


KINDS: Final = {
    # kind → how often, relative to the others
    "kill": 4,
    "kill two": 1,
    "kill all": 1,
    "pause": 3,
    "cut": 3,
    "one-way cut": 3,
    "isolate": 2,
    "cut from controller": 3,
    "pause controller": 1,
    "controller's answers lost": 3,
    "late images": 4,
    "late proposals": 3,
    "flap": 3,
    "move leader": 4,
    "recreate topic": 2,
    "stragglers": 2,
}
POWER: Final = {"power": 4, "power all": 1}


def troubles_of(seed: int, brokers: tuple[int, ...], *, with_power: bool) -> list[Trouble]:
    """Up to three troubles in a period, and none in a quarter of them."""
    random = Random(seed)
    weights = KINDS | (POWER if with_power else {})
    chosen = random.sample(sorted(weights), random.randrange(2, len(weights)))  # each history has its own mix
    found = []
    for period in range(PERIODS):
        if random.random() < CALM_RATE:
            continue
        for _ in range(random.randrange(1, 4)):
            kind = random.choices(chosen, [weights[name] for name in chosen])[0]
            at = period * PERIOD_MS + random.randrange(PERIOD_MS)
            pair = random.sample(brokers, 2)
            found.append(Trouble(at, kind, tuple(pair), random.choice((200, 700, 1500, 3000))))
    return sorted(found)
