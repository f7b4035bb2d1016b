"""The network between brokers: what a cut, a delay and a reset do to connections, with plain sockets as brokers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from seckill.stack.broker_network import (
    EVERYTHING,
    NODES,
    PORTS_COUNT,
    BrokerNetwork,
    NetworkFault,
    NetworkPorts,
    around,
    from_broker,
    to_broker,
)
from seckill.stack.broker_relay import Pair
from seckill.stack.child_processes import free_port_run, wait_until

PATIENCE_S = 10.0
CONTROLLERS = len(NODES)


class Broker:
    """Broker 2, which accepts connections of the others."""

    def __init__(self, port: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", port))
        self.listener.settimeout(PATIENCE_S)
        self.accepted: list[socket.socket] = []

    def accept(self) -> socket.socket:
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE_S)
        self.accepted.append(connection)
        return connection


class Between:
    """A network, and a connection of broker 1 to broker 2."""

    def __init__(self, *, has_names: bool = False) -> None:
        first = free_port_run(PORTS_COUNT + CONTROLLERS)
        self.ports = NetworkPorts(first, has_names=has_names)
        controllers = {number: first + PORTS_COUNT + number - 1 for number in NODES}
        self.network = BrokerNetwork(self.ports, controllers).start()
        self.target = Broker(self.ports.listener(2))
        self.opened: list[socket.socket] = []

    def connect(self, client_id: bytes = b"broker-1-fetcher") -> socket.socket:
        port = self.ports.relayed_listener(2)
        self.opened.append(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        self.opened[-1].sendall(request(client_id))
        return self.opened[-1]

    def connected(self) -> tuple[socket.socket, socket.socket]:
        """Both ends, after the first request has arrived."""
        near = self.connect()
        far = self.target.accept()
        assert receive(far, len(request(b"broker-1-fetcher"))) == request(b"broker-1-fetcher")
        return near, far

    def wait_until_held(self) -> None:
        """Something has come to the relay that it does not pass on."""
        wait_until(lambda: self.network.count_held() > 0, "the relay to hold something back", PATIENCE_S)

    def close(self) -> None:
        self.network.close()
        for each in (*self.opened, *self.target.accepted, self.target.listener):
            each.close()


def request(client_id: bytes) -> bytes:
    """The beginning of a request of any kind."""
    return struct.pack(">ihhih", 100, 18, 3, 1, len(client_id)) + client_id


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def has_nothing(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)
    return False


@pytest.fixture
def between() -> Iterator[Between]:
    made = Between()
    yield made
    made.close()


def test_without_a_fault_everything_passes_in_both_directions(between: Between) -> None:
    near, far = between.connected()
    data = bytes(range(256)) * 4000
    near.sendall(data)
    assert receive(far, len(data)) == data
    far.sendall(data)
    assert receive(near, len(data)) == data
    near.close()
    assert has_ended(far)
    assert between.network.count_held() == 0


def test_a_cut_of_one_direction_holds_that_direction_back_until_it_ends(between: Between) -> None:
    near, far = between.connected()
    with between.network.cut({Pair(1, 2)}):
        near.sendall(b"unheard")
        between.wait_until_held()
        far.sendall(b"heard")
        assert receive(near, 5) == b"heard"
        assert has_nothing(far)
    assert receive(far, 7) == b"unheard"


def test_the_end_of_a_connection_does_not_get_through_a_cut(between: Between) -> None:
    near, far = between.connected()
    with between.network.cut(around(1)):
        near.sendall(b"last words")
        near.close()
        between.wait_until_held()
        assert has_nothing(far)
    assert receive(far, 10) == b"last words"
    assert has_ended(far)


def test_the_end_of_a_connection_that_only_the_other_direction_can_notice_is_held_back_too(between: Between) -> None:
    """The source has gone. The relay sees that when it writes to it, but the news would go where the cut is."""
    near, far = between.connected()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with between.network.cut({Pair(1, 2)}):
        near.close()
        for _ in range(3):
            far.sendall(b"is anybody there")
        between.wait_until_held()
        assert has_nothing(far)
    with suppress(ConnectionError):  # it may already know
        assert has_ended(far)


@pytest.mark.parametrize("directions", [{Pair(1, 2)}, {Pair(2, 1)}])
def test_no_new_connection_is_made_through_a_cut(directions: set[Pair], between: Between) -> None:
    with between.network.cut(directions):
        between.connect()
        between.wait_until_held()
        assert has_nothing_to_accept(between.target)
    receive(between.target.accept(), 14)


def has_nothing_to_accept(broker: Broker) -> bool:
    broker.listener.setblocking(False)
    try:
        broker.listener.accept()
    except BlockingIOError:
        return True
    finally:
        broker.listener.settimeout(PATIENCE_S)
    return False


def test_a_cut_of_other_brokers_changes_nothing(between: Between) -> None:
    near, far = between.connected()
    with between.network.cut(around(3)):
        near.sendall(b"hello")
        assert receive(far, 5) == b"hello"
    assert between.network.count_held() == 0


def test_an_inner_cut_ends_without_ending_the_outer_one(between: Between) -> None:
    near, far = between.connected()
    with between.network.cut({Pair(1, 2)}):
        with between.network.cut(EVERYTHING):
            pass
        near.sendall(b"hello")
        between.wait_until_held()
        assert has_nothing(far)
    assert receive(far, 5) == b"hello"


def test_a_slow_direction_delays_what_is_sent_and_loses_nothing(between: Between) -> None:
    near, far = between.connected()
    with between.network.slowed({Pair(1, 2)}, 0.01):
        near.sendall(b"x" * 300_000)
        assert receive(far, 300_000) == b"x" * 300_000
    assert between.network.count_held() >= 4, "each piece of at most 64 KiB has waited"


def test_a_reset_breaks_the_connections_of_these_brokers_at_both_ends(between: Between) -> None:
    near, far = between.connected()
    assert between.network.reset({Pair(3, 2)}) == 0
    assert between.network.reset({Pair(2, 1)}) == 2
    assert has_ended(near) and has_ended(far)


def test_a_broker_that_does_not_run_breaks_the_connection(between: Between) -> None:
    between.target.listener.close()
    assert has_ended(between.connect())


@pytest.mark.parametrize("client_id", [b"", b"a tool without a number", b"1" * 2000])
def test_a_connection_that_does_not_name_its_broker_is_closed(client_id: bytes, between: Between) -> None:
    assert has_ended(between.connect(client_id))


@pytest.mark.parametrize("client_id", [b"broker-1-fetcher", b"quorum-1", b"broker-1", b"raft-client-1", b"1"])
def test_the_client_ids_of_mqcore_and_of_kafka_name_the_broker(client_id: bytes, between: Between) -> None:
    between.connect(client_id)
    far = between.target.accept()
    assert receive(far, 14 + len(client_id)) == request(client_id)
    assert between.network.reset({Pair(1, 2)}) == 2


@pytest.fixture
def between_names() -> Iterator[Between]:
    made = Between(has_names=True)
    yield made
    made.close()


def addresses(hosts_file: str) -> dict[str, str]:
    return {name: address for address, *names in map(str.split, hosts_file.splitlines()) for name in names}


@pytest.mark.parametrize("source", [1, 3])
def test_brokers_with_names_are_known_by_the_address_they_call(source: int, between_names: Between) -> None:
    """The relay does not have to read what they send."""
    address = addresses(between_names.ports.hosts_file(source))["broker-2"]
    with socket.create_connection((address, between_names.ports.relayed_listener(2)), timeout=PATIENCE_S) as near:
        near.sendall(b"\x16\x03\x01 not a request")
        assert receive(between_names.target.accept(), 17) == b"\x16\x03\x01 not a request"
        assert between_names.network.reset({Pair(4 - source, 2)}) == 0
        assert between_names.network.reset({Pair(source, 2)}) == 2
        assert has_ended(near)


def test_a_relay_that_has_ended_is_an_error(between: Between) -> None:
    process = between.network._process
    assert process is not None
    process.kill()
    process.wait()
    with pytest.raises(NetworkFault, match="has ended"):
        between.network.count_held()


def test_directions_are_named_after_one_broker() -> None:
    assert from_broker(1) == {(1, 2), (1, 3)}
    assert to_broker(1) == {(2, 1), (3, 1)}
    assert around(1) | around(2) == EVERYTHING and len(EVERYTHING) == 6
