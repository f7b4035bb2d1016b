"""Store: the mark of a clean stop, Kafka's `.kafka_cleanshutdown`.

Own rule: the mark is written last, when everything else is durable, and removed durably before anything else changes.
While it exists, no partition needs verification.
"""

from __future__ import annotations

import json
from typing import Final

from mqcore.disk.port import Disk

CLEAN_MARK: Final = ".kafka_cleanshutdown"
_VERSION: Final = 0


def write_clean_mark(disk: Disk, broker_epoch: int) -> None:
    content = {"version": _VERSION, "brokerEpoch": broker_epoch}
    disk.replace(CLEAN_MARK, json.dumps(content, separators=(",", ":")).encode())


def take_clean_mark(disk: Disk) -> int | None:
    """Durably remove the mark and return the broker epoch in it; None if there is no mark or it is damaged.

    A caller that knows a newer broker epoch must ignore an older mark: a power loss may have undone its removal.
    """
    try:
        content = disk.read_whole(CLEAN_MARK)
    except FileNotFoundError:
        return None
    disk.remove(CLEAN_MARK)
    disk.sync_directory("")
    try:
        mark = json.loads(content)
        epoch = mark["brokerEpoch"]
        return epoch if mark["version"] == _VERSION and type(epoch) is int else None
    except (ValueError, KeyError, TypeError):
        return None
