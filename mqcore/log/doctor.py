"""Shell: `mqcore doctor` shows what is wrong in a data folder, and cuts a corrupt log if the operator asks for it.

Own rule: without `--cut` it changes nothing, and a cut destroys nothing: what it removes from a log stays beside it, in
files named `.cut`. The broker must be stopped for a cut, because a running broker holds the lock.
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
from mqcore.log.examination import ERROR, Finding, examine_partition, open_segments
from mqcore.log.segment_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_bases, segment_name
from mqcore.log.snapshots import remove_snapshots_above
from mqcore.log.validity import find_first_invalid

CUT_SUFFIX: Final = ".cut"


def run_doctor(data_dir: str, cut: str | None, as_json: bool, out: TextIO | None = None) -> int:
    """Print findings and return the exit code: 0 without errors, 1 with errors, 2 if the folder cannot be examined."""
    out = out or sys.stdout
    if not os.path.isdir(data_dir):
        return _refuse(f"{data_dir} is not a folder")
    disk = PosixDisk(data_dir)
    if cut is not None:
        try:
            with DirectoryLock(data_dir):
                return _cut_folder(disk, cut, as_json, out)
        except DirectoryLocked as error:
            return _refuse(str(error))
    findings = examine_data_folder(disk)
    for finding in findings:
        _print(finding, as_json, out)
    if not findings and not as_json:
        print(f"{len(partitions(disk))} partitions, nothing found", file=out)
    return 1 if any(finding.severity == ERROR for finding in findings) else 0


def examine_data_folder(disk: Disk) -> list[Finding]:
    """All partitions of a data folder."""
    points = CheckpointFile(disk, RECOVERY_POINTS).read()
    clean = disk.exists(CLEAN_MARK)
    return [
        finding
        for name in partitions(disk)
        for finding in examine_partition(disk, str(name), recovery_point=points.get(name, 0), clean=clean)
    ]


def partitions(disk: Disk) -> list[TopicPartition]:
    """Those with a folder; folders with other names are skipped."""
    found = []
    for name in disk.names(""):
        topic, _, number = name.removesuffix("/").rpartition("-")
        if name.endswith("/") and topic and number.isdigit():
            found.append(TopicPartition(topic, int(number)))
    return found


def _cut_folder(disk: Disk, folder: str, as_json: bool, out: TextIO) -> int:
    name = next((name for name in partitions(disk) if str(name) == folder), None)
    if name is None:
        return _refuse(f"no partition folder named {folder}")
    items = open_segments(disk, folder)
    invalid = find_first_invalid(items).first_invalid
    if invalid is None:
        return _refuse(f"{folder} has nothing to cut")
    base = items[invalid.segment_index].base_offset
    cut_partition(disk, name, base, invalid.position, invalid.next_offset)
    text = f"cut: the log ends at offset {invalid.next_offset}; the rest is in {CUT_SUFFIX} files"
    _print(Finding("done", folder, segment_name(base), invalid.position, text), as_json, out)
    return 0


def cut_partition(disk: Disk, name: TopicPartition, base: int, position: int, next_offset: int) -> None:
    """End the log at `position` in the segment `base`. If it crashes midway, the log is still corrupt or it is cut.

    The order matters. First it removes what refers to the lost batches: recovery point, clean mark and snapshots. From
    then on, a crash leaves the corruption, or what looks like a torn write at the same place."""
    folder = str(name)
    points = CheckpointFile(disk, RECOVERY_POINTS)
    known = points.read()
    if known.get(name, 0) > next_offset:
        points.write({**known, name: next_offset})
    disk.remove(CLEAN_MARK)
    disk.sync_directory("")
    remove_snapshots_above(disk, folder, next_offset)
    for later in sorted((other for other in segment_bases(disk.names(folder)) if other > base), reverse=True):
        path = f"{folder}/{segment_name(later)}"
        disk.rename(path, path + CUT_SUFFIX)
        _remove_indexes(disk, folder, later)
        disk.sync_directory(folder)
    path = f"{folder}/{segment_name(base)}"
    file = disk.open(path)
    disk.replace(path + CUT_SUFFIX, file.read(position, file.size - position))
    file.truncate(position)
    file.sync()
    file.close()
    _remove_indexes(disk, folder, base)
    disk.sync_directory(folder)


def _remove_indexes(disk: Disk, folder: str, base: int) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
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
