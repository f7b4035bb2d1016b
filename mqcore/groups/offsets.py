"""Machine: the rules of committed offsets: who may commit, what is answered, when they age out.

Aging goes by the wall clock, because it has to survive restarts; it is only looked at when `ExpireOffsets` says so.
"""

from __future__ import annotations

from mqcore.clock import Instant
from mqcore.groups.commands import (
    NO_GENERATION,
    CommitAnswer,
    CommitOffsets,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    FetchAnswer,
    FetchOffsets,
    OffsetToCommit,
    Phase,
)
from mqcore.groups.facts import (
    CommittedOffset,
    GroupFact,
    GroupRemoved,
    OffsetCommitted,
    OffsetRemoved,
    SessionsRefreshed,
)
from mqcore.groups.membership import fence_generation
from mqcore.groups.memory import GroupMemory, offset_bytes
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.groups.subscription import CONSUMER, topics_of
from mqcore.identity import NO_LEADER_EPOCH, Millis
from mqcore.wire.errors import ErrorCode

Facts = tuple[GroupFact, ...]

LATEST_MS = (1 << 63) - 1  # the last moment that a record can name


def commit(
    state: GroupState, command: CommitOffsets, rules: GroupRules, now: Instant, memory: GroupMemory
) -> tuple[Facts, CommitAnswer]:
    error = _commit_refusal(state, command)
    if sum(len(wanted.topic) + 4 * len(wanted.metadata) for wanted in command.offsets) > rules.max_commit_bytes:
        error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    if command.retention_ms is not None and now.wall_ms + command.retention_ms > LATEST_MS:
        error = ErrorCode.INVALID_REQUEST
    if error is not None:
        return (), CommitAnswer((error,) * len(command.offsets))
    facts: list[GroupFact] = []
    errors = []
    room = rules.max_offsets - len(state.offsets)
    expire_ms = None if command.retention_ms is None else Millis(now.wall_ms + command.retention_ms)
    new_bytes: dict[tuple[str, int], int] = {}  # by place, because a request may name one twice: the last one counts
    growth = 0
    for wanted in command.offsets:
        place = wanted.topic, wanted.partition
        leader_epoch = wanted.leader_epoch if expire_ms is None else NO_LEADER_EPOCH  # no record holds both
        kept = CommittedOffset(wanted.offset, leader_epoch, wanted.metadata, now.wall_ms, expire_ms)
        is_new = place not in state.offsets and place not in new_bytes
        error = _offset_refusal(wanted, rules, room if is_new else 1)
        if error is ErrorCode.NONE:
            held = 0 if is_new else new_bytes.get(place) or offset_bytes(wanted.topic, state.offsets[place])
            size = offset_bytes(wanted.topic, kept)
            if size > held and not memory.fits(growth + size - held):
                memory.refused += 1
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                growth += size - held
                room -= is_new
                new_bytes[place] = size
                facts.append(OffsetCommitted(wanted.topic, wanted.partition, kept))
        errors.append(error)
    if command.member_id in state.members:
        facts.append(SessionsRefreshed((command.member_id,), now.monotonic_ms))
    return tuple(facts), CommitAnswer(tuple(errors))


def _commit_refusal(state: GroupState, command: CommitOffsets) -> ErrorCode | None:
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if command.generation < 0 and state.phase is Phase.EMPTY:
        return None  # a consumer that assigns itself uses the group as a notebook; nobody else may be in it
    if command.generation <= NO_GENERATION and not command.member_id and command.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if state.is_blank:
        return ErrorCode.GROUP_ID_NOT_FOUND
    error = fence_generation(state, command.member_id, command.instance_id, command.generation)
    if error is None and state.phase is Phase.COMPLETING_REBALANCE:
        # Who commits now has not seen the new assignment: it may no longer own what it commits.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _offset_refusal(wanted: OffsetToCommit, rules: GroupRules, room: int) -> ErrorCode:
    if len(wanted.metadata.encode()) > rules.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if room <= 0:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def fetch(state: GroupState, command: FetchOffsets) -> FetchAnswer:
    if command.wanted is None:
        return FetchAnswer(dict(state.offsets))
    return FetchAnswer({place: state.offsets[place] for place in command.wanted if place in state.offsets})


def delete(state: GroupState, command: DeleteOffsets) -> tuple[Facts, DeleteOffsetsAnswer]:
    if state.is_blank:
        return (), DeleteOffsetsAnswer(ErrorCode.GROUP_ID_NOT_FOUND)
    if state.phase is not Phase.EMPTY and state.protocol_type != CONSUMER:
        return (), DeleteOffsetsAnswer(ErrorCode.NON_EMPTY_GROUP)
    subscribed = subscribed_topics(state)
    in_use = frozenset(topic for topic, _ in command.partitions if subscribed is None or topic in subscribed)
    facts = tuple(
        OffsetRemoved(topic, partition)
        for topic, partition in dict.fromkeys(command.partitions)
        if topic not in in_use and (topic, partition) in state.offsets
    )
    return facts, DeleteOffsetsAnswer(ErrorCode.NONE, in_use)


def remove_group(state: GroupState) -> tuple[Facts, ErrorCode]:
    if state.is_blank:
        return (), ErrorCode.GROUP_ID_NOT_FOUND
    if state.phase is not Phase.EMPTY:
        return (), ErrorCode.NON_EMPTY_GROUP
    return (*(OffsetRemoved(*place) for place in state.offsets), GroupRemoved()), ErrorCode.NONE


def forget_topic(state: GroupState, topic: str) -> Facts:
    return tuple(OffsetRemoved(*place) for place in state.offsets if place[0] == topic)


def expire(state: GroupState, rules: GroupRules, now: Instant) -> Facts:
    """Tombstones for what is too old, and for the group itself once nothing is left of it."""
    subscribed = subscribed_topics(state)
    gone = [
        place
        for place, committed in state.offsets.items()
        if _is_expired(state, place[0], committed, subscribed, rules, now)
    ]
    facts: list[GroupFact] = [OffsetRemoved(*place) for place in gone]
    if state.phase is Phase.EMPTY and not state.pending and len(gone) == len(state.offsets) and not state.is_blank:
        facts.append(GroupRemoved())
    return tuple(facts)


def _is_expired(
    state: GroupState,
    topic: str,
    committed: CommittedOffset,
    subscribed: frozenset[str] | None,
    rules: GroupRules,
    now: Instant,
) -> bool:
    if committed.expire_wall_ms is not None:
        return now.wall_ms >= committed.expire_wall_ms and state.phase is Phase.EMPTY
    if state.phase is Phase.EMPTY:
        # Of a group that had members all offsets age together, from the moment it was empty (KIP-211).
        since = committed.commit_wall_ms
        if state.since_wall_ms is not None:
            since = max(since, state.since_wall_ms)
    elif state.phase is Phase.STABLE and subscribed is not None and topic not in subscribed:
        since = committed.commit_wall_ms
    else:
        return False
    return now.wall_ms - since >= rules.offsets_retention_ms


def subscribed_topics(state: GroupState) -> frozenset[str] | None:
    """What the members read; None if that cannot be told, and then it may be anything."""
    if not state.members:
        return frozenset()
    if state.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in state.members.values():
        for name, metadata in member.protocols:
            if state.protocol is None or name == state.protocol:
                found = topics_of(metadata)
                if found is None:
                    return None
                topics |= found
    return frozenset(topics)
