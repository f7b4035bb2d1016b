"""Machine: which brokers belong to the cluster, and which of them may lead. KIP-631.

FENCED → ACTIVE → IN CONTROLLED SHUTDOWN → FENCED. A broker is fenced from its registration until it has applied the
metadata up to there, and again when it falls silent. Its epoch is that of its registration: whatever carries an older
one was sent by an earlier life of the broker, and is refused.
"""

from __future__ import annotations

from mqcore.controller.cluster_commands import (
    BrokerDisconnected,
    Heartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
    UnregisterBroker,
)
from mqcore.controller.elections import change, changes_with, changes_without
from mqcore.controller.facts import (
    BrokerChanged,
    BrokerContacted,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerFact,
    PartitionChanged,
)
from mqcore.controller.image import ClusterImage
from mqcore.controller.sessions import ControllerRules, Sessions
from mqcore.identity import BrokerId, Millis, Offset
from mqcore.wire.errors import ErrorCode, Refusal


def decide_register(
    image: ClusterImage, sessions: Sessions, rules: ControllerRules, command: RegisterBroker, now_ms: int
) -> tuple[list[ControllerFact], Registered | Refusal]:
    before = image.brokers.get(command.broker)
    facts: list[ControllerFact] = []
    if before is not None and not command.is_only_broker:
        if before.incarnation == command.incarnation and before.endpoints == command.endpoints:
            return [], Registered(before.broker_epoch)  # the answer was lost, and the broker asks again
        refusal = _duplicate(before, command, sessions.is_live(command.broker, now_ms))
        has_lost_disk = bool(before.directories) and not set(before.directories) & set(command.directories)
        if refusal is None and has_lost_disk:
            refusal = _without_replacement(image, command.broker)
        if refusal is not None:
            return [], refusal
        # its earlier life leads nothing and is in sync nowhere
        facts += changes_without(image, command.broker, has_lost_disk=has_lost_disk)
    offset = sessions.next_offset + len(facts)
    epoch = offset if before is None else max(offset, before.broker_epoch + 1)  # older versions counted registrations
    registered = BrokerRegistered(
        command.broker,
        command.incarnation,
        epoch,
        command.endpoints,
        command.rack,
        fenced=not command.is_only_broker,
        directories=command.directories,
    )
    facts.append(registered)
    if command.is_only_broker:
        facts += _leads_again(image, command.broker)
    else:
        facts.append(_contact(registered, rules.session_ms, now_ms, applied=0))
    return facts, Registered(epoch)


def _duplicate(before: BrokerRegistered, command: RegisterBroker, is_live: bool) -> Refusal | None:
    """Why this registration must not replace the one before; None if it may.

    A later start of the same folder replaces the earlier one at once: both cannot run, because a folder has a lock. An
    earlier start is a message of a dead process that comes late. Another folder has to wait until the session ends.
    """
    if set(before.directories) & set(command.directories):
        is_later = command.incarnation.int >> 64 > before.incarnation.int >> 64
        if is_later or command.incarnation == before.incarnation:
            return None
        return Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "a later start of this broker is already registered")
    if not before.directories or before.in_controlled_shutdown or not is_live:
        return None  # without directories: an older version registered it, in a cluster of one
    return Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another broker is registered with this broker id")


def _without_replacement(image: ClusterImage, broker: BrokerId) -> Refusal | None:
    """Why a broker with an empty disk must wait: it was the last one in sync, and no other replica is active yet.

    Otherwise it would lead an empty log, and the other replicas would cut theirs."""
    for topic, partition in image.partitions():
        others = [other for other in partition.replicas if other != broker and other in image.brokers]
        if partition.isr == (broker,) and others and not any(map(image.is_active, others)):
            why = f"this broker has lost its disk and was the last one in sync for {topic.name}-{partition.index}: "
            why += f"one of the brokers {others} must be active first, or all of them unregistered"
            return Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, why)
    return None


