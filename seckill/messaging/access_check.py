"""Shell: what the principals may not do in a Kafka cluster although the sale needs it, and the commands that allow it.

Kafka tells each user what that user may do with a topic or a group, so this needs no administrator. A cluster without
ACLs allows everything, and a broker that does not say is not judged.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    NoError,
    NotCoordinatorError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    for_code,
)

from seckill.config.kafka_bootstrap import bootstrap_failure
from seckill.config.kafka_clients import client_options
from seckill.config.kafka_properties import KafkaConfig
from seckill.config.kafka_security import PREFIX
from seckill.messaging.kafka_acls import OPERATOR, PRINCIPALS, TOPIC, Access, access_table, acl_commands
from seckill.messaging.topic_check import ADMIN_FILE

BOOTSTRAP_MS_MAX = 10_000
COORDINATOR_SECONDS_MAX = 30.0
COORDINATOR_POLL_S = 0.2
CREATE = "Create"
CHANGES = frozenset({CREATE, "Alter", "AlterConfigs"})
"""The operator may leave these to an administrator, except that somebody must create what is missing."""

Rights = Mapping[tuple[str, str], frozenset[str] | None]
"""What a principal may do with a resource, by its kind and name; None if the broker does not say."""


def find_access_gaps(bootstrap_servers: str, config: KafkaConfig, principals: Iterable[str] = PRINCIPALS) -> list[str]:
    """One line for each missing right, and for each principal that cannot log in. Raises other `KafkaError`s."""
    lines: list[str] = []
    for principal in principals:
        variables = config.variables_of(None if principal == OPERATOR else principal)
        user = variables.get(f"{PREFIX}SASL_USERNAME", principal)
        rows = [row for row in access_table() if row.principal == principal]
        try:
            admin = KafkaAdminClient(
                **client_options(bootstrap_servers, variables), bootstrap_timeout_ms=BOOTSTRAP_MS_MAX
            )
        except KafkaTimeoutError:
            if SaslAuthenticationFailedError.__name__ not in (reason := bootstrap_failure()):
                raise
            key = "sasl.jaas.config" if principal == OPERATOR else f"service.{principal}.sasl.jaas.config"
            lines.append(f"{principal} cannot log in as {user}: {reason}; correct {key} or the password of the user")
            continue
        try:
            rights, missing_topics = read_rights(admin, rows)
        finally:
            admin.close()
        lines += judge_rights(rows, rights, missing_topics, bootstrap_servers, user)
    return lines


def read_rights(admin: Any, rows: Iterable[Access]) -> tuple[Rights, frozenset[str]]:
    """What the user of this client may do, and the topics that do not exist."""
    rights: dict[tuple[str, str], frozenset[str] | None] = {}
    missing = set()
    for each in admin.describe_topics([row.name for row in rows if row.resource == TOPIC]):
        fault = for_code(each["error_code"])
        is_hidden = fault is TopicAuthorizationFailedError
        rights[TOPIC, each["name"]] = frozenset() if is_hidden else _names(each["authorized_operations"])
        if fault is not NoError and not is_hidden:
            missing.add(each["name"])
    for row in rows:
        if row.resource != TOPIC:
            rights[row.resource, row.name] = _read_group(admin, row.name)
    return rights, frozenset(missing)


def _read_group(admin: Any, name: str) -> frozenset[str] | None:
    try:
        found = _describe_group(admin, name)
    except GroupAuthorizationFailedError:
        return frozenset()
    if GroupAuthorizationFailedError.__name__ in (found["error"] or ""):
        return frozenset()
    return _names(found["authorized_operations"])


def _describe_group(admin: Any, name: str) -> dict[str, Any]:
    """A new cluster has no coordinator yet; this request makes it create one."""
    deadline = time.monotonic() + COORDINATOR_SECONDS_MAX
    while True:
        try:
            found: dict[str, Any] = admin.describe_groups([name])[name]
        except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError):
            if time.monotonic() > deadline:
                raise
            time.sleep(COORDINATOR_POLL_S)
        else:
            return found


def _names(operations: Collection[str] | None) -> frozenset[str] | None:
    """The operations as `kafka-acls` calls them: DescribeConfigs, not DESCRIBE_CONFIGS."""
    if operations is None:
        return None
    return frozenset("".join(word.capitalize() for word in each.split("_")) for each in operations)


def judge_rights(
    rows: Iterable[Access], rights: Rights, missing_topics: Collection[str], bootstrap_servers: str, user: str
) -> Iterator[str]:
    for row in rows:
        granted = rights.get((row.resource, row.name))
        if granted is None:
            continue
        wanted = [each for each in row.operations if each not in CHANGES]
        wanted += [CREATE] if CREATE in row.operations and row.name in missing_topics else []
        lacking = tuple(each for each in wanted if each not in granted)
        if lacking:
            rights_needed = [replace(row, operations=lacking)]
            [command] = acl_commands(bootstrap_servers, ADMIN_FILE, {row.principal: user}, rights_needed)
            yield f"{user} may not {' or '.join(lacking)} the {row.resource} {row.name}; {command}"
