"""Writes docs/generated: the tables that the code holds, as pages. `make docs` runs it; a test finds a stale page.

python -m docs.generate           writes the pages
python -m docs.generate --check   says which are stale, and writes nothing
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mqcore import config
from mqcore.apis.table import TABLE
from mqcore.log.config import TOPIC_SETTINGS

FOLDER = Path(__file__).parent / "generated"


def api_versions() -> str:
    rows = []
    for key, entry in sorted(TABLE.items()):
        api = entry.api
        note = f"{api.first_version}–{api.first_served - 1} are refused" if api.first_served else ""
        rows.append((str(key), api.name, f"{api.first_version}–{api.last_version}", note))
    return _page(
        "Requests and their versions",
        "What ApiVersions advertises, from the `API` line of each module in `mqcore/apis`.",
        _table(("key", "request", "versions", ""), rows),
    )


def settings() -> str:
    broker = [
        (f"`{name}`", _value(config.as_text(spec.default)), spec.metadata["doc"])
        for name, spec in config.settings().items()
    ]
    topic = [
        (f"`{name}`", f"`{setting.synonym}`" if setting.synonym else "", _value(setting.default), setting.documentation)
        for name, setting in sorted(TOPIC_SETTINGS.items())
    ]
    return _page(
        "Settings",
        "In `broker.toml`, or as `--set name=value`. An unknown name stops the start.",
        "## Of the broker\n\n" + _table(("name", "default", "meaning"), broker),
        "## Of a topic\n\nSet for a topic, or for all topics under the broker's name.\n\n"
        + _table(("name", "the broker's name", "default", "meaning"), topic),
    )


PAGES: dict[str, Callable[[], str]] = {"api-versions.md": api_versions, "settings.md": settings}


def stale() -> list[str]:
    """The names of the pages that differ from what the code says."""
    return [
        name
        for name, page in PAGES.items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text(encoding="utf-8") != page()
    ]


def main(arguments: Sequence[str]) -> int:
    if "--check" in arguments:
        for name in stale():
            print(f"docs/generated/{name} is stale: make docs")
        return 1 if stale() else 0
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
    return 0


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", "<!-- written by docs/generate.py -->", *parts]).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _value(text: str) -> str:
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
