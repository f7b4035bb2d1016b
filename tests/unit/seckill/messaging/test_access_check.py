"""Missing rights in a Kafka cluster: each is one line with the command that grants it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from kafka.admin import ACLOperation
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from seckill.messaging import access_check
from seckill.messaging.access_check import judge_rights, read_rights
from seckill.messaging.kafka_acls import GROUP, OPERATOR, TOPIC, Access, access_table

GATEWAY = [row for row in access_table() if row.principal == "gateway"]
ADDRESS = "k:9093"


class FakeAdmin:
    """Answers as kafka-python does: None if the broker does not say what is allowed."""

    def __init__(self, operations: list[str] | None, topic_error: int = 0, group_error: str | None = None) -> None:
        self._operations, self._topic_error, self._group_error = operations, topic_error, group_error
        self.coordinators_late = 0

    def describe_topics(self, names: Iterable[str]) -> list[dict[str, Any]]:
        return [
            {"name": name, "error_code": self._topic_error, "authorized_operations": self._operations} for name in names
        ]

    def describe_groups(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        if self.coordinators_late:
            self.coordinators_late -= 1
            raise CoordinatorNotAvailableError
        if self._group_error == "no coordinator":
            raise GroupAuthorizationFailedError
        return {name: {"error": self._group_error, "authorized_operations": self._operations} for name in names}


EVERYTHING = [each.name for each in ACLOperation if each.value > ACLOperation.ALL.value]


def lines(admin: FakeAdmin, rows: Iterable[Access] = GATEWAY, user: str = "gateway") -> list[str]:
    rows = list(rows)
    rights, missing = read_rights(admin, rows)
    return list(judge_rights(rows, rights, missing, ADDRESS, user))


def test_a_principal_that_may_do_everything_lacks_nothing() -> None:
    assert lines(FakeAdmin(EVERYTHING)) == []


def test_a_broker_that_does_not_say_is_not_judged() -> None:
    assert lines(FakeAdmin(None)) == []


def test_a_missing_right_is_one_line_with_the_command_that_grants_it_to_the_user() -> None:
    rows = [Access("gateway", TOPIC, "purchase.requests", ("Write", "Describe"))]
    [line] = lines(FakeAdmin([ACLOperation.DESCRIBE.name]), rows, user="shop gateway")
    assert line == (
        "shop gateway may not Write the topic purchase.requests; kafka-acls --bootstrap-server k:9093"
        " --command-config admin.properties --add --allow-principal 'User:shop gateway' --operation Write"
        " --topic purchase.requests"
    )


@pytest.mark.parametrize("group_error", ["no coordinator", "[Error 30] GroupAuthorizationFailedError"])
def test_what_a_principal_may_not_even_see_it_may_not_use(group_error: str) -> None:
    found = lines(FakeAdmin([], TopicAuthorizationFailedError.errno, group_error))
    assert len(found) == len(GATEWAY)
    assert "gateway may not Read or Describe the topic inventory.decisions; " in "\n".join(found)
    assert any("--group gateway.outcomes" in line for line in found)


def test_a_new_cluster_that_has_no_coordinator_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_check, "COORDINATOR_POLL_S", 0)
    admin = FakeAdmin(EVERYTHING)
    admin.coordinators_late = 3
    assert lines(admin) == []
    monkeypatch.setattr(access_check, "COORDINATOR_SECONDS_MAX", 0)
    admin.coordinators_late = 3
    with pytest.raises(CoordinatorNotAvailableError):
        lines(admin)


def test_groups_that_begin_alike_are_granted_as_a_prefix() -> None:
    rows = [row for row in access_table() if row.principal == "analytics" and row.resource == GROUP]
    [line] = lines(FakeAdmin([], group_error="no coordinator"), rows, user="spark")
    assert line.endswith("--operation Read --group analytics --resource-pattern-type prefixed")


def test_the_operator_must_be_able_to_create_topics_only_while_they_are_missing() -> None:
    """An administrator may keep the right to change them."""
    reading = [ACLOperation.READ.name, ACLOperation.DESCRIBE.name, ACLOperation.DESCRIBE_CONFIGS.name]
    rows = [row for row in access_table() if row.principal == OPERATOR]
    assert lines(FakeAdmin(reading), rows, user=OPERATOR) == []
    missing = lines(FakeAdmin(reading, UnknownTopicOrPartitionError.errno), rows, user=OPERATOR)
    assert len(missing) == sum(row.resource == TOPIC for row in rows)
    assert all("operator may not Create the topic " in line for line in missing)
