"""Static members that restart: each scenario sends requests whose answers must equal Kafka's."""

from __future__ import annotations

from typing import Any

from tests.conformance.group_conversation import (
    DESCRIBE,
    JOIN,
    SYNC,
    Conversation,
    _parts,
    join,
    subscription,
)

OTHER = [("range", subscription("orders", "payments"))]
WITH_DATA = [("range", subscription("orders") + b"what it owned")]
OTHER_PROTOCOL = [("sticky", subscription("orders")), ("range", subscription("orders"))]
SECOND_PROTOCOL = [("range", subscription("orders")), ("sticky", subscription("orders"))]

VARIANTS: dict[str, dict[str, Any]] = {
    "same": {},
    "data": {"protocols": WITH_DATA},
    "topics": {"protocols": OTHER},
    "preference": {"protocols": OTHER_PROTOCOL},
    "more": {"protocols": SECOND_PROTOCOL},
    "timeouts": {"session_timeout_ms": 12_000, "rebalance_timeout_ms": 5_000},
    "inconsistent": {"protocols": [("strange", b"")]},
}


class Tills:
    """A stable group of two static members at generation 2; `one` leads."""

    def __init__(self, talk: Conversation, group: str) -> None:
        self.talk, self.group = talk, group
        one = talk.quietly(JOIN, 9, **join(group, "", "one")).member_id
        talk.quietly(SYNC, 3, **self._sync(1, one, "one"))
        joining = talk.later(JOIN, 9, **join(group, "", "two"))
        talk.quietly(JOIN, 9, **join(group, one, "one"))
        two = joining.receive().member_id
        self.ids = {"one": one, "two": two}
        for member in (one, two):
            talk.know(member)
        self.settle(2)

    def _sync(self, generation: int, member: str, instance: str, *parts: tuple[str, bytes]) -> dict[str, Any]:
        fields = {"group_id": self.group, "generation_id": generation, "member_id": member}
        return {**fields, "group_instance_id": instance, "assignments": _parts(parts)}

    def settle(self, generation: int) -> None:
        one, two = self.ids["one"], self.ids["two"]
        self.talk.quietly(SYNC, 3, **self._sync(generation, one, "one", (one, b"A"), (two, b"B")))
        self.talk.quietly(SYNC, 3, **self._sync(generation, two, "two"))

    def restart(self, label: str, instance: str, version: int = 9, **more: Any) -> Any:
        """Send a request whose answer is expected at once."""
        return self.talk.ask(label, JOIN, version, **join(self.group, "", instance, **more))

    def use(self, label: str, instance: str, generation: int, member: str | None = None) -> None:
        """The requests of a member in its generation."""
        member = self.ids[instance] if member is None else member
        self.talk.heartbeat(label, self.group, generation, member, instance)
        self.talk.sync(label, self.group, generation, member, group_instance_id=instance)
        self.talk.commit(label, self.group, generation, member, instance=instance)


def static_members_that_restart_while_stable(talk: Conversation) -> None:
    """Two static members restart with each variant of metadata, in old and new versions."""
    for instance in ("two", "one"):
        tills = Tills(talk, f"restart-{instance}")
        for version in (5, 8, 9):
            for variant in ("same", "data", "timeouts"):
                old = tills.ids[instance]
                answer = tills.restart(f"{instance} {version} {variant}", instance, version, **VARIANTS[variant])
                tills.ids[instance] = answer.member_id
                tills.use("old", instance, 2, old)
                tills.use("new", instance, 2)
            tills.restart("inconsistent", instance, version, **VARIANTS["inconsistent"])
            tills.use("after", instance, 2)
        talk.describe("", tills.group)


def static_members_that_restart_with_other_topics(talk: Conversation) -> None:
    for instance in ("two", "one"):
        for variant in ("topics", "more", "preference"):
            tills = Tills(talk, f"changed-{instance}-{variant}")
            answer = tills.restart(f"{instance} {variant}", instance, 9, **VARIANTS[variant])
            tills.ids[instance] = answer.member_id
            tills.use("after", instance, 2)
            tills.use("other", "one" if instance == "two" else "two", 2)
            talk.describe("", tills.group)


def static_members_that_restart_in_a_rebalance(talk: Conversation) -> None:
    for instance, other in (("two", "one"), ("one", "two")):
        tills = Tills(talk, f"preparing-{instance}")
        newcomer = talk.later(JOIN, 9, **join(tills.group, "", "three"))
        described = talk.quietly(DESCRIBE, 5, groups=[tills.group]).groups[0].members
        talk.know(next(member.member_id for member in described if member.group_instance_id == "three"))
        talk.describe("preparing", tills.group)
        tills.use("preparing", other, 2)
        first = talk.later(JOIN, 9, **join(tills.group, "", instance, **VARIANTS["topics"]))
        again = talk.later(JOIN, 9, **join(tills.group, "", instance))
        talk.hear("replaced while it waits", first)
        tills.use("preparing", instance, 2)
        last = talk.ask("last", JOIN, 9, **join(tills.group, tills.ids[other], other))
        member = talk.hear("restarted", again).member_id
        three = talk.hear("newcomer", newcomer).member_id
        talk.describe("completing", tills.group)
        tills.ids[instance] = member
        for name in (instance, other):
            talk.heartbeat("completing", tills.group, 3, tills.ids[name], name)
            talk.commit("completing", tills.group, 3, tills.ids[name], instance=name)
            talk.commit("completing, old generation", tills.group, 2, tills.ids[name], instance=name)
        talk.ask("asks again", JOIN, 9, **join(tills.group, tills.ids[other], other))
        talk.ask("asks again", JOIN, 9, **join(tills.group, three, "three"))
        assert last.generation_id == 3


def static_members_that_restart_while_completing(talk: Conversation) -> None:
    for instance, other in (("two", "one"), ("one", "two")):
        tills = Tills(talk, f"completing-{instance}")
        joining = talk.later(JOIN, 9, **join(tills.group, tills.ids["one"], "one"))
        talk.describe("leader joins again", tills.group)
        talk.hear("two", talk.later(JOIN, 9, **join(tills.group, tills.ids["two"], "two")))
        talk.hear("one", joining)
        talk.describe("completing", tills.group)
        again = talk.later(JOIN, 9, **join(tills.group, "", instance))
        tills.use("restarted", other, 3)
        talk.describe("restarted while completing", tills.group)
        talk.ask("other", JOIN, 9, **join(tills.group, tills.ids[other], other))
        tills.ids[instance] = talk.hear("restarted", again).member_id
        talk.sync("", tills.group, 4, tills.ids["one"], (tills.ids["one"], b"A"), group_instance_id="one")
        tills.use("new generation", other, 4)
        tills.use("old generation", other, 3)
        tills.use("older generation", other, 2)
