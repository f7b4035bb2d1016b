"""docker-compose.yml as tests read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}")
PLACES = {
    "--host",
    "--web-host",
    "--data",
    "--listen",
    "--metrics-port",
    "--metrics-host",
    "--secret-file",
    "--callback-host",
}
SETTINGS_OF_THE_PLACE = re.compile(
    r"(advertised\.)?listener|metrics\.|allow\.unauthenticated|inter\.broker|max\.connections|queued\.max|socket\.request"
)

Service = dict[str, Any]


def compose(**variables: str) -> dict[str, Any]:
    """The file as Docker reads it, with only these variables set."""
    text = VARIABLE.sub(
        lambda found: variables.get(found[1], found[2] or ""), (ROOT / "docker-compose.yml").read_text()
    )
    project: dict[str, Any] = yaml.safe_load(text.replace("$$", "$"))
    return project


def without_places(words: list[str]) -> list[str]:
    """A command without options that may differ: addresses, folders, secret files, metrics, and the broker's limits."""
    kept, rest = [], iter(words)
    for word in rest:
        if word in PLACES:
            next(rest)
        elif word == "--set":
            setting = next(rest)
            if not SETTINGS_OF_THE_PLACE.match(setting):
                kept += [word, setting]
        else:
            kept.append(word)
    return kept


def parse_bytes(text: str) -> int:
    return int(text[:-1]) << {"m": 20, "g": 30}[text[-1]]


PROJECT = compose()
SERVICES: dict[str, Service] = PROJECT["services"]
