"""Store: the mark of a clean stop, Kafka's `.kafka_cleanshutdown`.

Own rule: written last, when everything else is durable; taken away, durably, before anything else is changed. A mark
that is there says that no partition needs to be verified.
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
    """The broker epoch of a clean stop, or None; the mark is gone for good before this returns.

    A damaged mark is none. Whoever knows a newer broker epoch must not believe an older mark: a rename that a power
    loss undid may have brought it back.
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
