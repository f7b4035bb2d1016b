"""Brokers and clusters that a test makes when it needs them, with settings as keyword arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar


class Stoppable(Protocol):
    def stop(self) -> object: ...

    def kill(self) -> None: ...


Made = TypeVar("Made", bound=Stoppable)


@contextmanager
def factory(make: Callable[..., Made], folder: Path, *, end: Callable[[Made], object]) -> Iterator[Callable[..., Made]]:
    """`new(log_segment_bytes="1024")` makes one that is not started yet. At the end, all of them are ended."""
    made: list[Made] = []

    def new(**settings: str) -> Made:
        made.append(make(folder / f"made-{len(made)}", kafka_names(settings)))
        return made[-1]

    try:
        yield new
    finally:
        for one in made:
            end(one)


def kafka_names(settings: Mapping[str, str]) -> dict[str, str]:
    """Python's names cannot have dots."""
    return {name.replace("_", "."): value for name, value in settings.items()}
