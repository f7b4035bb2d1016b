"""The same group requests to our broker and to Apache Kafka: the answers have to be the same, field by field.

A scenario talks in raw requests of chosen versions, so that it also says what no client would. Ids that a broker makes
up are replaced by their number; addresses, throttling and the wording of messages may differ.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Self
from uuid import UUID

import pytest

from mqcore.wire.errors import ErrorCode
from mqcore.wire.frames import is_flexible
from mqcore.wire.messages import decode_response, encode_request
from mqcore.wire.primitives import Writer
from seckill.stack.broker import BrokerProcess
from tests.conformance.callbacks import LIBRARIES, STORIES
from tests.conformance.peer import ApacheKafka

pytestmark = pytest.mark.needs("java", "mvn")

JOIN, HEARTBEAT, LEAVE, SYNC, FIND = 11, 12, 13, 14, 10
COMMIT, FETCH, DELETE_OFFSETS = 8, 9, 47
DESCRIBE, LIST, DELETE = 15, 16, 42
METADATA, CREATE_TOPICS = 3, 19

MAY_DIFFER = {"throttle_time_ms", "host", "port", "node_id", "client_host", "error_message", "topic_id"}
NO_TOPIC = UUID(int=99)


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def send(self, key: int, version: int, **fields: Any) -> Self:
        """Without waiting for the answer: `receive` gets it."""
        self._sent = key, version
        head = struct.pack(">hhih", key, version, 1, 4) + b"diff" + (b"\0" if is_flexible(key, version) else b"")
        body = head + encode_request(key, version, fields)
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        return self

    def receive(self) -> Any:
        with self._socket.makefile("rb") as stream:
            (length,) = struct.unpack(">i", stream.read(4))
            frame = stream.read(length)
        return decode_response(*self._sent, frame[5 if is_flexible(*self._sent) else 4 :])

    def close(self) -> None:
        self._socket.close()


class Conversation:
    """Asks one broker and remembers what it answered, in words that do not depend on who answered."""

    def __init__(self, port: int) -> None:
        self.transcript: list[tuple[str, Any]] = []
        self._port = port
        self._ids: dict[str, str] = {}
        self._open = ExitStack()
        self._first = self._connect()

    def close(self) -> None:
        self._open.close()

    def _connect(self) -> Connection:
        connection = Connection(self._port)
        self._open.callback(connection.close)
        return connection

    def ask(self, label: str, key: int, version: int, **fields: Any) -> Any:
        return self.hear(label, self._first.send(key, version, **fields))

    def quietly(self, key: int, version: int, **fields: Any) -> Any:
        return self._first.send(key, version, **fields).receive()

    def later(self, key: int, version: int, **fields: Any) -> Connection:
        """Ask on a connection of its own, for an answer that has to wait; the request is there when this returns."""
        connection = self._connect().send(key, version, **fields)
        time.sleep(0.25)
        return connection

    def hear(self, label: str, connection: Connection) -> Any:
        answer = connection.receive()
        self.transcript.append((label, self._comparable(answer)))
        return answer

    def know(self, member_id: str) -> None:
        """Number an id now, because a broker lists members in any order."""
        self._comparable(member_id, "member_id")

    def _comparable(self, value: Any, name: str = "") -> Any:
        if hasattr(value, "_asdict"):
            fields = value._asdict().items()
            return {field: self._comparable(inner, field) for field, inner in fields if field not in MAY_DIFFER}
        if isinstance(value, list | tuple):
            return sorted((self._comparable(inner) for inner in value), key=repr)
        if name == "error_code":
            return ErrorCode(value).name
        if name in ("member_id", "leader") and len(value) > 36:
            return self._ids.setdefault(value, f"{value[:-36]}{len(self._ids)}")
        return value

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def describe(self, label: str, group: str, version: int = 5) -> None:
        self.ask(f"describe {label}", DESCRIBE, version, groups=[group])

    def commit(self, label: str, group: str, generation: int = -1, member: str = "", **more: Any) -> None:
        self.ask(f"commit {label}", COMMIT, more.pop("version", 9), **commit(group, generation, member, **more))

    def heartbeat(self, label: str, group: str, generation: int, member: str, instance: str | None = None) -> None:
        fields = {"group_id": group, "generation_id": generation, "member_id": member}
        self.ask(f"heartbeat {label}", HEARTBEAT, 4, **fields, **_instance(instance))

    def sync(
        self, label: str, group: str, generation: int, member: str, *parts: tuple[str, bytes], **more: Any
    ) -> None:
        fields = {"group_id": group, "generation_id": generation, "member_id": member, "assignments": _parts(parts)}
        self.ask(f"sync {label}", SYNC, more.pop("version", 3), **fields, **more)

    def leave(self, label: str, group: str, *members: tuple[str, str | None]) -> None:
        leaving = [{"member_id": member, **_instance(instance)} for member, instance in members]
        self.ask(f"leave {label}", LEAVE, 5, group_id=group, members=leaving)


def subscription(*topics: str) -> bytes:
    writer = Writer()
    writer.int16(0)
    writer.array(topics, writer.string)
    writer.binary(b"")
    return writer.finish()


def join(group: str, member: str = "", instance: str | None = None, **more: Any) -> dict[str, Any]:
    protocols = more.pop("protocols", [("range", subscription("orders"))])
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 3_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
        **_instance(instance),
        **more,
    }


def commit(group: str, generation: int = -1, member: str = "", **more: Any) -> dict[str, Any]:
    offsets = more.pop("offsets", [(0, 1)])
    text = more.pop("text", "note")
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": text} for index, offset in offsets
    ]
    topics = [{"name": more.pop("topic", "orders"), "partitions": partitions}]
    named = _instance(more.pop("instance", None))
    fields = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": member, "topics": topics}
    return {**fields, **named}


def _instance(instance: str | None) -> dict[str, str]:
    return {} if instance is None else {"group_instance_id": instance}


def _parts(parts: tuple[tuple[str, bytes], ...]) -> list[dict[str, Any]]:
    return [{"member_id": member, "assignment": assignment} for member, assignment in parts]


def _topics(*places: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [{"partition_index": index}]} for name, index in places]


# ── scenarios ────────────────────────────────────────────────────────────────────────────────────────


def groups_that_are_not_there(talk: Conversation) -> None:
    for group in ("ghost", ""):
        talk.heartbeat(group, group, 1, "m")
        talk.sync(group, group, 1, "m")
        talk.leave(group, group, ("m", None), ("", "till"))
        talk.ask("leave 2", LEAVE, 2, group_id=group, member_id="m")
        talk.ask("join", JOIN, 9, **join(group, "m"))
        talk.ask("delete", DELETE, 2, groups_names=[group])
        for version in (0, 5, 6):
            talk.describe(f"{group} {version}", group, version)
    talk.ask("join ''", JOIN, 9, **join(""))
    for milliseconds in (1, 10**8):
        talk.ask("join, session", JOIN, 9, **join("ghost", session_timeout_ms=milliseconds))
    for version in (2, 5, 8, 9):
        talk.commit(f"version {version}", "ghost", 3, "m", version=version)
    for version in (1, 2, 5, 7):
        topics = [{"name": "orders", "partition_indexes": [0, 9]}, {"name": "nothing", "partition_indexes": [0]}]
        talk.ask(f"fetch {version}", FETCH, version, group_id="ghost", topics=topics)
    for version in (8, 9):
        talk.ask(f"fetch {version}", FETCH, version, groups=[{"group_id": "ghost", "topics": None}])
    talk.ask("delete offsets", DELETE_OFFSETS, 0, group_id="ghost", topics=_topics(("orders", 0)))
    talk.ask("delete offsets", DELETE_OFFSETS, 0, group_id="", topics=[])
    talk.ask("sync, no protocol", SYNC, 5, group_id="ghost", generation_id=1, member_id="m", assignments=[])


def a_group_without_members(talk: Conversation) -> None:
    group = "notebook"
    talk.commit("", group, offsets=[(0, 5), (1, 6), (7, 1)])
    talk.commit("unknown topic", group, topic="nothing")
    talk.commit("long text", group, text="x" * 5_000)
    talk.commit("no text", group, offsets=[(2, 9)], text=None)
    talk.commit("generation 0", group, 0, "m")
    talk.commit("with a member id", group, -1, "m")
    talk.commit("with an instance", group, -1, "", instance="till")
    talk.commit("without group id", "")
    talk.ask("fetch 3", FETCH, 3, group_id=group, topics=None)
    talk.ask("fetch 9", FETCH, 9, groups=[{"group_id": name, "topics": None} for name in (group, "")])
    talk.describe("", group)
    talk.heartbeat("", group, 0, "m")
    talk.ask("join, unknown", JOIN, 9, **join(group, "m"))
    talk.ask("join, no protocols", JOIN, 9, **join(group, protocols=[]))
    talk.ask("join, no type", JOIN, 9, **join(group, protocol_type=""))
    talk.ask("list", LIST, 5, states_filter=["empty"], types_filter=["Classic"])
    talk.ask("list", LIST, 5, states_filter=["strange"], types_filter=[])
    talk.ask("list", LIST, 5, states_filter=[], types_filter=["strange"])
    places = (("orders", 0), ("orders", 2), ("orders", 8), ("nothing", 0))
    talk.ask("delete offsets", DELETE_OFFSETS, 0, group_id=group, topics=_topics(*places[:1], *places[3:]))
    talk.ask("fetch", FETCH, 9, groups=[{"group_id": group, "topics": None}])
    talk.ask("delete", DELETE, 2, groups_names=[group, group])


def dynamic_members(talk: Conversation) -> None:
    group = "crew"
    one = talk.ask("join", JOIN, 9, **join(group)).member_id
    talk.heartbeat("pending", group, 0, one)
    talk.sync("pending", group, 0, one)
    talk.commit("pending", group, 0, one)
    talk.ask("join", JOIN, 9, **join(group, one))
    talk.describe("completing", group)
    talk.heartbeat("completing", group, 1, one)
    talk.commit("completing", group, 1, one)
    talk.commit("completing, alone", group)
    talk.ask("join again", JOIN, 9, **join(group, one))
    names = {"version": 5, "protocol_type": "consumer", "protocol_name": "range"}
    talk.sync("type", group, 1, one, **names | {"protocol_type": "x"})
    talk.sync("name", group, 1, one, **names | {"protocol_name": "x"})
    talk.sync("generation", group, 7, one)
    talk.sync("", group, 1, one, (one, b"all"), ("ghost", b"?"), **names)
    talk.describe("stable", group)
    for generation, member in ((1, one), (2, one), (1, "stranger"), (-1, one)):
        talk.heartbeat("stable", group, generation, member)
        talk.commit("stable", group, generation, member)
    talk.heartbeat("stable, instance", group, 1, one, "till")
    talk.commit("stable, instance", group, 1, one, instance="till")
    talk.commit("stable, alone", group)
    talk.commit("stable", group, 1, one, topic="payments")
    talk.ask("join, other protocol", JOIN, 9, **join(group, protocols=[("other", b"")]))
    talk.ask("join, other type", JOIN, 9, **join(group, protocol_type="connect"))
    talk.ask("join, other protocol", JOIN, 9, **join(group, one, protocols=[("other", b"")]))
    talk.ask("join, instance", JOIN, 9, **join(group, one, "till"))
    topics = _topics(("orders", 0), ("payments", 0))
    talk.ask("delete offsets", DELETE_OFFSETS, 0, group_id=group, topics=topics)
    talk.ask("delete", DELETE, 2, groups_names=[group])
    two = talk.ask("join 2", JOIN, 9, **join(group)).member_id
    joining = talk.later(JOIN, 9, **join(group, two))
    talk.describe("preparing", group)
    for member in (one, two):
        talk.heartbeat("preparing", group, 1, member)
        talk.sync("preparing", group, 1, member)
        talk.commit("preparing", group, 1, member)
    talk.ask("join", JOIN, 9, **join(group, one))
    talk.hear("joined", joining)
    talk.describe("completing", group)
    syncing = talk.later(SYNC, 3, group_id=group, generation_id=2, member_id=two, assignments=[])
    talk.sync("leader", group, 2, one, (one, b"A"))
    talk.hear("synced", syncing)
    talk.ask("join, same", JOIN, 9, **join(group, two))
    talk.sync("again", group, 2, two)
    joining = talk.later(JOIN, 9, **join(group, one))
    talk.describe("leader joins again", group)
    talk.leave("many", group, (two, None), ("stranger", None), ("", "nobody"), (one, "nobody"))
    talk.hear("joined", joining)
    talk.ask("leave 2", LEAVE, 2, group_id=group, member_id=one)
    talk.describe("empty", group)
    for version in (1, 6):
        talk.describe("empty", group, version)
    talk.heartbeat("empty", group, 4, one)
    talk.commit("empty", group, 4, one)
    talk.commit("empty, alone", group)
    talk.ask("join, gone", JOIN, 9, **join(group, one))


def static_members(talk: Conversation) -> None:
    group = "tills"

    def joins(instance: str, member: str = "", version: int = 9) -> Connection:
        return talk.later(JOIN, version, **join(group, member, instance))

    old = talk.hear("first", joins("one")).member_id
    talk.sync("", group, 1, old, (old, b"1"), group_instance_id="one")
    talk.hear("restart, version 8", joins("one", version=8))
    one = talk.hear("restart, version 9", joins("one")).member_id
    talk.heartbeat("fenced", group, 1, old, "one")
    talk.heartbeat("no instance", group, 1, old)
    talk.heartbeat("unknown instance", group, 1, old, "nobody")
    talk.sync("fenced", group, 1, old, group_instance_id="one")
    talk.commit("fenced", group, 1, old, instance="one")
    talk.leave("fenced", group, (old, "one"))
    talk.ask("join, fenced", JOIN, 9, **join(group, old, "one"))
    talk.sync("new", group, 1, one, group_instance_id="one")
    second, first = joins("two"), joins("one", one)
    two = talk.hear("two", second).member_id
    talk.hear("one", first)
    syncing = talk.later(
        SYNC, 3, group_id=group, generation_id=2, member_id=two, group_instance_id="two", assignments=[]
    )
    joining = joins("two")
    talk.hear("restart while completing: sync", syncing)
    talk.describe("preparing", group)
    again = joins("two")
    talk.hear("restart while preparing: join", joining)
    first = joins("one", one)
    talk.hear("one", first)
    two = talk.hear("two", again).member_id
    talk.sync("", group, 3, one, (one, b"1"), (two, b"2"), group_instance_id="one")
    two = talk.hear("restart while stable", joins("two")).member_id
    talk.sync("again", group, 3, two, group_instance_id="two")
    talk.hear("one, the other is away", joins("one", one))
    talk.leave("by instance", group, ("", "two"))
    talk.describe("", group)
    talk.leave("by instance", group, ("", "one"))
    talk.describe("empty", group)


def a_group_whose_last_offset_is_deleted(talk: Conversation) -> None:
    def delete_offset(group: str, topic: str = "orders") -> None:
        talk.ask("delete offset", DELETE_OFFSETS, 0, group_id=group, topics=_topics((topic, 0)))

    def look(group: str) -> None:
        talk.describe("", group)
        talk.describe("", group, 6)
        listed = talk.quietly(LIST, 5, states_filter=[], types_filter=[]).groups
        found = [(each.group_state, each.protocol_type) for each in listed if each.group_id == group]
        talk.transcript.append(("list", found))
        talk.ask("fetch", FETCH, 9, groups=[{"group_id": group, "topics": None}])

    group = "erased"
    talk.commit("", group)
    delete_offset(group)
    look(group)
    delete_offset(group)
    talk.commit("of a member", group, 1, "m")
    talk.heartbeat("", group, 0, "m")
    talk.ask("join, unknown", JOIN, 9, **join(group, "m"))
    talk.commit("again", group)
    delete_offset(group)
    for _ in range(2):
        talk.ask("delete", DELETE, 2, groups_names=[group])
    look(group)
    member = talk.ask("join", JOIN, 3, **join("left")).member_id
    talk.sync("", "left", 1, member, (member, b""))
    talk.commit("", "left", 1, member)
    delete_offset("left")
    talk.leave("", "left", (member, None))
    delete_offset("left")
    look("left")
    talk.ask("delete", DELETE, 2, groups_names=["left"])
    look("left")
    member = talk.ask("join, no offsets", JOIN, 3, **join("left")).member_id
    talk.leave("", "left", (member, None))
    look("left")


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
        """The answer, which is expected at once."""
        return self.talk.ask(label, JOIN, version, **join(self.group, "", instance, **more))

    def use(self, label: str, instance: str, generation: int, member: str | None = None) -> None:
        """What a member does in its generation."""
        member = self.ids[instance] if member is None else member
        self.talk.heartbeat(label, self.group, generation, member, instance)
        self.talk.sync(label, self.group, generation, member, group_instance_id=instance)
        self.talk.commit(label, self.group, generation, member, instance=instance)


def static_members_that_restart_while_stable(talk: Conversation) -> None:
    """Two of them; with each of their metadata; in old and new versions."""
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


def commits_in_and_after_a_rebalance(talk: Conversation) -> None:
    """Of members and strangers, in each version, in each state, with each generation."""

    def commits(label: str, *members: str) -> None:
        for version in (2, 4, 6, 7, 8, 9):
            for generation in (-1, 0, 1, 2, 3):
                for member in (*members, "stranger", ""):
                    talk.commit(label, group, generation, member, version=version)

    group = "committers"
    one = talk.quietly(JOIN, 3, **join(group)).member_id
    commits("completing", one)
    talk.sync("", group, 1, one, (one, b""))
    commits("stable", one)
    joining = talk.later(JOIN, 3, **join(group))
    commits("preparing", one)
    talk.ask("one", JOIN, 3, **join(group, one))
    two = talk.hear("two", joining).member_id
    commits("completing 2", one, two)
    for member in (two, one):
        talk.heartbeat("completing 2", group, 1, member)
        talk.heartbeat("completing 2", group, 2, member)
    talk.sync("", group, 2, one, (one, b""))
    commits("stable 2", one, two)
    talk.leave("", group, (one, None), (two, None))
    commits("empty", one)
    talk.ask("fetch", FETCH, 9, groups=[{"group_id": group, "topics": None}])


def empty_names(talk: Conversation) -> None:
    """An instance id of no characters."""
    first = talk.ask("join", JOIN, 9, **join("blank", "", ""))
    talk.sync("", "blank", 1, first.member_id, (first.member_id, b""), group_instance_id="")
    talk.describe("", "blank")
    talk.heartbeat("", "blank", 1, first.member_id, "")
    talk.commit("", "blank", 1, first.member_id, instance="")
    talk.leave("", "blank", ("", ""))
    talk.describe("", "blank")


def old_clients_and_other_kinds(talk: Conversation) -> None:
    member = talk.ask("join 0", JOIN, 0, **join("veterans")).member_id
    talk.sync("0", "veterans", 1, member, (member, b"x"), version=0)
    talk.ask("heartbeat 0", HEARTBEAT, 0, group_id="veterans", generation_id=1, member_id=member)
    for _ in range(2):
        talk.ask("leave 0", LEAVE, 0, group_id="veterans", member_id=member)
    both = [("sticky", subscription("orders")), ("range", subscription("orders"))]
    talk.ask("join, two protocols", JOIN, 3, **join("voters", protocols=both))
    talk.ask("join", JOIN, 3, **join("workers", protocol_type="connect", protocols=[("x", b"?")]))
    talk.ask("delete offsets", DELETE_OFFSETS, 0, group_id="workers", topics=_topics(("orders", 0)))


def a_session_ends(talk: Conversation) -> None:
    member = talk.ask("join", JOIN, 3, **join("sleepers", session_timeout_ms=1_500)).member_id
    talk.sync("", "sleepers", 1, member, (member, b""))
    time.sleep(2.3)
    talk.heartbeat("late", "sleepers", 1, member)
    talk.describe("", "sleepers")


def topics_by_id(talk: Conversation) -> None:
    topic_id = talk.quietly(METADATA, 12, topics=[{"name": "orders"}]).topics[0].topic_id
    ids = (topic_id, NO_TOPIC)
    offsets = [{"partition_index": index, "committed_offset": 3, "committed_metadata": ""} for index in (0, 9)]
    topics = [{"topic_id": wanted, "partitions": offsets} for wanted in ids]
    fields = {"group_id": "ids", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    talk.ask("commit", COMMIT, 10, **fields)
    wanted = [{"topic_id": topic_id, "partition_indexes": [0, 1]} for topic_id in ids]
    talk.ask("fetch", FETCH, 10, groups=[{"group_id": "ids", "topics": wanted}, {"group_id": "ids", "topics": None}])


Scenario = Callable[[Conversation], None]
SCENARIOS: list[Scenario] = [
    groups_that_are_not_there,
    a_group_without_members,
    dynamic_members,
    static_members,
    a_group_whose_last_offset_is_deleted,
    static_members_that_restart_while_stable,
    static_members_that_restart_with_other_topics,
    static_members_that_restart_in_a_rebalance,
    static_members_that_restart_while_completing,
    commits_in_and_after_a_rebalance,
    empty_names,
    old_clients_and_other_kinds,
    a_session_ends,
    topics_by_id,
]


def ready(broker: BrokerProcess) -> int:
    """Two topics, and a coordinator that knows its groups."""
    talk = Conversation(broker.port)
    names = ("orders", "payments")
    topics = [{"name": name, "num_partitions": 3, "replication_factor": 1} for name in names]
    talk.quietly(CREATE_TOPICS, 2, topics=topics, timeout_ms=10_000)
    deadline = time.monotonic() + 60
    while True:
        found = talk.quietly(FIND, 4, coordinator_keys=["ready"]).coordinators[0].error_code
        beat = talk.quietly(HEARTBEAT, 4, group_id="ready", generation_id=1, member_id="m").error_code
        known = talk.quietly(METADATA, 4, topics=[{"name": name} for name in names]).topics
        errors = [part.error_code for topic in known for part in topic.partitions]
        if found == 0 and beat == ErrorCode.UNKNOWN_MEMBER_ID and errors == [0] * 6:
            talk.close()
            return broker.port
        assert time.monotonic() < deadline, (found, beat, errors)
        time.sleep(0.2)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1500"}
    folder = tmp_path_factory.mktemp("like-kafka")
    with BrokerProcess(folder / "ours", settings) as ours, ApacheKafka(folder / "kafka", settings) as kafka:
        yield ready(ours), ready(kafka)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_groups_answer_as_kafka_does(scenario: Scenario, ports: tuple[int, int]) -> None:
    transcripts = []
    for port in ports:
        talk = Conversation(port)
        scenario(talk)
        talk.close()
        transcripts.append(talk.transcript)
    ours, kafka = transcripts
    assert ours
    for mine, theirs in zip(ours, kafka, strict=True):
        assert mine == theirs


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_consumers_are_told_of_a_rebalance_as_by_kafka(
    story: Callable[[str, int], list[Any]], ports: tuple[int, int]
) -> None:
    with ThreadPoolExecutor(len(LIBRARIES) * len(ports)) as threads:
        told = {library: [threads.submit(story, library, port) for port in ports] for library in LIBRARIES}
    for library, (ours, kafka) in told.items():
        assert ours.result() == kafka.result(), library
