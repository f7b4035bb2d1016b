"""Shell: the rule by which a fault stays with the partition that has it.

Whatever works through many partitions puts each of them into a `contain_fault`: the start, retention, compaction,
checkpoints and syncs go on with the next one, and the log line names the partition.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from mqcore.log.errors import CorruptLog, LogFailed
from mqcore.partitions.partition import Partition

log = logging.getLogger(__name__)


@contextlib.contextmanager
def contain_fault(task: str, partition: Partition) -> Iterator[None]:
    """A corrupt or failed log takes its partition offline. Other faults are logged, and the next round tries again."""
    try:
        yield
    except (CorruptLog, LogFailed) as fault:
        partition.go_offline(f"{task} failed: {fault}")
    except OSError as fault:
        log.error(f"{task} failed", extra={"partition": str(partition.name), "reason": str(fault)})
    except Exception:
        log.exception(f"{task} failed", extra={"partition": str(partition.name)})
