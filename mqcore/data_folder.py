"""Store: which broker a data folder belongs to (Kafka's `meta.properties`). A folder of another broker is rejected."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from mqcore.disk.port import Disk
from mqcore.host import Chance
from mqcore.identity import kafka_uuid, parse_kafka_uuid

FILE = "meta.properties"
STARTS_FILE = "starts"
VERSION = "1"


class ForeignFolder(Exception):
    """The data folder belongs to another broker or cluster, or has another format."""


class FolderIdentity(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: UUID


def claim_folder(disk: Disk, chance: Chance, node_id: int, cluster_id: str) -> FolderIdentity:
    """Read the folder's identity, or write one into a new folder. An empty `cluster_id` accepts any cluster."""
    if not disk.exists(FILE):
        made = FolderIdentity(cluster_id or kafka_uuid(chance.new_uuid()), node_id, chance.new_uuid())
        write_identity(disk, made)
        return made
    found = read_identity(disk)
    if found.node_id != node_id:
        raise ForeignFolder(f"the data folder belongs to node {found.node_id}, but node.id is {node_id}")
    if cluster_id and found.cluster_id != cluster_id:
        raise ForeignFolder(f"the data folder belongs to cluster {found.cluster_id}, but cluster.id is {cluster_id}")
    return found


def write_identity(disk: Disk, identity: FolderIdentity) -> None:
    lines = {
        "version": VERSION,
        "cluster.id": identity.cluster_id,
        "node.id": identity.node_id,
        "directory.id": kafka_uuid(identity.directory_id),
    }
    disk.replace(FILE, "".join(f"{name}={value}\n" for name, value in lines.items()).encode())


def read_identity(disk: Disk) -> FolderIdentity:
    pairs = dict(
        line.split("=", 1) for line in disk.read_whole(FILE).decode(errors="replace").splitlines() if "=" in line
    )
    try:
        found = FolderIdentity(pairs["cluster.id"], int(pairs["node.id"]), parse_kafka_uuid(pairs["directory.id"]))
        version = pairs["version"]
    except (KeyError, ValueError) as error:
        raise ForeignFolder(f"{FILE} of the data folder is damaged: {error!r}") from error
    if version != VERSION:
        raise ForeignFolder(f"{FILE} of the data folder has version {version}; this broker supports version {VERSION}")
    return found


def count_start(disk: Disk) -> int:
    """How often a broker has been started in this folder, this start included. Durable before it is returned, because
    the controller takes the broker with the larger number for the later one."""
    text = disk.read_whole(STARTS_FILE).decode(errors="replace").strip() if disk.exists(STARTS_FILE) else "0"
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ForeignFolder(f"{STARTS_FILE} of the data folder is damaged: {text[:40]!r}")
    starts = int(text) + 1
    disk.replace(STARTS_FILE, f"{starts}\n".encode())
    return starts
