"""The Redis servers of a sale are named by what they are for, if each use has its own."""

from __future__ import annotations

import pytest

from seckill.config.environment import Environment
from seckill.resilience.redis_servers import describe, find_fault, name_of_use, redis_servers
from seckill.stack.child_processes import free_port

ONE, TWO, THREE = (f"redis://10.0.0.{number}:6379" for number in (1, 2, 3))


def environment(admission: str, gate: str, celery: str) -> Environment:
    return Environment(admission_redis_url=admission, gate_redis_url=gate, celery_redis_url=celery)


SOCKETS = "unix:///run/a.sock", "unix:///run/b.sock", "unix:///run/a.sock?db=1"
CLUSTER = "redis+cluster://a:1,b:1"
SENTINELS = [f"redis+sentinel://s:1/{place}" for place in ("0?master_name=a", "0?master_name=b", "1?master_name=a")]


@pytest.mark.parametrize(
    ("urls", "names"),
    [
        ((f"{ONE}/0", f"{ONE}/0", f"{ONE}/1"), ["redis"]),
        ((ONE, TWO, THREE), ["redis.admission", "redis.gate", "redis.celery"]),
        ((f"{ONE}/0", f"{ONE}/1", TWO), ["redis.admission+gate", "redis.celery"]),
        (SOCKETS, ["redis.admission+celery", "redis.gate"]),
        ((CLUSTER, CLUSTER, ONE), ["redis.admission+gate", "redis.celery"]),
        (SENTINELS, ["redis.admission+celery", "redis.gate"]),
    ],
)
def test_separate_servers_have_the_names_of_their_uses(urls: tuple[str, str, str], names: list[str]) -> None:
    assert [each.name for each in redis_servers(environment(*urls))] == names


def test_the_server_of_a_use_is_found() -> None:
    known = environment(f"{ONE}/0", f"{ONE}/1", TWO)
    assert name_of_use(known, "gate") == "redis.admission+gate"
    assert name_of_use(known, "celery") == "redis.celery"


def test_a_description_does_not_contain_the_password() -> None:
    server = redis_servers(environment(ONE, "redis://user:secret@10.0.0.2:6379/0", ONE))[1]
    assert describe(server) == "redis.gate (10.0.0.2:6379/0)"


def test_a_server_that_is_down_has_a_fault_with_its_reason() -> None:
    assert "ConnectionError" in find_fault(f"redis://127.0.0.1:{free_port()}/0")
