"""Store: the folders of partitions, and which topic each belongs to.

    <topic>-<partition>/                 partition.metadata names its topic
    <topic>-<partition>.<id>-delete/     of a deleted topic; housekeeping removes it
    <topic>-<partition>.<ms>-stray/      of no known topic since then; housekeeping removes it after a week

Own rule: a folder must name its topic durably before its log takes a record. Otherwise a power loss may undo the
renaming of a deleted topic's folder and lose the note, and its records would appear in the next topic of that name.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from mqcore.disk.port import Disk
from mqcore.identity import kafka_uuid, parse_kafka_uuid

log = logging.getLogger(__name__)

DELETED: Final = "-delete"
STRAY: Final = "-stray"
STRAY_KEPT_MS: Final = 7 * 24 * 3600 * 1000
METADATA_FILE: Final = "partition.metadata"
LONGEST_NAME: Final = 200
PARTITION_FOLDER: Final = re.compile(r"[a-zA-Z0-9._-]+-[0-9]+")
_STRAY_FOLDER: Final = re.compile(r".+\.([0-9]+)-stray/")


class PartitionFolders:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def claim(self, directory: str, topic_id: UUID, forget_older: Callable[[], None]) -> None:
        """Make the folder, or take it if it is there. One of an older topic of the name is put aside.

        A new folder is made only after `forget_older` has returned. A folder with an unreadable note is taken."""
        found = self._topic_of(directory)
        if found == topic_id:
            return
        if found is not None or not self._disk.exists(directory):
            forget_older()
        if found is not None:
            log.warning("folder of a deleted topic put aside", extra={"partition": directory})
            self.put_aside(directory, found)
        self._disk.make_directory(directory)
        file = self._disk.open(f"{directory}/{METADATA_FILE}", create=True)
        file.truncate(0)
        file.append((_note(topic_id),))
        file.close()

    def name_topic(self, directory: str, topic_id: UUID) -> None:
        """Make durable which topic the folder belongs to. The note is written again, because a sync that failed must
        not be repeated."""
        self._disk.replace(f"{directory}/{METADATA_FILE}", _note(topic_id))

    def put_aside(self, directory: str, topic_id: UUID) -> None:
        """The topic was deleted: housekeeping removes the folder."""
        self._rename(directory, topic_id.hex, DELETED)

    def put_strays_aside(self, is_known: Callable[[str, int], bool], now_ms: int) -> None:
        """Folders of partitions that no topic has: of a topic that was deleted when the power went, or a mistake."""
        for name in self._disk.names(""):
            folder = name.rstrip("/")
            if not name.endswith("/") or not PARTITION_FOLDER.fullmatch(folder):
                continue
            topic, _, index = folder.rpartition("-")
            if is_known(topic, int(index)):
                continue
            try:
                self._rename(folder, str(now_ms), STRAY)
            except OSError as fault:
                log.error("folder of no known partition stays", extra={"folder": folder, "reason": str(fault)})
            else:
                log.warning("folder of no known partition put aside", extra={"folder": folder})

    def remove_steps(self, now_ms: int) -> Iterator[None]:
        """Remove folders of deleted topics at once and strays after a week; one folder a step."""
        for name in self._disk.names(""):
            stray = _STRAY_FOLDER.fullmatch(name)
            if name.endswith(DELETED + "/") or (stray and now_ms - int(stray[1]) >= STRAY_KEPT_MS):
                try:
                    self._disk.remove(name.rstrip("/"))
                except OSError as fault:
                    log.error("folder not removed", extra={"folder": name.rstrip("/"), "reason": str(fault)})
                yield

    def _topic_of(self, directory: str) -> UUID | None:
        try:
            content = self._disk.read_whole(f"{directory}/{METADATA_FILE}")
        except FileNotFoundError:
            return None
        for line in content.decode(errors="replace").splitlines():
            name, _, value = line.partition(": ")
            if name == "topic_id":
                try:
                    return parse_kafka_uuid(value)
                except ValueError:
                    return None
        return None

    def _rename(self, directory: str, mark: str, suffix: str) -> None:
        """The new name is cut, because a topic's name may already be as long as a file system allows."""
        topic, _, index = directory.rpartition("-")
        for attempt in range(1000):
            again = "" if attempt == 0 else f"~{attempt}"  # another folder may have been cut to the same name
            target = f"{topic[:LONGEST_NAME]}-{index}{again}.{mark}{suffix}"
            if not self._disk.exists(target):
                self._disk.rename(directory, target)
                return
        raise OSError(errno.EEXIST, f"no free name for {directory}")


def _note(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {kafka_uuid(topic_id)}\n".encode()
