"""Codec: load shapes: each is a table of scenes, and says how many users of which groups run at a moment.

The number of users in a scene is a share of -u. Scenes follow one another.
"""

from __future__ import annotations

from typing import NamedTuple

PEOPLE, IMPATIENT, BOTS = "people", "impatient", "bots"
ALL_GROUPS = (PEOPLE, IMPATIENT, BOTS)


class Scene(NamedTuple):
    name: str
    seconds: float
    share: float  # of -u: the number of users in this scene
    rate: float  # of -u: users that start or stop per second
    groups: tuple[str, ...] = ALL_GROUPS


SHAPES: dict[str, tuple[Scene, ...]] = {
    "sale": (
        Scene("pre-sale refresh", 20, 0.6, 0.05, (PEOPLE, IMPATIENT)),
        Scene("opening", 15, 1.0, 0.4),
        Scene("retry storm", 20, 1.5, 0.5, (IMPATIENT, BOTS)),
        Scene("tail", 40, 0.2, 0.1, (PEOPLE,)),
    ),
    "steps": tuple(Scene(f"{share:.0%}", 30, share, 0.2) for share in (0.2, 0.4, 0.6, 0.8, 1.0)),
    "spikes": tuple(
        scene for _ in range(4) for scene in (Scene("spike", 10, 1.0, 1.0), Scene("calm", 20, 0.1, 1.0, (PEOPLE,)))
    ),
}


class Target(NamedTuple):
    scene: str
    users: int
    rate: float  # users that start or stop per second
    groups: tuple[str, ...]


def target_at(shape: str, second: float, users_max: int) -> Target | None:
    """The target at this second of the test; None after the last scene."""
    for scene in SHAPES[shape]:
        if second < scene.seconds:
            users = max(1, round(scene.share * users_max))
            return Target(scene.name, users, max(1.0, scene.rate * users_max), scene.groups)
        second -= scene.seconds
    return None
