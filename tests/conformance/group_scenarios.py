"""What clients may ask of a group: each scenario sends requests whose answers must equal Kafka's."""

from __future__ import annotations

from tests.conformance.group_conversation import (
    COMMIT,
    DELETE,
    DELETE_OFFSETS,
    DESCRIBE,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    LIST,
    METADATA,
    NO_TOPIC,
    SYNC,
    Connection,
    Conversation,
    _topics,
    join,
    subscription,
)
from tests.services import until


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


def commits_in_and_after_a_rebalance(talk: Conversation) -> None:
    """Commits of members and non-members, in each version and state, with each generation."""

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
    """An empty instance id."""
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
    until(lambda: not talk.quietly(DESCRIBE, 5, groups=["sleepers"]).groups[0].members, "the session to expire")
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
