"""Table: what each principal may do in a Kafka cluster with ACLs, made from the table of topics.

A service is one principal, whatever its processes are: consumers, relay, sweep. `operator` is everything else:
commands, the report, and the step that creates the topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from shlex import quote

from seckill.config.kafka_properties import SERVICES
from seckill.messaging.topics import TOPICS

OPERATOR = "operator"
PRINCIPALS = (*SERVICES, OPERATOR)
GROUPS = tuple(sorted({group for topic in TOPICS.values() for group in topic.readers} - {"analytics"}))
SPARK_GROUPS = "analytics"
"""Spark makes a new group for each query; all their names begin like this."""
WRITER_OF_DEAD_LETTERS = "orders"
"""Its relay publishes the dead letters of all groups."""

TOPIC, GROUP = "topic", "group"
_OTHER_NAMES = {"notify": "notifications"}


@dataclass(frozen=True, slots=True)
class Access:
    """Operations have the names of `kafka-acls`."""

    principal: str
    resource: str
    name: str
    operations: tuple[str, ...]
    is_prefix: bool = False


def principal_of(process: str | None) -> str | None:
    """The principal of a service or consumer group; None for programs that are no clients of Kafka."""
    first = (process or "").removeprefix("relay.").partition(".")[0]
    name = _OTHER_NAMES.get(first, first)
    return name if name in SERVICES else None


def access_table() -> list[Access]:
    """One row for each principal and resource, in a fixed order."""
    merged: dict[tuple[str, str, str, bool], list[str]] = {}
    for row in _rows():
        operations = merged.setdefault((row.principal, row.resource, row.name, row.is_prefix), [])
        operations += [each for each in row.operations if each not in operations]
    return [
        Access(principal, resource, name, tuple(operations), is_prefix)
        for (principal, resource, name, is_prefix), operations in sorted(
            merged.items(), key=lambda item: PRINCIPALS.index(item[0][0])
        )
    ]


def _rows() -> Iterator[Access]:
    for topic in TOPICS.values():
        yield Access(topic.writer, TOPIC, topic.name, ("Write",))
        for group in topic.readers:
            principal = principal_of(group)
            assert principal is not None, f"no principal reads as {group}"
            yield Access(principal, TOPIC, topic.name, ("Read",))
        for service in SERVICES:  # sweeps delete old rows only when they see that no topic has records so old
            yield Access(service, TOPIC, topic.name, ("Describe",))
        yield Access(WRITER_OF_DEAD_LETTERS, TOPIC, topic.dead, ("Write", "Describe"))
        yield Access(OPERATOR, TOPIC, topic.name, ("Read",))
        for name in (topic.name, topic.dead):
            yield Access(OPERATOR, TOPIC, name, ("Describe", "Create", "Alter", "DescribeConfigs", "AlterConfigs"))
    for group in GROUPS:
        principal = principal_of(group)
        assert principal is not None
        yield Access(principal, GROUP, group, ("Read",))
        yield Access("gateway", GROUP, group, ("Describe",))  # the console shows who owns which partition
        yield Access(OPERATOR, GROUP, group, ("Describe",))
    yield Access("analytics", GROUP, SPARK_GROUPS, ("Read",), is_prefix=True)


def acl_commands(
    address: str, config: str, users: Mapping[str, str] | None = None, rows: Iterable[Access] | None = None
) -> list[str]:
    """Commands of Kafka's `kafka-acls` for these rows, or for all; rows that differ only in their name share one.
    `users` renames principals."""
    grouped: dict[tuple[str, str, tuple[str, ...], bool], list[str]] = {}
    for row in access_table() if rows is None else rows:
        grouped.setdefault((row.principal, row.resource, row.operations, row.is_prefix), []).append(row.name)
    commands = []
    for (principal, resource, operations, is_prefix), names in grouped.items():
        user = (users or {}).get(principal, principal)
        words = ["kafka-acls", "--bootstrap-server", address, "--command-config", config, "--add"]
        words += ["--allow-principal", f"User:{user}"]
        words += [word for operation in operations for word in ("--operation", operation)]
        words += [word for name in names for word in (f"--{resource}", name)]
        words += ["--resource-pattern-type", "prefixed"] if is_prefix else []
        commands.append(" ".join(map(quote, words)))
    return commands
