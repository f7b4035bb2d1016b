"""Health checks of servers and services: each check returns None if all is well, else what is missing."""

from __future__ import annotations

import socket
import ssl
import struct
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seckill.stack.services import Layout

Check = Callable[[], str | None]

# ApiVersions version 0, correlation id 7, no client id: the first request of every Kafka client.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def ports_open(*ports: int) -> Check:
    def check() -> str | None:
        for port in ports:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError as error:
                return f"port {port}: {error.strerror or error}"
        return None

    return check


def broker(port: int, certificates: ssl.SSLContext | None = None) -> Check:
    return lambda: None if is_broker(port, certificates) else f"port {port}: no broker answers yet"


def is_broker(
    port: int, certificates: ssl.SSLContext | None = None, host: str = "127.0.0.1", timeout_s: float = 5
) -> bool:
    """Whether the server at this port answers ApiVersions, which needs no login. With `certificates`, over TLS."""
    try:
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((host, port), timeout=min(1, timeout_s)))
            connection.settimeout(timeout_s)
            if certificates is not None:
                name = "localhost" if host == "127.0.0.1" else host
                connection = opened.enter_context(certificates.wrap_socket(connection, server_hostname=name))
            connection.sendall(_API_VERSIONS)
            with connection.makefile("rb") as response:
                head = response.read(8)
            return len(head) == 8 and struct.unpack(">ii", head)[1] == 7
    except OSError:
        return False


def port_conflict(port: int) -> str | None:
    """None if this process could listen on the port, else why it could not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not block the port
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return None


def http(url: str) -> Check:
    def check() -> str | None:
        try:
            with urllib.request.urlopen(url, timeout=2) as response:
                return None if response.status == 200 else f"{url}: {response.status}"
        except (OSError, urllib.error.URLError) as error:
            return f"{url}: {error}"

    return check


def postgres(url: str) -> Check:
    def check() -> str | None:
        import psycopg

        try:
            with psycopg.connect(url, connect_timeout=2) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error as error:
            return str(error).splitlines()[0]
        return None

    return check


def redis(url: str) -> Check:
    def check() -> str | None:
        from redis import Redis
        from redis.exceptions import RedisError

        try:
            Redis.from_url(url, socket_timeout=2).ping()
        except RedisError as error:
            return str(error)
        return None

    return check


def ready_file(layout: Layout, instance: str) -> Check:
    """Our own processes create this file as soon as they work."""
    path = layout.run / f"{instance}.ready"
    return lambda: None if path.exists() else "is starting"


def no_check(layout: Layout, instance: str) -> Check:
    return lambda: None
