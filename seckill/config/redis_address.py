"""Codec: the addresses of Redis: one server, a cluster, or servers that Sentinels watch.

    redis://user:password@host:6379/0                                 rediss:// for TLS, unix:// for a socket
    redis+cluster://user:password@one:6379,two:6379                   rediss+cluster:// for TLS
    redis+sentinel://user:password@one:26379,two:26379/0?master_name=sale      rediss+sentinel:// for TLS

Every other option after the `?` is one of redis-py's, such as ssl_ca_certs. User and password are Redis' own; those of
the Sentinels are the options sentinel_username and sentinel_password. With TLS, certificate and host name are verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from seckill.config.environment import BadEnvironment

CLUSTER, SENTINEL = "+cluster", "+sentinel"
DEFAULT_PORTS = {"": 6379, CLUSTER: 6379, SENTINEL: 26379}
HASH_TAG = "{admission}:"
ASKING_A_SENTINEL = {"socket_timeout": 2, "socket_connect_timeout": 1, "retry": Retry(NoBackoff(), 0)}
"""kombu's options: no Sentinel is asked twice, because the next one may answer."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`options`: keyword arguments of redis-py's connections. `sentinel_options`: of connections to the Sentinels."""

    kind: str  # "", CLUSTER or SENTINEL
    servers: tuple[tuple[str, int], ...] = ()
    options: dict[str, Any] | None = None
    has_tls: bool = False
    master_name: str = ""
    sentinel_options: dict[str, Any] | None = None


def is_cluster(url: str) -> bool:
    return urlsplit(url).scheme.endswith(CLUSTER)


def key_prefix(url: str) -> str:
    """Before the names of all admission's keys. In a cluster it contains a hash tag, so that one server has all of them
    and one script can use them together."""
    return HASH_TAG if is_cluster(url) else ""


def without_password(url: str) -> str:
    return url.rpartition("@")[2].partition("?")[0]


def parse_redis_address(url: str) -> RedisAddress:
    """Raises ValueError; its text does not contain the password."""
    scheme, _, rest = url.partition("://")
    kind = next((each for each in (CLUSTER, SENTINEL) if scheme.endswith(each)), "")
    if not kind:
        return RedisAddress("", options=dict(parse_url(url)), has_tls=scheme == "rediss")
    parts = urlsplit(f"//{rest}")
    login, _, hosts = parts.netloc.rpartition("@")
    servers = tuple(_parse_server(host, DEFAULT_PORTS[kind]) for host in hosts.split(","))
    own, query = _take_own_options(parts.query)
    base = scheme.removesuffix(kind)
    # redis-py parses the rest: one of the servers stands for all of them.
    options = dict(parse_url(f"{base}://{login}{'@' if login else ''}localhost{parts.path}?{query}"))
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    if kind == CLUSTER and options.pop("db", 0):
        raise ValueError("a cluster has only database 0")
    if kind == SENTINEL and not own.get("master_name"):
        raise ValueError("the option master_name is missing")
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    sentinel_login = {name.removeprefix("sentinel_"): own[name] for name in own if name.startswith("sentinel_")}
    return RedisAddress(
        kind, servers, options, base == "rediss", own.get("master_name", ""),
        sentinel_login | ({"ssl": True} | tls if base == "rediss" else {}),
    )  # fmt: skip


def check_redis_address(name: str, url: str) -> None:
    try:
        parse_redis_address(url)
    except (ValueError, TypeError) as error:
        raise BadEnvironment(f"{name}: {error}") from None


def celery_settings(url: str) -> dict[str, Any]:
    """Celery's settings of its broker. kombu takes TLS options and the name of the master beside the address."""
    address = parse_redis_address(url)
    settings: dict[str, Any] = {"broker_url": url, "broker_transport_options": {}}
    options = address.options or {}
    if address.has_tls:
        tls = {"ssl_cert_reqs": "required"} | {each: options[each] for each in options if each.startswith("ssl_")}
        settings["broker_use_ssl"] = tls
    if address.kind == SENTINEL:
        login = url.partition("://")[2].rpartition("@")[0]
        database = options.get("db", 0)
        servers = (f"{login}{'@' if login else ''}{host}:{port}/{database}" for host, port in address.servers)
        settings["broker_url"] = ";".join(f"sentinel://{server}" for server in servers)
        settings["broker_transport_options"] = {
            "master_name": address.master_name,
            "sentinel_kwargs": ASKING_A_SENTINEL | (address.sentinel_options or {}),
        }  # fmt: skip
    elif address.has_tls:
        settings["broker_url"] = url.partition("?")[0]
    return settings


def _parse_server(text: str, default_port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port or default_port
    except ValueError:
        raise ValueError(f"{text!r} is not HOST:PORT") from None
    if not parts.hostname:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return parts.hostname, port


def _take_own_options(query: str) -> tuple[dict[str, str], str]:
    """Our options by name, and the query without them."""
    own = {"master_name", "sentinel_username", "sentinel_password"}
    pairs = parse_qsl(query, keep_blank_values=True)
    rest = [part for part in query.split("&") if unquote(part.partition("=")[0]) not in own]
    return {name: value for name, value in pairs if name in own}, "&".join(rest)
