"""Shell: `mqcore doctor`: what is wrong in a data folder, and the cut that only a person may order.

Own rule: without an order nothing is changed. A cut destroys nothing either: what it takes out of a log stays beside it
in files named `.cut`. The broker must be stopped for a cut; a running one has the lock.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final, TextIO

from mqcore.disk.lock import DirectoryLock, DirectoryLocked
from mqcore.disk.port import Disk
from mqcore.disk.posix import PosixDisk
from mqcore.identity import TopicPartition
from mqcore.log.checkpoints import RECOVERY_POINTS, CheckpointFile
from mqcore.log.clean_mark import CLEAN_MARK
from mqcore.log.examination import ERROR, Finding, bases_of, examine_partition, first_bad
from mqcore.log.segment import INDEX, TIME_INDEX, segment_name
from mqcore.log.snapshots import remove_snapshots_above

CUT: Final = ".cut"


def run(data_dir: str, cut: str | None, as_json: bool, out: TextIO | None = None) -> int:
    """Print findings; 0 if all is well, 1 if something is wrong, 2 if the folder cannot be examined or cut."""
    out = out or sys.stdout
    if not os.path.isdir(data_dir):
        return _refuse(f"{data_dir} is no folder")
    disk = PosixDisk(data_dir)
    if cut is not None:
        try:
            with DirectoryLock(data_dir):
                return _cut_on_order(disk, cut, as_json, out)
        except DirectoryLocked as error:
            return _refuse(str(error))
    findings = examine(disk)
    for finding in findings:
        _print(finding, as_json, out)
    if not findings and not as_json:
        print(f"{len(partitions(disk))} partitions, nothing found", file=out)
    return 1 if any(finding.severity == ERROR for finding in findings) else 0


def examine(disk: Disk) -> list[Finding]:
    """All partitions of a data folder."""
    points = CheckpointFile(disk, RECOVERY_POINTS).read()
    clean = disk.exists(CLEAN_MARK)
    return [
        finding
        for name in partitions(disk)
        for finding in examine_partition(disk, str(name), recovery_point=points.get(name, 0), clean=clean)
    ]


def partitions(disk: Disk) -> list[TopicPartition]:
    """By their folders; a folder of another name is none."""
    found = []
    for name in disk.names(""):
        topic, _, number = name.removesuffix("/").rpartition("-")
        if name.endswith("/") and topic and number.isdigit():
            found.append(TopicPartition(topic, int(number)))
    return found


def _cut_on_order(disk: Disk, folder: str, as_json: bool, out: TextIO) -> int:
    name = next((name for name in partitions(disk) if str(name) == folder), None)
    if name is None:
        return _refuse(f"{folder} is no partition here")
    bad = first_bad(disk, folder)
    if bad is None:
        return _refuse(f"{folder} has nothing to cut")
    cut_partition(disk, name, bad.base_offset, bad.position, bad.next_offset)
    text = f"cut: the log ends at offset {bad.next_offset}; what was behind is in {CUT} files"
    _print(Finding("done", folder, segment_name(bad.base_offset), bad.position, text), as_json, out)
    return 0


def cut_partition(disk: Disk, name: TopicPartition, base: int, position: int, next_offset: int) -> None:
    """End the log at `position` of the segment `base`. A crash in between leaves it corrupt as before, or cut."""
    folder = str(name)
    points = CheckpointFile(disk, RECOVERY_POINTS)
    known = points.read()
    if known.get(name, 0) > next_offset:
        points.write({**known, name: next_offset})
    disk.remove(CLEAN_MARK)
    disk.sync_directory("")
    remove_snapshots_above(disk, folder, next_offset)
    for later in sorted((other for other in bases_of(disk, folder) if other > base), reverse=True):
        path = f"{folder}/{segment_name(later)}"
        disk.rename(path, path + CUT)
        _remove_indexes(disk, folder, later)
        disk.sync_directory(folder)
    path = f"{folder}/{segment_name(base)}"
    file = disk.open(path)
    disk.replace(path + CUT, file.read(position, file.size - position))
    file.truncate(position)
    file.sync()
    file.close()
    _remove_indexes(disk, folder, base)
    disk.sync_directory(folder)


def _remove_indexes(disk: Disk, folder: str, base: int) -> None:
    for suffix in (INDEX, TIME_INDEX):
        disk.remove(f"{folder}/{segment_name(base, suffix)}")


def _print(finding: Finding, as_json: bool, out: TextIO) -> None:
    if as_json:
        print(json.dumps(finding._asdict()), file=out)
    else:
        where = finding.file + ("" if finding.position is None else f" at {finding.position}")
        print(f"{finding.severity}: {finding.partition}/{where}: {finding.text}", file=out)


def _refuse(reason: str) -> int:
    print(f"mqcore: {reason}", file=sys.stderr)
    return 2
