"""Shell: which Redis servers this sale has, what each is for, and whether it answers.

Admission, the gate and Celery's queues may share one Redis or have one each. A shared one is called `redis`; separate
ones have the names of their uses, such as `redis.gate` or `redis.admission+gate`.
"""

from __future__ import annotations

from typing import NamedTuple

from redis.exceptions import RedisError

from seckill.config.environment import Environment
from seckill.config.redis_address import parse_redis_address, without_password
from seckill.resilience import redis_client

USES = ("admission", "gate", "celery")


class RedisServer(NamedTuple):
    uses: tuple[str, ...]
    url: str

    @property
    def name(self) -> str:
        return "redis" if len(self.uses) == len(USES) else f"redis.{'+'.join(self.uses)}"


def redis_servers(environment: Environment) -> list[RedisServer]:
    """One entry for each server, Sentinels' master or cluster; databases of one server are not separate."""
    uses: dict[object, list[str]] = {}
    urls = url_of_each_use(environment)
    for use, url in urls.items():
        uses.setdefault(_identity(url), []).append(use)
    return [RedisServer(tuple(each), urls[each[0]]) for each in uses.values()]


def url_of_each_use(environment: Environment) -> dict[str, str]:
    return {use: getattr(environment, f"{use}_redis_url") for use in USES}


def name_of_use(environment: Environment, use: str) -> str:
    """The name of the server that has this use."""
    return next(each.name for each in redis_servers(environment) if use in each.uses)


def describe(server: RedisServer) -> str:
    """Name and address, for a message; without the password."""
    return f"{server.name} ({without_password(server.url)})"


def find_fault(url: str, timeout_s: float = redis_client.TIMEOUT_SECONDS) -> str:
    """Why the server does not answer; empty if it does. In a cluster, all masters must answer."""
    try:
        client = redis_client.connect(url, timeout_s)
        try:
            client.ping()
        finally:
            client.close()
    except RedisError as fault:
        return f"{type(fault).__name__}: {fault}"
    return ""


def _identity(url: str) -> object:
    address = parse_redis_address(url)
    options = address.options or {}
    place = {name: options[name] for name in ("host", "port", "path") if name in options}
    return address.kind, address.servers, address.master_name, tuple(place.items())
