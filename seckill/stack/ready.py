"""When a service may be relied upon: each check says None, or what is still missing."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

from seckill.stack.broker import answers

if TYPE_CHECKING:
    from seckill.stack.services import Layout

Check = Callable[[], str | None]


def port(*ports: int) -> Check:
    def check() -> str | None:
        for number in ports:
            try:
                socket.create_connection(("127.0.0.1", number), timeout=1).close()
            except OSError as error:
                return f"port {number}: {error.strerror or error}"
        return None

    return check


def broker(number: int) -> Check:
    return lambda: None if answers(number) else f"port {number}: no broker answers yet"


def free(number: int) -> str | None:
    """None if we could listen on the port; else why not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that lingers does not count
        try:
            probe.bind(("127.0.0.1", number))
            probe.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return None


def http(url: str) -> Check:
    def check() -> str | None:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return None if answer.status == 200 else f"{url}: {answer.status}"
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


def file(layout: Layout, instance: str) -> Check:
    """Our own processes say so themselves."""
    path = layout.run / f"{instance}.ready"
    return lambda: None if path.exists() else "is starting"


def alive(layout: Layout, instance: str) -> Check:
    return lambda: None
