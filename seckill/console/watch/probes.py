"""Shell: probes of the servers: each asks one server for an answer and raises if there is none.

A late answer is an answer: it ends the silence, so a busy machine does not make a server look dead for long. The
servers have the names that the supervisor of `seckill up` gives them, or their host names where they run elsewhere.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from redis.exceptions import RedisError

from seckill.config.environment import Environment
from seckill.config.kafka_security import uses_tls
from seckill.config.redis_address import parse_redis_address
from seckill.resilience import redis_client
from seckill.stack.health_checks import is_broker

TIMEOUT_SECONDS = 10


class Probe(NamedTuple):
    """`ask` raises one of `FAULTS` if there is no answer."""

    name: str
    ask: Callable[[], object]


class NoBroker(OSError):
    """The server did not answer like a Kafka broker."""


FAULTS = (OSError, psycopg.Error, RedisError)


def probes(known: Environment) -> Iterator[Probe]:
    """One for each server that has an address of its own. Other people's services are probed in development only."""
    database = conninfo_to_dict(known.database_url)
    yield Probe(_name(str(database.get("host") or ""), "postgres"), PostgresProbe(known.database_url))
    for url in dict.fromkeys((known.admission_redis_url, known.gate_redis_url)):
        address = parse_redis_address(url)
        host = "" if address.kind else urlsplit(url).hostname or ""
        yield Probe(_name(host, "redis"), redis_client.connect(url, TIMEOUT_SECONDS, 0.0).ping)
    servers = [server.strip() for server in known.kafka_bootstrap_servers.split(",")]
    kind = "mqcore" if known.kafka_security_protocol == "PLAINTEXT" else "kafka"  # mqcore has no security
    for number, server in enumerate(servers, 1):
        host, _, port = server.rpartition(":")
        role = kind if len(servers) == 1 else f"{kind}.{number}"
        yield Probe(_name(host, role), partial(_ask_broker, host, int(port), _certificates(known)))
    if known.development:
        callback = known.callback_url or known.public_url
        yield Probe(_name(urlsplit(callback).hostname or "", "gateway"), partial(_ask_http, f"{callback}/livez"))
        provider = known.provider_url
        yield Probe(
            _name(urlsplit(provider).hostname or "", "sandbox"), partial(_ask_http, f"{provider}/movements?limit=1")
        )


def _name(host: str, role: str) -> str:
    """The host if it has a name, as in containers; otherwise what the server is."""
    try:
        ip_address(host)
    except ValueError:
        is_named = host not in ("", "localhost") and "," not in host and not host.startswith("/")
        return host.partition(".")[0] if is_named else role
    return role


class PostgresProbe:
    """Keeps its connection, because a new one costs the server a process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None

    def __call__(self) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=TIMEOUT_SECONDS, tcp_user_timeout=1000 * TIMEOUT_SECONDS
            )
        self._connection.execute("SELECT 1")


def _ask_broker(host: str, port: int, certificates: ssl.SSLContext | None) -> None:
    if not is_broker(port, certificates, host, TIMEOUT_SECONDS):
        raise NoBroker(f"{host}:{port} does not answer")


def _ask_http(url: str) -> None:
    """Any status is an answer: the server lives, even if it refuses."""
    try:
        urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as answer:
        answer.close()


def _certificates(known: Environment) -> ssl.SSLContext | None:
    if not uses_tls(known):
        return None
    context = ssl.create_default_context(cafile=known.kafka_ssl_cafile or None)
    context.check_hostname = known.kafka_ssl_check_hostname
    if known.kafka_ssl_certfile:
        context.load_cert_chain(known.kafka_ssl_certfile, known.kafka_ssl_keyfile or None)
    return context
