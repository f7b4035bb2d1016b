"""Defects that are put into the controller on purpose, to show that something notices each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from mqcore.controller import elections, in_sync, membership, setting_layers
from mqcore.controller.cluster_commands import Election, Registered
from mqcore.controller.facts import BrokerRegistered, MetadataFact, PartitionChanged, PartitionCreated
from mqcore.controller.image import ClusterImage
from mqcore.controller.lifecycle import BrokerLifecycle
from mqcore.controller.sessions import Sessions
from tests.simulation.controller import sim_broker
from tests.unit.mqcore.controller import test_activation, test_in_sync, test_membership
from tests.unit.mqcore.controller.test_activation import with_min_isr_2
from tests.unit.mqcore.controller.test_in_sync import one_behind

Patch = Callable[[pytest.MonkeyPatch], None]


class Directed(NamedTuple):
    test: Callable[..., None]
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True)
class SeededBug:
    """`directed` gives the test that finds it, with its arguments. None if the simulation finds it."""

    name: str
    broken: str
    put_in: Patch
    directed: Callable[[], Directed] | None = None

    @property
    def found_by(self) -> str:
        return "simulation" if self.directed is None else self.directed().test.__name__


def min_isr_from_the_file(patch: pytest.MonkeyPatch) -> None:
    right = setting_layers.effective_settings
    patch.setattr(
        sim_broker,
        "effective_settings",
        lambda configs, image, broker, file: {**right(configs, image, broker, file), **file},
    )


def cluster_wide_settings_are_ordinary(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(setting_layers, "CLUSTER_WIDE", frozenset())


def no_broker_epoch_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    right = in_sync._ineligible
    patch.setattr(in_sync, "_ineligible", lambda image, member, epoch: right(image, member, -1))


def late_request_to_a_controller_elected_again(patch: pytest.MonkeyPatch) -> None:
    right = in_sync.decide_alter_partition
    patch.setattr(
        in_sync,
        "decide_alter_partition",
        lambda image, epoch, command: right(image, epoch, command._replace(controller_epoch=-1)),
    )


def strays_before_the_metadata_are_applied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerLifecycle, "knows_its_replicas", lambda self, applied: True)


def snapshot_forgets(kind: type, **fields: Any) -> Patch:
    """The snapshot has the facts of a kind with default values in some fields."""

    def put_in(patch: pytest.MonkeyPatch) -> None:
        right = ClusterImage.facts

        def facts(self: ClusterImage) -> Iterator[MetadataFact]:
            for fact in right(self):
                yield _with(fact, fields) if isinstance(fact, kind) else fact

        patch.setattr(ClusterImage, "facts", facts)

    return put_in


def _with(fact: Any, fields: dict[str, Any]) -> MetadataFact:
    changed: MetadataFact = fact._replace(**fields)
    return changed


def any_registration_is_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(membership, "_duplicate", lambda before, command, is_live: None)


def the_earlier_life_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    right = membership.decide_register

    def decide(image, sessions, rules, command, now_ms):  # type: ignore[no-untyped-def]
        facts, answer = right(image, sessions, rules, command, now_ms)
        kept = [fact for fact in facts if not isinstance(fact, PartitionChanged)]
        if len(kept) < len(facts):
            answer = Registered(sessions.next_offset)
            kept = [
                fact._replace(broker_epoch=sessions.next_offset) if isinstance(fact, BrokerRegistered) else fact
                for fact in kept
            ]
        return kept, answer

    patch.setattr(membership, "decide_register", decide)


def epochs_count_registrations(patch: pytest.MonkeyPatch) -> None:
    right = membership.decide_register

    def decide(image, sessions, rules, command, now_ms):  # type: ignore[no-untyped-def]
        facts, answer = right(image, sessions, rules, command, now_ms)
        before = image.brokers.get(command.broker)
        epoch = 1 if before is None else before.broker_epoch + 1
        if not facts or not isinstance(answer, Registered):
            return facts, answer
        return [
            fact._replace(broker_epoch=epoch) if isinstance(fact, BrokerRegistered) else fact for fact in facts
        ], Registered(epoch)

    patch.setattr(membership, "decide_register", decide)


def heartbeats_of_an_earlier_life(patch: pytest.MonkeyPatch) -> None:
    right = membership.decide_heartbeat

    def decide(image, sessions, rules, command, now_ms):  # type: ignore[no-untyped-def]
        known = image.brokers.get(command.broker)
        epoch = known.broker_epoch if known else command.broker_epoch
        return right(image, sessions, rules, command._replace(broker_epoch=epoch), now_ms)

    patch.setattr(membership, "decide_heartbeat", decide)


def leaders_out_of_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections, "election_of", lambda image, topic: Election.UNCLEAN)


def a_fenced_broker_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(membership, "changes_without", lambda image, broker: iter(()))


def _accept(patch: pytest.MonkeyPatch, field: str) -> None:
    right = in_sync._refusal
    patch.setattr(
        in_sync,
        "_refusal",
        lambda image, broker, partition, proposal: right(
            image, broker, partition, proposal._replace(**{field: getattr(partition, field)})
        ),
    )


def no_sessions_after_an_election(patch: pytest.MonkeyPatch) -> None:
    right = Sessions._activate

    def activate(self, fact, image):  # type: ignore[no-untyped-def]
        right(self, fact, image)
        self._until = {}

    patch.setattr(Sessions, "_activate", activate)


BUGS: list[SeededBug] = [
    SeededBug("M9", "min.insync.replicas is that of the broker's file", min_isr_from_the_file),
    SeededBug(
        "M9b",
        "min.insync.replicas may differ from broker to broker",
        cluster_wide_settings_are_ordinary,
        lambda: Directed(
            test_activation.test_a_value_for_one_broker_from_an_older_version_does_not_count, (with_min_isr_2(),)
        ),
    ),
    SeededBug(
        "M19",
        "a replica joins the ISR whichever life of it the leader means",
        no_broker_epoch_in_the_isr,
        lambda: Directed(
            test_in_sync.test_a_replica_that_was_registered_again_meanwhile_does_not_join, (one_behind(),)
        ),
    ),
    SeededBug(
        "M20",
        "a controller elected again applies an AlterPartition from before",
        late_request_to_a_controller_elected_again,
        lambda: Directed(test_in_sync.test_a_controller_elected_again_refuses_a_proposal_from_before, (one_behind(),)),
    ),
    SeededBug("M21", "strays are put aside before the metadata are applied", strays_before_the_metadata_are_applied),
    SeededBug("K1", "a snapshot forgets which brokers are fenced", snapshot_forgets(BrokerRegistered, fenced=False)),
    SeededBug("K2", "a snapshot forgets a reassignment", snapshot_forgets(PartitionCreated, adding=(), removing=())),
    SeededBug(
        "K3",
        "a late registration of a dead process takes the broker id",
        any_registration_is_accepted,
        lambda: Directed(
            test_membership.test_a_late_registration_of_an_earlier_start_does_not_take_the_broker_id, (False,)
        ),
    ),
    SeededBug("K4", "a registration leaves the earlier life of the broker in sync", the_earlier_life_is_not_fenced),
    SeededBug("K5", "broker epochs count registrations, so they are used twice", epochs_count_registrations),
    SeededBug("K6", "a heartbeat of an earlier life counts", heartbeats_of_an_earlier_life),
    SeededBug("K7", "any active replica is elected, in sync or not", leaders_out_of_sync),
    SeededBug("K8", "a broker that is fenced stays in sync", a_fenced_broker_stays_in_sync),
    SeededBug(
        "K9",
        "AlterPartition ignores the partition epoch",
        lambda patch: _accept(patch, "partition_epoch"),
        lambda: Directed(
            test_in_sync.test_a_proposal_from_before_a_fencing_does_not_bring_the_fenced_replica_back, (one_behind(),)
        ),
    ),
    SeededBug(
        "K10",
        "AlterPartition ignores the leader epoch",
        lambda patch: _accept(patch, "leader_epoch"),
        lambda: Directed(test_in_sync.test_a_leader_of_an_earlier_epoch_is_fenced, (one_behind(),)),
    ),
    SeededBug("K11", "a new controller watches no broker", no_sessions_after_an_election),
]
