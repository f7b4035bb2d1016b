"""Open files: connections never get so many that the logs could not work."""

from __future__ import annotations

import resource

import pytest

from mqcore.descriptors import FILES_PER_PARTITION, RESERVED_FILES, connections_allowed, raise_open_files_limit


@pytest.mark.parametrize(
    ("wanted", "open_files", "partitions", "allowed"),
    [
        (4000, 1_000_000, 100, 4000),
        (4000, 4096, 10, 2048),
        (4000, 4096, 1500, 4096 - RESERVED_FILES - 1500 * FILES_PER_PARTITION),
        (4000, 4096, 4000, 1024),
        (100, 256, 1, 100),
        (4000, 40, 0, 10),
        (4000, resource.RLIM_INFINITY, 4000, 4000),
    ],
)
def test_connections_leave_enough_descriptors_for_the_logs(
    wanted: int, open_files: int, partitions: int, allowed: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert connections_allowed(wanted, open_files, partitions) == allowed
    assert ("max.connections is reduced" in caplog.text) == (allowed < wanted)


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 500), before[1]))
    try:
        assert raise_open_files_limit() == before[1] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
