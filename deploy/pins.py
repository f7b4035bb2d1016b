"""Print the part of requirements.lock that an image needs: dependencies of dependencies included, developer tools not.

`python deploy/pins.py [--only NAME …] [--without NAME …]` prints requirements for `pip install --require-hashes`, which
installs nothing else. The `# via` lines of the lock say which package needs which.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Pin(NamedTuple):
    """One entry of the lock: its lines, and the packages that need it."""

    name: str
    text: str
    wanted_by: frozenset[str]


class NoSuchPin(Exception):
    """The lock has no package of this name."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python deploy/pins.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these dependencies instead of all")
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="all but these")
    chosen = parser.parse_args(arguments)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {name_of(each) for each in chosen.only or project["dependencies"]} - set(chosen.without)
    try:
        print("".join(pin.text for pin in needed(read_pins((ROOT / "requirements.lock").read_text()), wanted)), end="")
    except NoSuchPin as missing:
        print(f"requirements.lock has no {missing}; run `make lock`", file=sys.stderr)
        return 1
    return 0


def name_of(requirement: str) -> str:
    """A package name as the lock writes it: in lower case, with hyphens."""
    found = NAME.match(requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def read_pins(lock: str) -> dict[str, Pin]:
    return {pin.name: pin for pin in _pins(lock)}


def _pins(lock: str) -> Iterator[Pin]:
    """An entry starts at the margin; its hashes and `# via` lines are indented."""
    for entry in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE):
        if entry.strip():
            _, _, reasons = entry.partition("# via")
            needed_by = (line.strip(" #") for line in reasons.splitlines())
            yield Pin(name_of(entry), entry, frozenset(name_of(line) for line in needed_by if line))


def needed(pins: Mapping[str, Pin], wanted: Iterable[str]) -> list[Pin]:
    """The wanted packages and everything that they need."""
    found: set[str] = set()
    fresh = set(wanted)
    if fresh - set(pins):
        raise NoSuchPin(", ".join(sorted(fresh - set(pins))))
    while fresh:
        found |= fresh
        fresh = {pin.name for pin in pins.values() if pin.wanted_by & fresh} - found
    return [pin for name, pin in pins.items() if name in found]


if __name__ == "__main__":
    sys.exit(main())
