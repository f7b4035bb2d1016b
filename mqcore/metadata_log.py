"""Shell: opens the metadata log of a broker: its part of the quorum, and the observer that has replayed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqcore.config import BrokerConfig
from mqcore.controller.observer import MetadataObserver
from mqcore.coordination.journal import JournalFault
from mqcore.data_folder import FILE, FolderIdentity
from mqcore.disk.port import Disk
from mqcore.host import Chance, World
from mqcore.identity import BrokerId
from mqcore.log.errors import LogFault
from mqcore.partitions.flusher import Flusher
from mqcore.raft import founding
from mqcore.raft.messages import VoterKey
from mqcore.raft.quorum import Quorum
from mqcore.raft.quorum_file import BadQuorumFile
from mqcore.raft.ready import QuorumRules
from mqcore.raft.snapshots import DamagedSnapshot
from mqcore.wire.batches import BadBatch
from mqcore.wire.frames import BadFrame

if TYPE_CHECKING:
    from mqcore.raft.senders import Senders


class CannotStart(Exception):
    """The broker's own log cannot be used; the text says why."""


def check_formatted(config: BrokerConfig, disk: Disk) -> None:
    """Only a broker that is alone may begin in a new folder: two new nodes must never found a second cluster."""
    if len(config.voters()) > 1 and not disk.exists(FILE):
        raise CannotStart(f"the data folder {config.log_dirs} {founding.NOT_FORMATTED}")


def open_quorum(
    config: BrokerConfig,
    world: World,
    folder: FolderIdentity,
    flusher: Flusher,
    on_failure: Callable[[Exception], None],
    *,
    is_clean: bool,
) -> Quorum:
    voters = config.voters()
    rules = QuorumRules(
        frozenset(map(BrokerId, voters or (config.node_id,))),
        config.controller_quorum_fetch_timeout_ms,
        config.controller_quorum_election_timeout_ms,
    )
    others = _other_voters(config, world, folder.cluster_id, rules)
    try:
        quorum = Quorum(
            VoterKey(BrokerId(config.node_id), folder.directory_id),
            rules,
            world.disk,
            world.clock,
            world.threads,
            lambda: _random(world.chance),
            _nobody_else if others is None else others.send,
            flusher.request_sync,
            on_failure,
            is_clean=is_clean,
        )
        if others is not None:
            quorum.lost_nodes = others.lost_nodes
        return quorum
    except founding.UnusableFolder as fault:
        raise CannotStart(f"the data folder {config.log_dirs} {fault}") from fault
    except (OSError, LogFault, BadQuorumFile, DamagedSnapshot, BadBatch) as fault:
        raise CannotStart(f"the metadata log cannot be opened: {fault}") from fault


def replay_metadata(quorum: Quorum, world: World) -> MetadataObserver:
    observer = MetadataObserver(quorum, world.clock)
    try:
        observer.start()
    except (BadFrame, JournalFault, DamagedSnapshot) as fault:  # perhaps a newer version wrote it
        raise CannotStart(f"the metadata log cannot be understood: {fault}") from fault
    return observer


def _random(chance: Chance) -> float:
    return chance.new_uuid().int / (1 << 128)


def _other_voters(config: BrokerConfig, world: World, cluster_id: str, rules: QuorumRules) -> Senders | None:
    """The import is here because the only voter sends nothing, and starts faster without it."""
    if len(rules.node_ids) == 1:
        return None
    from mqcore.raft.senders import Senders

    addresses = {BrokerId(node): (address.host, address.port) for node, address in config.voters().items()}
    return Senders(world.clock, world.network, addresses, config.node_id, cluster_id, rules)


def _nobody_else(node: BrokerId, request: object, on_outcome: object) -> None:
    raise AssertionError(f"the only voter has nothing to ask node {node}")
