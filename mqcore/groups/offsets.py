"""Machine: the rules of committed offsets: which clients may commit, what they can read, and when offsets expire.

Expiry uses the wall clock, because it has to survive restarts. It is checked only by `ExpireOffsets`.
"""

from __future__ import annotations

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
from mqcore.groups.membership import generation_error
from mqcore.groups.memory import GroupMemory, offset_bytes
from mqcore.groups.rules import GroupRules
from mqcore.groups.state import GroupState
from mqcore.groups.subscription import CONSUMER, parse_topics
from mqcore.host import Instant
from mqcore.identity import NO_LEADER_EPOCH, Millis
from mqcore.wire.errors import ErrorCode

Facts = tuple[GroupFact, ...]

TIMESTAMP_MS_MAX = (1 << 63) - 1  # the latest time that fits into a record


def decide_commit(
    state: GroupState, command: CommitOffsets, rules: GroupRules, now: Instant, memory: GroupMemory
) -> tuple[Facts, CommitAnswer]:
    error = _commit_error(state, command)
    if sum(len(wanted.topic) + 4 * len(wanted.metadata) for wanted in command.offsets) > rules.max_commit_bytes:
        error = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    if command.retention_ms is not None and now.wall_ms + command.retention_ms > TIMESTAMP_MS_MAX:
        error = ErrorCode.INVALID_REQUEST
    if error is not None:
        return (), CommitAnswer((error,) * len(command.offsets))
    facts: list[GroupFact] = []
    errors = []
    room = rules.max_offsets - len(state.offsets)
    expire_ms = None if command.retention_ms is None else Millis(now.wall_ms + command.retention_ms)
    new_bytes: dict[tuple[str, int], int] = {}  # a request may name a partition twice; the last entry counts
    growth = 0
    for wanted in command.offsets:
        place = wanted.topic, wanted.partition
        leader_epoch = wanted.leader_epoch if expire_ms is None else NO_LEADER_EPOCH  # no record version can store both
        kept = CommittedOffset(wanted.offset, leader_epoch, wanted.metadata, now.wall_ms, expire_ms)
        is_new = place not in state.offsets and place not in new_bytes
        error = _offset_error(wanted, rules, room if is_new else 1)
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


def _commit_error(state: GroupState, command: CommitOffsets) -> ErrorCode | None:
    if state.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if command.generation < 0 and state.phase is Phase.EMPTY:
        return None  # a consumer without group membership only stores offsets, which needs a group without members
    if command.generation <= NO_GENERATION and not command.member_id and command.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if state.is_blank:
        return ErrorCode.GROUP_ID_NOT_FOUND
    error = generation_error(state, command.member_id, command.instance_id, command.generation)
    if error is None and state.phase is Phase.COMPLETING_REBALANCE:
        # The member has not seen the new assignment yet, so it may not own these partitions any more.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _offset_error(wanted: OffsetToCommit, rules: GroupRules, room: int) -> ErrorCode:
    if len(wanted.metadata.encode()) > rules.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if room <= 0:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def fetch_offsets(state: GroupState, command: FetchOffsets) -> FetchAnswer:
    if command.wanted is None:
        return FetchAnswer(dict(state.offsets))
    return FetchAnswer({place: state.offsets[place] for place in command.wanted if place in state.offsets})


def decide_delete(state: GroupState, command: DeleteOffsets) -> tuple[Facts, DeleteOffsetsAnswer]:
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


def decide_delete_group(state: GroupState) -> tuple[Facts, ErrorCode]:
    if state.is_blank:
        return (), ErrorCode.GROUP_ID_NOT_FOUND
    if state.phase is not Phase.EMPTY:
        return (), ErrorCode.NON_EMPTY_GROUP
    return (*(OffsetRemoved(*place) for place in state.offsets), GroupRemoved()), ErrorCode.NONE


def tombstones_of_topic(state: GroupState, topic: str) -> Facts:
    return tuple(OffsetRemoved(*place) for place in state.offsets if place[0] == topic)


def tombstones_of_expired(state: GroupState, rules: GroupRules, now: Instant) -> Facts:
    """Tombstones for expired offsets, and for the group itself if it is empty then."""
    subscribed = subscribed_topics(state)
    expired = [
        place
        for place, committed in state.offsets.items()
        if _is_expired(state, place[0], committed, subscribed, rules, now)
    ]
    facts: list[GroupFact] = [OffsetRemoved(*place) for place in expired]
    if (
        state.phase is Phase.EMPTY
        and not state.issued_ids
        and len(expired) == len(state.offsets)
        and not state.is_blank
    ):
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
        # In a group that had members, all offsets age together from the time it became empty (KIP-211).
        since = committed.commit_wall_ms
        if state.since_wall_ms is not None:
            since = max(since, state.since_wall_ms)
    elif state.phase is Phase.STABLE and subscribed is not None and topic not in subscribed:
        since = committed.commit_wall_ms
    else:
        return False
    return now.wall_ms - since >= rules.offsets_retention_ms


def subscribed_topics(state: GroupState) -> frozenset[str] | None:
    """The topics that the members read; None if their protocol does not show it, so that it may be any topic."""
    if not state.members:
        return frozenset()
    if state.protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    for member in state.members.values():
        for name, metadata in member.protocols:
            if state.protocol is None or name == state.protocol:
                found = parse_topics(metadata)
                if found is None:
                    return None
                topics |= found
    return frozenset(topics)
