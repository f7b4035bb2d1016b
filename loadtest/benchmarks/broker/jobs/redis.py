"""Shell: the same loads on a Redis stream, with prepared RESP commands.

The client chooses ids of one length, so responses have a known size and need no parsing.
"""

from __future__ import annotations

import select
import socket
import time

from loadtest.benchmarks.broker.jobs.spec import Result, Spec, Stopwatch, payload

_FIRST = 1_000_000_000
_ACK_BYTES = len(b"$12\r\n1-1000000000\r\n")
IN_FLIGHT_BYTES = 1 << 20


def add(stream: str, identity: bytes, value: bytes) -> bytes:
    name = stream.encode()
    return b"*5\r\n$4\r\nXADD\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$1\r\nv\r\n$%d\r\n%s\r\n" % (
        len(name), name, len(identity), identity, len(value), value,
    )  # fmt: skip


def produce(spec: Spec) -> Result:
    """XADD, pipelined on one connection in blocks of one megabyte, with the next block already in flight."""
    size, opened = spec["size"], socket.create_connection(("127.0.0.1", spec["port"]))
    value, most, seconds = payload(size), spec.get("records", 1 << 60), spec.get("seconds", 600.0)
    at_once = max(10, IN_FLIGHT_BYTES // size)
    sent = waiting = 0
    watch = Stopwatch()
    while watch.seconds < seconds and sent < most:
        count = min(at_once, most - sent)
        ids = (b"1-%d" % number for number in range(_FIRST + sent, _FIRST + sent + count))
        opened.sendall(b"".join([add(spec["topic"], identity, value) for identity in ids]))
        sent += count
        if waiting:
            _skip(opened, waiting * _ACK_BYTES)
        waiting = count
    _skip(opened, waiting * _ACK_BYTES)
    result = watch.result(sent, size)
    opened.close()
    return result


def consume(spec: Spec) -> Result:
    """XREAD, one megabyte per response, with the next request already in flight."""
    size, name, opened = spec["size"], spec["topic"].encode(), socket.create_connection(("127.0.0.1", spec["port"]))
    at_once = max(10, IN_FLIGHT_BYTES // size)
    rounds = spec["records"] // at_once
    head = len(b"*1\r\n*2\r\n$%d\r\n%s\r\n*%d\r\n" % (len(name), name, at_once))
    each = len(b"*2\r\n$12\r\n1-1000000000\r\n*2\r\n$1\r\nv\r\n$%d\r\n\r\n" % size) + size

    def read(number: int) -> None:
        last = b"1-%d" % (_FIRST + number * at_once - 1)
        opened.sendall(
            b"*6\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$%d\r\n%d\r\n$7\r\nSTREAMS\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n"
            % (len(str(at_once)), at_once, len(name), name, len(last), last)
        )

    watch = Stopwatch()
    read(0)
    for number in range(rounds):
        if number + 1 < rounds:
            read(number + 1)
        _skip(opened, head + at_once * each)
    result = watch.result(rounds * at_once, size)
    opened.close()
    return result


def unbatched(spec: Spec) -> Result:
    """Many connections, each with one XADD in flight."""
    request = add(spec["topic"], b"*", payload(spec["size"]))
    sockets = [socket.create_connection(("127.0.0.1", spec["port"])) for _ in range(spec["connections"])]
    by_number = {opened.fileno(): (opened.recv, opened.sendall) for opened in sockets}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    answered = rejected = 0
    watch = Stopwatch()
    for opened in sockets:
        opened.sendall(request)
    end = time.perf_counter() + spec["seconds"]
    while time.perf_counter() < end:
        for number, _ in poll.poll(1):
            recv, send = by_number[number]
            rejected += recv(4096)[:1] != b"$"
            answered += 1
            send(request)
    result = watch.result(answered - rejected, spec["size"], rejected=rejected)
    for opened in sockets:
        opened.close()
    return result


def _skip(opened: socket.socket, length: int) -> None:
    buffer = memoryview(bytearray(min(length, 1 << 18) or 1))
    while length:
        got = opened.recv_into(buffer[: min(length, len(buffer))])
        if not got:
            raise ConnectionError("Redis closed the connection")
        length -= got
