"""Writes docs/generated: the tables that the code holds, as pages. `make docs` runs it; a test finds a stale page.

python -m docs.generate           writes the pages
python -m docs.generate --check   says which are stale, and writes nothing
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from docs.limits import SECTIONS, shown
from mqcore import config
from mqcore.apis.api_versions import RELEASE
from mqcore.apis.call import Api
from mqcore.apis.controller_table import CONTROLLER_TABLE
from mqcore.apis.table import TABLE, ApiTable
from mqcore.controller.settings_without_effect import SETTINGS_WITHOUT_EFFECT
from mqcore.log.topic_config import TOPIC_SETTINGS
from seckill.messaging.partitioners import (
    HashRing,
    HashSlots,
    PartitionChooser,
    RandomPartition,
    RoundRobin,
    SlotTable,
    StickyPartition,
    by_murmur2,
)

FOLDER = Path(__file__).parent / "generated"


def api_versions() -> str:
    def rows(table: ApiTable) -> list[tuple[str, ...]]:
        return [_api_row(entry.api) for _, entry in sorted(table.items())]

    columns = ("key", "request", "versions", "")
    return _page(
        "Requests and their versions",
        "What ApiVersions advertises, from the `API` line of each module in `mqcore/apis`. The versions are those of "
        f"Kafka {'.'.join(map(str, RELEASE))}, which is the release that clients infer; requests that it has and that "
        "are missing here are not served.",
        _table(columns, rows(TABLE)),
        "## Between nodes\n\nWhat the controller's listener serves in a cluster. Some of these requests have tagged "
        "fields that Kafka does not know.\n\n" + _table(columns, rows(CONTROLLER_TABLE)),
    )


def _api_row(api: Api) -> tuple[str, ...]:
    notes = [f"{api.first_version}–{api.first_served - 1} are refused"] if api.first_served else []
    notes += ["forwarded to the active controller"] if api.forwarded else []
    return str(api.key), api.name, f"{api.first_version}–{api.last_version}", ", ".join(notes)


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
        "## Without effect\n\nKafka can change these while a broker runs. AlterConfigs and IncrementalAlterConfigs "
        "take them for a broker, DescribeConfigs shows them, and nothing else happens. For those that are also in the "
        "first table, the value in the broker's file counts.\n\n"
        + _table(
            ("name", "default"), [(f"`{name}`", _value(row.default)) for name, row in SETTINGS_WITHOUT_EFFECT.items()]
        ),
    )


def limits() -> str:
    tables = []
    for title, rows in SECTIONS:
        lines = [(limit.name, shown(limit), limit.at_the_limit, f"`{limit.test.split('::')[1]}`") for limit in rows]
        tables.append(f"## {title}\n\n" + _table(("limit", "default", "at the limit", "measured by"), lines))
    return _page(
        "Limits",
        "What a client can make the broker and the sale hold or do, and what it gets at the limit. Names with dots are "
        "settings of the broker ([settings](settings.md)); the others are constants of the code. What clients can make "
        "the broker hold is bounded by `queued.max.request.bytes` (or one request, if that is larger; its buffer is "
        "copied when it grows), "
        "`queued.max.response.bytes`, `group.memory.max.bytes`, the producers, the waiting fetches, and some 20 KB a "
        "connection. `tests/conformance/test_abuse_memory.py` compares it with the memory that the process takes.",
        *tables,
    )


def partitioners() -> str:
    keys = [b"user-%d" % number for number in range(20_000)]
    twelve = range(12)
    rows = []
    for name, before, after, in_order in _ways():
        placed = [before(key, twelve, twelve) for key in keys]
        shares = Counter(placed)
        moved = []
        for count in (13, 16, 24):
            grown = range(count)
            way = after(count)
            changed = sum(way(key, grown, grown) != place for key, place in zip(keys, placed, strict=True))
            moved.append(f"{changed / len(keys):.1%}")
        uneven = max(shares.values()) * len(twelve) / len(keys) - 1
        rows.append((name, in_order, f"+{uneven:.1%}", *moved))
    return _page(
        "Partitioners",
        "What becomes of 20,000 users when a topic of 12 partitions grows: the share of keys that go to another "
        "partition than before, from one moment to the next. A key that moves while a request of its user still waits "
        "in the old partition may be overtaken by the next one. `purchase.requests` is written by hash slots only: "
        "adding partitions moves nothing, and a slot is moved on purpose, in four steps (`seckill slots`), when "
        "nothing of it is left where it was.",
        _table(("partitioner", "order of a key", "fullest partition", "12 → 13", "12 → 16", "12 → 24"), rows),
    )


def _ways() -> Iterator[tuple[str, PartitionChooser, Callable[[int], PartitionChooser], str]]:
    """Name, the partitioner, the same after the topic has grown, what it keeps of a key's order."""
    table = SlotTable.even(12)
    yield "murmur2 modulo count (Kafka's default)", by_murmur2, lambda _: by_murmur2, "until it grows"
    ring = HashRing()
    yield "consistent hashing (a ring)", ring, lambda _: ring, "until it grows"
    slots = HashSlots(table)
    yield "hash slots, partitions added", slots, lambda _: slots, "kept"
    yield "hash slots, then `seckill slots grow`", slots, lambda count: HashSlots(_evened(table, count)), "kept"
    turns = RoundRobin()
    yield "round robin", turns, lambda _: turns, "none"
    chance = RandomPartition(random.Random(1))
    yield "random", chance, lambda _: chance, "none"
    sticky = StickyPartition(500, random.Random(1))
    yield "sticky, 500 records", sticky, lambda _: sticky, "none"


def _evened(table: SlotTable, count: int) -> SlotTable:
    for slot, partition in table.moves_to(count).items():
        table = table.moved(slot, partition)
    return table


PAGES: dict[str, Callable[[], str]] = {
    "api-versions.md": api_versions,
    "settings.md": settings,
    "limits.md": limits,
    "partitioners.md": partitioners,
}


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
