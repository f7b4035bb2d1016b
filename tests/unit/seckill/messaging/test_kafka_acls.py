"""The rights of each principal: enough for its processes, and no more."""

from __future__ import annotations

from seckill.config.kafka_properties import SERVICES
from seckill.messaging.kafka_acls import GROUP, TOPIC, access_table, acl_commands, principal_of
from seckill.messaging.service_registry import GROUPS, RELAYS, SWEEPS
from seckill.messaging.topics import TOPICS


def may(principal: str, operation: str) -> set[str]:
    rows = (row for row in access_table() if row.principal == principal and row.resource == TOPIC)
    return {row.name for row in rows if operation in row.operations}


def test_every_process_that_is_a_client_of_kafka_has_a_principal() -> None:
    processes = [*GROUPS, *(f"relay.{name}" for name in RELAYS), *(f"{name}.sweep" for name in SWEEPS), "gateway"]
    assert {principal_of(name) for name in [*processes, "notify.sweep", "analytics"]} == set(SERVICES)
    assert [principal_of(name) for name in ("celery", "postgres", "redis", "sandbox", None)] == [None] * 5


def test_only_the_writer_of_a_topic_may_write_it_and_only_its_readers_may_read_it() -> None:
    for topic in TOPICS.values():
        writers = {principal for principal in SERVICES if topic.name in may(principal, "Write")}
        assert writers == {topic.writer}
        readers = {principal for principal in SERVICES if topic.name in may(principal, "Read")}
        assert readers == {principal_of(group) for group in topic.readers}


def test_services_create_and_change_nothing_and_the_operator_writes_nothing() -> None:
    for service in SERVICES:
        for operation in ("Create", "Alter", "AlterConfigs", "Delete"):
            assert not may(service, operation)
    assert not may("operator", "Write")
    assert may("operator", "Create") == {name for topic in TOPICS.values() for name in (topic.name, topic.dead)}


def test_each_group_is_joined_by_one_principal() -> None:
    rows = [row for row in access_table() if row.resource == GROUP and "Read" in row.operations and not row.is_prefix]
    assert {row.name: row.principal for row in rows} == {group: principal_of(group) for group in GROUPS}


def test_the_commands_name_the_administrators_users_and_quote_them() -> None:
    commands = acl_commands("k:9093", "admin file.properties", {"gateway": "CN=shop gateway"})
    assert all(
        each.startswith("kafka-acls --bootstrap-server k:9093 --command-config 'admin file") for each in commands
    )
    [writing] = [each for each in commands if "'User:CN=shop gateway'" in each and "--operation Write" in each]
    assert writing.endswith("--topic purchase.requests --topic purchase.requests.diverted")
    assert not any("User:gateway" in each for each in commands)
