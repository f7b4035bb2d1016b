"""Store: whose data folder this is: `meta.properties`, as Kafka writes it. A foreign or newer folder is refused."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID, uuid4

from mqcore.disk.port import Disk
from mqcore.identity import kafka_uuid, parse_kafka_uuid

FILE = "meta.properties"
VERSION = "1"


class ForeignFolder(Exception):
    """The data folder belongs to another broker, cluster or format."""


class Meta(NamedTuple):
    cluster_id: str
    node_id: int
    directory_id: UUID


def claim(disk: Disk, node_id: int, cluster_id: str) -> Meta:
    """Read the folder's identity, or give it one. An empty `cluster_id` takes what is there."""
    if not disk.exists(FILE):
        made = Meta(cluster_id or kafka_uuid(uuid4()), node_id, uuid4())
        lines = {
            "version": VERSION,
            "cluster.id": made.cluster_id,
            "node.id": made.node_id,
            "directory.id": kafka_uuid(made.directory_id),
        }
        disk.replace(FILE, "".join(f"{name}={value}\n" for name, value in lines.items()).encode())
        return made
    pairs = dict(
        line.split("=", 1) for line in disk.read_whole(FILE).decode(errors="replace").splitlines() if "=" in line
    )
    try:
        found = Meta(pairs["cluster.id"], int(pairs["node.id"]), parse_kafka_uuid(pairs["directory.id"]))
        version = pairs["version"]
    except (KeyError, ValueError) as error:
        raise ForeignFolder(f"{FILE} is damaged: {error!r}") from error
    if version != VERSION:
        raise ForeignFolder(f"{FILE} has version {version}; this broker knows {VERSION}")
    if found.node_id != node_id:
        raise ForeignFolder(f"the folder belongs to node {found.node_id}; this is node {node_id}")
    if cluster_id and found.cluster_id != cluster_id:
        raise ForeignFolder(f"the folder belongs to cluster {found.cluster_id}, not {cluster_id}")
    return found
