"""Shell: prepare a data folder for a node of a cluster: `mqcore format`.

Own rule: `meta.properties` is written last, so an interrupted format can be repeated.
"""

from __future__ import annotations

import os
import sys
from uuid import UUID

from mqcore.data_folder import FILE, FolderIdentity, read_identity, write_identity
from mqcore.disk.port import Disk
from mqcore.disk.posix import PosixDisk
from mqcore.host import SystemChance
from mqcore.identity import BrokerId, kafka_uuid
from mqcore.raft import founding
from mqcore.raft.messages import VoterKey
from mqcore.raft.quorum_log import FOLDER


def format_folder(disk: Disk, cluster_id: str, node_id: int, directory_id: UUID, founder: bool) -> None:
    """The folder must be new. The founder is the first voter, and the other nodes join it."""
    disk.make_directory("")
    founding.format_folder(disk, VoterKey(BrokerId(node_id), directory_id), 0, is_founder=founder)
    write_identity(disk, FolderIdentity(cluster_id, node_id, directory_id))


def run_format(data: str, cluster_id: str, node_id: int, *, founder: bool) -> int:
    if node_id < 0 or not cluster_id.isprintable() or not cluster_id.strip():
        return _fail("--node-id must not be negative, and --cluster-id must be a printable text")
    os.umask(0o077)  # only the broker's own account may read records
    disk = PosixDisk(data)
    try:
        if disk.exists(FILE):
            found = read_identity(disk)
            return _fail(f"{data} is the folder of node {found.node_id} of cluster {found.cluster_id} already")
        if disk.exists(str(FOLDER)) and not founding.is_unfinished(disk):
            return _fail(f"{data} has a metadata log but no {FILE}; a folder with data cannot be formatted")
        directory_id = SystemChance().new_uuid()
        format_folder(disk, cluster_id, node_id, directory_id, founder)
    except OSError as error:
        return _fail(f"{data} cannot be formatted: {error}")
    role = ", which founds it" if founder else ""
    print(f"{data}: node {node_id} of cluster {cluster_id}{role}; directory id {kafka_uuid(directory_id)}")
    return 0


def _fail(message: str) -> int:
    print(f"mqcore: {message}", file=sys.stderr)
    return 1
