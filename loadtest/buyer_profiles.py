"""Values: how buyers behave (people and bots), and the mixture of behaviours in a crowd."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Character:
    """The behaviour of one buyer."""

    name: str = "honest"
    accounts: int = 1  # all from one IP address
    keys: int = 1  # purchases to attempt, each with its own key
    at_once: int = 1  # keys to try at the same time
    clicks: int = 1  # simultaneous requests with each key
    waits: bool = True  # respects Retry-After before the next attempt
    tries: int | None = None  # per key; None: until the request is decided or the time is over
    pay: float = 0.8  # probability to pay for a unit
    cancel: float = 0.1  # probability to cancel the order; otherwise it expires


HONEST = Character()
IMPATIENT = Character("impatient", clicks=2)
GREEDY = Character("greedy", keys=2, at_once=2)
STORM = Character("storm", clicks=4, waits=False)
FARM = Character("farm", accounts=20, waits=False, pay=1.0, cancel=0.0)
FLOOD = Character("flood", keys=1000, at_once=50, tries=1)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Shares of a crowd: buyers who click twice, use a second key, or retry in a storm; who pay or cancel."""

    double_click: float = 0.2
    greedy: float = 0.1
    storm: float = 0.0
    pay: float = 0.8
    cancel: float = 0.1

    def pick_character(self, chance: random.Random) -> Character:
        if chance.random() < self.storm:
            return replace(STORM, pay=self.pay, cancel=self.cancel)
        clicks = 2 if chance.random() < self.double_click else 1
        keys = 2 if chance.random() < self.greedy else 1
        return Character(
            "person", keys=keys, at_once=chance.randint(1, keys), clicks=clicks, pay=self.pay, cancel=self.cancel
        )


def random_address(chance: random.Random) -> str:
    return f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