def _leads_again(image: ClusterImage, broker: BrokerId) -> list[PartitionChanged]:
    """The only broker leads its partitions in a new epoch, because it may have lost what it wrote last."""
    facts = []
    for topic, partition in image.partitions():
        if partition.replicas == (broker,):
            isr = None if partition.isr == (broker,) else (broker,)
            facts.append(PartitionChanged(topic.id, partition.index, broker, isr))
        elif broker in partition.replicas:  # left by brokers that are gone
            fact = change(topic.id, partition, lambda other: other == broker)
            if fact is not None:
                facts.append(fact)
    return facts


def decide_heartbeat(
    image: ClusterImage, sessions: Sessions, rules: ControllerRules, command: Heartbeat, now_ms: int
) -> tuple[list[ControllerFact], HeartbeatAnswer | Refusal]:
    broker = image.brokers.get(command.broker)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        return [], stale_broker_epoch(command.broker, command.broker_epoch, image)
    is_caught_up = command.applied > broker.broker_epoch  # its registration is in effect there
    facts: list[ControllerFact] = [_contact(broker, rules.session_ms, now_ms, command.applied)]
    if command.wants_shutdown:
        changes, should_shut_down = _leave(image, sessions, broker, command)
        is_fenced = broker.fenced or should_shut_down
        facts += changes
        return facts, HeartbeatAnswer(is_caught_up, is_fenced, should_shut_down)
    stays_fenced = broker.fenced and (broker.in_controlled_shutdown or not is_caught_up)
    is_fenced = command.wants_fence or stays_fenced
    if is_fenced and not broker.fenced:
        facts += fence(image, broker)
    elif broker.fenced and not is_fenced:
        facts.append(BrokerChanged(broker.broker, broker.broker_epoch, fenced=False))
        facts += changes_with(image, broker.broker)
    return facts, HeartbeatAnswer(is_caught_up, is_fenced, should_shut_down=False)


def _leave(
    image: ClusterImage, sessions: Sessions, broker: BrokerRegistered, command: Heartbeat
) -> tuple[list[ControllerFact], bool]:
    """The next step of a controlled shutdown, and whether the broker may stop now."""
    if broker.fenced:
        return [], True
    if not broker.in_controlled_shutdown and not command.wants_fence:
        leaving = BrokerChanged(broker.broker, broker.broker_epoch, enters_controlled_shutdown=True)
        return [*changes_without(image, broker.broker), leaving], False
    leads = any(partition.leader == broker.broker for _, partition in image.partitions())
    if command.wants_fence or (not leads and sessions.may_leave(broker.broker, image)):
        return fence(image, broker), True
    return [], False


def fence(image: ClusterImage, broker: BrokerRegistered) -> list[ControllerFact]:
    changes = changes_without(image, broker.broker)
    return [*changes, BrokerChanged(broker.broker, broker.broker_epoch, fenced=True)]


def decide_disconnected(
    image: ClusterImage, sessions: Sessions, rules: ControllerRules, command: BrokerDisconnected, now_ms: int
) -> list[ControllerFact]:
    """A process that dies closes its connections. A broker that lives connects again within the grace."""
    broker = image.brokers.get(command.broker)
    if broker is None or broker.broker_epoch != command.broker_epoch or not sessions.is_live(broker.broker, now_ms):
        return []
    grace_ms = min(rules.disconnect_grace_ms, sessions.ends_at(broker.broker) - now_ms)
    return [_contact(broker, grace_ms, now_ms, sessions.applied.get(broker.broker, 0))]


def decide_unregister(
    image: ClusterImage, command: UnregisterBroker
) -> tuple[list[ControllerFact], tuple[()] | Refusal]:
    broker = image.brokers.get(command.broker)
    if broker is None:
        why = f"broker {command.broker} is not registered"
        return [], Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, why)
    changes = changes_without(image, command.broker)
    return [*changes, BrokerUnregistered(command.broker, broker.broker_epoch)], ()


def stale_broker_epoch(broker: BrokerId, broker_epoch: int, image: ClusterImage) -> Refusal:
    registered = image.brokers.get(broker)
    present = "not registered" if registered is None else f"registered with epoch {registered.broker_epoch}"
    return Refusal(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker} is {present}, the request says {broker_epoch}")


def _contact(broker: BrokerRegistered, session_ms: int, now_ms: int, applied: int) -> BrokerContacted:
    return BrokerContacted(broker.broker, Millis(now_ms + session_ms), Offset(applied))
