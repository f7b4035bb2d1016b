"""Store: the folders of partitions, and which topic each belongs to.

    <topic>-<partition>/                 its file partition.metadata contains the topic's id
    <topic>-<partition>.<id>-delete/     its topic was deleted; the retention sweep removes the folder
    <topic>-<partition>.<ms>-stray/      no topic owned it at that time; the retention sweep removes it after a week

Own rule: a folder contains its topic's id durably before its log takes a record. Otherwise a power loss may undo the
renaming of a deleted topic's folder and lose the id, and its records would appear in the next topic of that name.
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

DELETED_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
STRAY_RETENTION_MS: Final = 7 * 24 * 3600 * 1000
METADATA_FILE: Final = "partition.metadata"
NAME_CHARACTERS_MAX: Final = 200
PARTITION_FOLDER: Final = re.compile(r"[a-zA-Z0-9._-]+-[0-9]+")
_STRAY_FOLDER: Final = re.compile(r".+\.([0-9]+)-stray/")


class PartitionFolders:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def claim_folder(self, directory: str, topic_id: UUID, before_creating: Callable[[], None]) -> None:
        """Make sure that the folder exists and belongs to the topic. A folder of a deleted topic is renamed first.

        `before_creating` runs before a new folder is created. A folder whose metadata file is unreadable is kept,
        because its records may be the topic's."""
        owner = self._owner_of(directory)
        if owner == topic_id:
            return
        if owner is not None or not self._disk.exists(directory):
            before_creating()
        if owner is not None:
            log.warning("folder of a deleted topic renamed", extra={"partition": directory})
            self.mark_deleted(directory, owner)
        self._disk.make_directory(directory)
        file = self._disk.open(f"{directory}/{METADATA_FILE}", create=True)
        file.truncate(0)
        file.append((_metadata_content(topic_id),))
        file.close()

    def write_topic_id(self, directory: str, topic_id: UUID) -> None:
        """Durably write which topic owns the folder. Rewrites the file, because a failed sync must not be repeated."""
        self._disk.replace(f"{directory}/{METADATA_FILE}", _metadata_content(topic_id))

    def mark_deleted(self, directory: str, topic_id: UUID) -> None:
        self._rename(directory, topic_id.hex, DELETED_SUFFIX)

    def mark_strays(self, is_known: Callable[[str, int], bool], now_ms: int) -> None:
        """Rename folders whose partition is unknown. Their topic was deleted before a crash, or they are a mistake."""
        for name in self._disk.names(""):
            folder = name.rstrip("/")
            if not name.endswith("/") or not PARTITION_FOLDER.fullmatch(folder):
                continue
            topic, _, index = folder.rpartition("-")
            if is_known(topic, int(index)):
                continue
            try:
                self._rename(folder, str(now_ms), STRAY_SUFFIX)
            except OSError as fault:
                log.error("stray folder not renamed", extra={"folder": folder, "reason": str(fault)})
            else:
                log.warning("stray folder renamed", extra={"folder": folder})

    def remove_expired_steps(self, now_ms: int) -> Iterator[None]:
        """Remove folders of deleted topics immediately and strays after a week; one folder per step."""
        for name in self._disk.names(""):
            stray = _STRAY_FOLDER.fullmatch(name)
            if name.endswith(DELETED_SUFFIX + "/") or (stray and now_ms - int(stray[1]) >= STRAY_RETENTION_MS):
                try:
                    self._disk.remove(name.rstrip("/"))
                except OSError as fault:
                    log.error("folder not removed", extra={"folder": name.rstrip("/"), "reason": str(fault)})
                yield

    def _owner_of(self, directory: str) -> UUID | None:
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
        """Cut the topic's name, because it may already be as long as a file system allows."""
        topic, _, index = directory.rpartition("-")
        for attempt in range(1000):
            number = "" if attempt == 0 else f"~{attempt}"  # another folder may have been cut to the same name
            target = f"{topic[:NAME_CHARACTERS_MAX]}-{index}{number}.{mark}{suffix}"
            if not self._disk.exists(target):
                self._disk.rename(directory, target)
                return
        raise OSError(errno.EEXIST, f"no free name for {directory}")


def _metadata_content(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {kafka_uuid(topic_id)}\n".encode()
