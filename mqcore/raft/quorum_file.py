"""Store: `quorum-state`, Kafka's file for what a voter must not forget: its epoch, its vote, and the leader.

Own rule: a damaged file stops the start. A voter that guesses could vote twice in an epoch.
"""

from __future__ import annotations

import json
from typing import Final

from mqcore.disk.port import Disk
from mqcore.identity import NO_TOPIC_ID as NO_DIRECTORY
from mqcore.identity import BrokerId, LeaderEpoch, kafka_uuid, parse_kafka_uuid
from mqcore.raft.messages import VoterKey
from mqcore.raft.state import NO_ELECTION, Election

QUORUM_FILE: Final = "quorum-state"
_VERSION: Final = 1
_NOBODY: Final = -1


class BadQuorumFile(Exception):
    """The file cannot be used, because of `reason`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}. If the file is lost, remove the node's whole data folder and adopt the node again: "
            "a voter that does not know its votes could vote twice"
        )
        self.path = path
        self.reason = reason


def encode_election(election: Election) -> bytes:
    voted = election.voted
    fields = {
        "leaderId": _NOBODY if election.leader is None else election.leader,
        "leaderEpoch": election.epoch,
        "votedId": _NOBODY if voted is None else voted.id,
        "votedDirectoryId": kafka_uuid(NO_DIRECTORY if voted is None else voted.directory),
        "data_version": _VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_election(content: bytes) -> Election:
    """Raises ValueError if the content is damaged or has another version."""
    fields = json.loads(content)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    version = fields.get("data_version")
    if version != _VERSION:
        raise ValueError(f"data_version must be {_VERSION}, got {version!r}")
    leader, epoch, voted = (_integer(fields, name) for name in ("leaderId", "leaderEpoch", "votedId"))
    if epoch < 0:
        raise ValueError(f"leaderEpoch must not be negative, got {epoch}")
    directory = parse_kafka_uuid(str(fields.get("votedDirectoryId")))
    return Election(
        LeaderEpoch(epoch),
        None if voted == _NOBODY else VoterKey(BrokerId(voted), directory),
        None if leader == _NOBODY else BrokerId(leader),
    )


def _integer(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or value < _NOBODY:
        raise ValueError(f"{name} must be an integer of at least {_NOBODY}, got {value!r}")
    return value


class QuorumFile:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{QUORUM_FILE}"

    def read(self) -> Election:
        """Raises `BadQuorumFile`. A folder without the file has never voted."""
        try:
            return decode_election(self._disk.read_whole(self._path))
        except FileNotFoundError:
            return NO_ELECTION
        except ValueError as error:
            raise BadQuorumFile(self._path, str(error)) from error

    def write(self, election: Election) -> None:
        """Durable when it returns. A crash on the way leaves the old content or the new one."""
        self._disk.replace(self._path, encode_election(election))
