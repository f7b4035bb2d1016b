"""Free ports, one by one and in runs, for servers that must get the same ports back after a restart."""

from __future__ import annotations

import socket
from itertools import islice

import pytest

from seckill.stack import child_processes
from seckill.stack.child_processes import PORT_MAX, PORT_MIN, free_port, free_port_run, free_ports, free_ports_from


def test_all_ports_of_a_run_are_free_and_below_those_of_outgoing_connections() -> None:
    first = free_port_run(6)
    assert PORT_MIN <= first < first + 6 <= PORT_MAX
    servers = [socket.create_server(("127.0.0.1", port)) for port in range(first, first + 6)]
    for server in servers:
        server.close()


class Chosen:
    """Takes the place of the random number."""

    def __init__(self, *starts: int) -> None:
        self._starts = iter(starts)

    def randrange(self, lowest: int, highest: int) -> int:
        return next(self._starts)


@pytest.mark.parametrize(
    ("taken", "found"), [({20_002}, 21_000), ({20_000}, 21_000), ({20_003}, 20_000), (set(), 20_000)]
)
def test_a_run_with_a_port_that_is_taken_is_not_used(
    taken: set[int], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Chosen(20_000, 21_000)
    monkeypatch.setattr(child_processes, "SystemRandom", lambda: chosen)
    monkeypatch.setattr(child_processes, "_is_free", lambda port: port not in taken)
    assert free_port_run(3) == found


def test_single_ports_are_distinct_and_below_those_of_outgoing_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PORT_MIN <= free_port() <= PORT_MAX
    chosen = Chosen(20_000, 20_001, 20_000, 20_002)
    monkeypatch.setattr(child_processes, "SystemRandom", lambda: chosen)
    monkeypatch.setattr(child_processes, "_is_free", lambda port: port != 20_001)
    assert sorted(free_ports(2)) == [20_000, 20_002]


def test_runs_in_ascending_order_do_not_overlap_and_leave_out_ports_that_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child_processes, "_is_free", lambda port: port not in {20_004, 20_011})
    assert list(islice(free_ports_from(20_000, 3), 3)) == [20_000, 20_005, 20_008]
    assert list(islice(free_ports_from(20_003), 3)) == [20_003, 20_005, 20_006]


def test_a_run_ends_below_the_highest_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "_is_free", lambda port: True)
    assert list(free_ports_from(PORT_MAX - 7, 3)) == [PORT_MAX - 7, PORT_MAX - 4]


def test_a_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not child_processes._is_free(server.getsockname()[1])
