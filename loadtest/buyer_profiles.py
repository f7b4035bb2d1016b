"""Values: who comes: characters, people and bots, and the mixture of them that a crowd is."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Character:
    """How somebody behaves."""

    name: str = "honest"
    accounts: int = 1  # all from one address
    keys: int = 1  # purchases he tries, each under a key of its own
    at_once: int = 1  # of these at the same time
    clicks: int = 1  # at once, under each key
    waits: bool = True  # as long as he is told to, before he tries again
    tries: int | None = None  # under a key; None: until it is decided, or he goes home
    pay: float = 0.8  # share of those who get something; the rest walk away
    cancel: float = 0.1


HONEST = Character()
IMPATIENT = Character("impatient", clicks=2)
GREEDY = Character("greedy", keys=2, at_once=2)
STORM = Character("storm", clicks=4, waits=False)
FARM = Character("farm", accounts=20, waits=False, pay=1.0, cancel=0.0)
FLOOD = Character("flood", keys=1000, at_once=50, tries=1)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Shares of a crowd: who clicks twice, who tries a second key, who storms; who pays, who cancels."""

    double_click: float = 0.2
    greedy: float = 0.1
    storm: float = 0.0
    pay: float = 0.8
    cancel: float = 0.1

    def somebody(self, chance: random.Random) -> Character:
        if chance.random() < self.storm:
            return replace(STORM, pay=self.pay, cancel=self.cancel)
        clicks = 2 if chance.random() < self.double_click else 1
        keys = 2 if chance.random() < self.greedy else 1
        return Character(
            "person", keys=keys, at_once=chance.randint(1, keys), clicks=clicks, pay=self.pay, cancel=self.cancel
        )


def address(chance: random.Random) -> str:
    return f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
