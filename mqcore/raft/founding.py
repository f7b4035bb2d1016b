"""Store: how the metadata folder of a node begins.

The nodes of a cluster are formatted by an operator, who chooses one founder. Two empty nodes can therefore never elect
each other beside a third one that has the data. A broker that is the only voter needs no operator: it founds its
quorum at its first start, and takes over the log of a version that had no quorum.
"""

from __future__ import annotations

from typing import Final

from mqcore.disk.port import Disk
from mqcore.raft.messages import VoterKey, voter_set
from mqcore.raft.quorum_file import QUORUM_FILE, QuorumFile
from mqcore.raft.quorum_log import FOLDER
from mqcore.raft.snapshots import SUFFIX, Snapshots, founding_snapshot
from mqcore.raft.state import NO_ELECTION

NOT_FORMATTED: Final = (
    "is not formatted: run `mqcore format --data DIR --cluster-id ID --node-id N` for every node,"
    " with --founder for one of them"
)

_DIRECTORY: Final = str(FOLDER)


class UnusableFolder(Exception):
    """The data folder must not be used; the text says why, and what to do."""


def is_formatted(disk: Disk) -> bool:
    """`quorum-state` is written last, so an interrupted format does not count."""
    return disk.exists(f"{_DIRECTORY}/{QUORUM_FILE}")


def is_unfinished(disk: Disk) -> bool:
    """Whether a format was interrupted: there is nothing but what it writes first."""
    return all(
        name.endswith((SUFFIX, f"{SUFFIX}.tmp")) or name.startswith(QUORUM_FILE) for name in disk.names(_DIRECTORY)
    )


def format_folder(disk: Disk, me: VoterKey, now_ms: int, *, is_founder: bool) -> None:
    if is_founder:
        found(disk, me, now_ms)
    disk.make_directory(_DIRECTORY)
    QuorumFile(disk, _DIRECTORY).write(NO_ELECTION)
    disk.sync_directory("")


def found(disk: Disk, me: VoterKey, now_ms: int) -> None:
    """Begin a quorum of one."""
    disk.make_directory(_DIRECTORY)
    Snapshots(disk, _DIRECTORY).write(founding_snapshot(voter_set([me])), now_ms)
    disk.sync_directory("")


def prepare_folder(disk: Disk, me: VoterKey, now_ms: int, *, is_only_voter: bool) -> None:
    """Check the folder before it is opened, and found the quorum if this is the first start of the only voter."""
    if is_formatted(disk):
        return
    if not is_only_voter:
        raise UnusableFolder(NOT_FORMATTED)
    disk.make_directory(_DIRECTORY)
    snapshots = Snapshots(disk, _DIRECTORY).ids()
    if any(snapshot.end > 0 for snapshot in snapshots):
        raise UnusableFolder(
            f"has a snapshot of the metadata but no {QUORUM_FILE}: restore that file, or start with an empty folder"
        )
    if not snapshots:
        found(disk, me, now_ms)
