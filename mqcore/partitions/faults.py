"""Shell: keeps a fault within the partition that has it.

Every loop over partitions wraps each of them in `contain_fault`: start-up, retention, compaction, checkpoints and syncs
continue with the next partition, and the log line names the faulty one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from mqcore.log.errors import LogFault
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)


@contextlib.contextmanager
def contain_fault(task: str, partition: Partition) -> Iterator[None]:
    """A `LogFault` takes the partition offline. Other exceptions are logged, and the next round tries again."""
    try:
        yield
    except LogFault as fault:
        partition.go_offline(f"{task} failed: {fault}")
    except OSError as fault:
        log.error(f"{task} failed", extra={"partition": str(partition.name), "reason": str(fault)})
    except Exception:
        log.exception(f"{task} failed", extra={"partition": str(partition.name)})
