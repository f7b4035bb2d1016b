"""Shell: refuses produces while the disk is nearly full.

Own rule: the reserve is for the broker itself. It can still write checkpoints and metadata, and retention has time to
free space.
"""

from __future__ import annotations

import logging

from mqcore.disk.port import Disk

log = logging.getLogger(__name__)


class FreeSpaceMonitor:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.is_disk_full = False

    def check(self, free_bytes_min: int) -> None:
        free_bytes = self._disk.free_bytes()
        is_disk_full = free_bytes < free_bytes_min
        if is_disk_full is not self.is_disk_full:
            self.is_disk_full = is_disk_full
            event = "disk is full, produces are refused" if is_disk_full else "disk has room again"
            log.warning(event, extra={"free_bytes": free_bytes, "free_bytes_min": free_bytes_min})
