"""Addresses of Redis: one server, a cluster, servers behind Sentinels; with and without TLS."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from seckill.config.environment import BadEnvironment
from seckill.config.redis_address import (
    CLUSTER,
    SENTINEL,
    celery_settings,
    check_redis_address,
    key_prefix,
    parse_redis_address,
    without_password,
)

LOGIN = "ann:hid%2Fden@"
SENTINELS = f"redis+sentinel://{LOGIN}one:26379,two/3?master_name=sale&sentinel_password=watch"


def test_a_cluster_has_several_servers_a_login_and_a_default_port() -> None:
    address = parse_redis_address(f"redis+cluster://{LOGIN}one:7000,two,[::1]:7002")
    assert (address.kind, address.has_tls) == (CLUSTER, False)
    assert address.servers == (("one", 7000), ("two", 6379), ("::1", 7002))
    assert address.options == {"username": "ann", "password": "hid/den"}


def test_tls_options_reach_the_servers_and_the_sentinels() -> None:
    query = "ssl_ca_certs=/etc/ca.pem&ssl_check_hostname=true"
    cluster = parse_redis_address(f"rediss+cluster://one?{query}")
    assert cluster.has_tls and cluster.options == {"ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": True}
    watched = parse_redis_address(f"rediss+sentinel://one?master_name=sale&{query}")
    assert watched.sentinel_options == {"ssl": True, "ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": True}


def test_sentinels_have_a_master_a_database_and_a_login_of_their_own() -> None:
    address = parse_redis_address(SENTINELS)
    assert (address.kind, address.master_name) == (SENTINEL, "sale")
    assert address.servers == (("one", 26379), ("two", 26379))
    assert address.options == {"username": "ann", "password": "hid/den", "db": 3}
    assert address.sentinel_options == {"password": "watch"}


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis+cluster://ann:hidden@one:7000/2", "only database 0"),
        ("redis+sentinel://ann:hidden@one", "master_name is missing"),
        ("redis+cluster://ann:hidden@one:seven", "'one:seven' is not HOST:PORT"),
        ("redis+cluster://ann:hidden@one,,two", "'' is not HOST:PORT"),
        ("redis+cluster://ann:hidden@one:7000?socket_timeout=soon", "socket_timeout"),
    ],
)
def test_a_malformed_address_is_an_error_that_hides_the_password(url: str, complaint: str) -> None:
    with pytest.raises(BadEnvironment, match="SECKILL_GATE_REDIS_URL") as refused:
        check_redis_address("SECKILL_GATE_REDIS_URL", url)
    assert complaint in str(refused.value) and "hidden" not in str(refused.value)


def test_only_a_cluster_has_admissions_keys_on_one_server() -> None:
    assert key_prefix("redis+cluster://one") == key_prefix("rediss+cluster://one") == "{admission}:"
    assert key_prefix("redis://one") == key_prefix(SENTINELS) == ""


def test_a_name_for_messages_has_no_password() -> None:
    assert without_password(SENTINELS) == "one:26379,two/3"


def test_celery_gets_the_sentinels_the_master_and_the_tls_options_in_kombus_form() -> None:
    plain = celery_settings("redis://127.0.0.1:6380/1")
    assert plain == {"broker_url": "redis://127.0.0.1:6380/1", "broker_transport_options": {}}
    watched = celery_settings(SENTINELS)
    assert watched["broker_url"] == f"sentinel://{LOGIN}one:26379/3;sentinel://{LOGIN}two:26379/3"
    assert watched["broker_transport_options"]["master_name"] == "sale"
    assert watched["broker_transport_options"]["sentinel_kwargs"]["password"] == "watch"
    with_tls = celery_settings(f"rediss://{LOGIN}one:6380/1?ssl_ca_certs=/etc/ca.pem")
    assert with_tls["broker_url"] == f"rediss://{LOGIN}one:6380/1"
    assert with_tls["broker_use_ssl"] == {"ssl_cert_reqs": "required", "ssl_ca_certs": "/etc/ca.pem"}


@pytest.mark.parametrize(
    ("variable", "url", "complaint"),
    [
        ("SECKILL_CELERY_REDIS_URL", "redis+cluster://one", "must begin with redis://"),
        ("SECKILL_ADMISSION_REDIS_URL", "redis+sentinel://one", "master_name is missing"),
    ],
)
def test_an_address_that_a_use_does_not_support_stops_the_start_in_one_line(
    variable: str, url: str, complaint: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SECKILL_")}
    done = subprocess.run(
        [sys.executable, "-m", "seckill.cli", "topics"], capture_output=True, text=True, timeout=60,
        env=environment | {variable: url},
    )  # fmt: skip
    [line] = done.stderr.splitlines()
    assert done.returncode and variable in line and complaint in line
