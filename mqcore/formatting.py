"""Shell: prepare a data folder for a node of a cluster."""

from __future__ import annotations

from uuid import UUID

from mqcore.data_folder import FolderIdentity, write_identity
from mqcore.disk.port import Disk


def format_folder(disk: Disk, cluster_id: str, node_id: int, directory_id: UUID, founder: bool) -> None:
    write_identity(disk, FolderIdentity(cluster_id, node_id, directory_id))
