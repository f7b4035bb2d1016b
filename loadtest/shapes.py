"""Codec: how many come when: a story as a table, and what it says of a moment. Locust asks once a second.

A scene's users are a share of -u; scenes follow one another, each from where the one before it ended.
"""

from __future__ import annotations

from typing import NamedTuple

PEOPLE, IMPATIENT, BOTS = "people", "impatient", "bots"
EVERYBODY = (PEOPLE, IMPATIENT, BOTS)


class Scene(NamedTuple):
    name: str
    seconds: float
    share: float  # of -u, wanted while it lasts
    rate: float  # of -u, that come or go each second
    who: tuple[str, ...] = EVERYBODY


SHAPES: dict[str, tuple[Scene, ...]] = {
    "sale": (
        Scene("pre-sale refresh", 20, 0.6, 0.05, (PEOPLE, IMPATIENT)),
        Scene("the gong", 15, 1.0, 0.4),
        Scene("retry storm", 20, 1.5, 0.5, (IMPATIENT, BOTS)),
        Scene("tail", 40, 0.2, 0.1, (PEOPLE,)),
    ),
    "steps": tuple(Scene(f"{share:.0%}", 30, share, 0.2) for share in (0.2, 0.4, 0.6, 0.8, 1.0)),
    "spikes": tuple(
        scene for _ in range(4) for scene in (Scene("spike", 10, 1.0, 1.0), Scene("calm", 20, 0.1, 1.0, (PEOPLE,)))
    ),
}


class Wanted(NamedTuple):
    scene: str
    users: int
    rate: float
    who: tuple[str, ...]


def at(shape: str, second: float, most: int) -> Wanted | None:
    """None: the story is over."""
    for scene in SHAPES[shape]:
        if second < scene.seconds:
            return Wanted(scene.name, max(1, round(scene.share * most)), max(1.0, scene.rate * most), scene.who)
        second -= scene.seconds
    return None
