"""Clients that work beside the writers: one commits offsets, one creates and deletes a topic, one asks for log ends."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mqcore.wire.errors import ErrorCode
from tests.simulation.cluster.clients import RETRY_MS, Client

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, DELETE_TOPICS = (2, 4), (8, 6), (9, 4), (10, 2), (20, 3)
LATEST = -1
ADD_RAFT_VOTER = (80, 0)
PAUSE_MS, ADOPT_EVERY_MS = 80, 700


class OffsetCommitter(Client):
    """Commits one offset after the other for a group, and reads each one back. A retry may be applied twice, but
    never after a later commit was answered."""

    def __init__(self, *arguments: Any, topic: str) -> None:
        super().__init__(*arguments)
        self.topic = topic
        self.committed = 0
        self.tried = 0
        self.faults: list[str] = []
        self._coordinator = -1
        self._is_stopping = False

    @property
    def group(self) -> str:
        return self.process.name

    def start(self) -> None:
        self._find()

    def stop(self) -> None:
        self._is_stopping = True

    @property
    def is_done(self) -> bool:
        return self._is_stopping and self.committed == self.tried

    def _find(self) -> None:
        def on_found(answer: Any) -> None:
            if answer is None or answer.error_code:
                self.later(RETRY_MS, self._find)
                return
            self._coordinator = answer.node_id
            self._fetch()

        self.send(self.any_node(), FIND_COORDINATOR, on_found, key=self.group, key_type=0)

    def _fetch(self) -> None:
        def on_fetched(answer: Any) -> None:
            if answer is None or answer.error_code or answer.topics[0].partitions[0].error_code:
                self.later(RETRY_MS, self._find)
                return
            found = max(0, answer.topics[0].partitions[0].committed_offset)
            if not self.committed <= found <= self.tried:
                self.faults.append(f"{found} is committed, not {self.committed} to {self.tried}")
            self._commit()

        topics = [{"name": self.topic, "partition_indexes": [0]}]
        self.send(self._coordinator, OFFSET_FETCH, on_fetched, group_id=self.group, topics=topics)

    def _commit(self) -> None:
        if self.committed == self.tried:
            if self._is_stopping:
                return
            self.tried += 1
        offset = self.tried

        def on_committed(answer: Any) -> None:
            if answer is None or answer.topics[0].partitions[0].error_code:
                self.later(RETRY_MS, self._find)
                return
            self.committed = offset
            self.later(self.random.randrange(PAUSE_MS), self._fetch)

        place = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        self.send(
            self._coordinator,
            OFFSET_COMMIT,
            on_committed,
            group_id=self.group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": self.topic, "partitions": [place]}],
        )


class TopicChurner(Client):
    """Creates and deletes a topic of one name again and again."""

    def __init__(self, *arguments: Any, topic: str) -> None:
        super().__init__(*arguments)
        self.topic = topic
        self.created = 0
        self._is_stopping = self.is_done = False

    def start(self) -> None:
        self.create_topic(self.topic, 1, {}, self._on_created)

    def stop(self) -> None:
        self._is_stopping = True

    def _on_created(self) -> None:
        self.created += 1
        self.later(self.random.randrange(1000), self._delete)

    def _delete(self) -> None:
        def on_deleted(answer: Any) -> None:
            error = None if answer is None else answer.responses[0].error_code
            if error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self.later(RETRY_MS, self._delete)
            elif self._is_stopping:
                self.is_done = True
            else:
                self.later(self.random.randrange(300), self.start)

        self.send(self.any_node(), DELETE_TOPICS, on_deleted, topic_names=[self.topic], timeout_ms=1000)


class Operator(Client):
    """Lets nodes that have lost their disk vote again."""

    def __init__(self, *arguments: Any, adopting: dict[int, UUID]) -> None:
        super().__init__(*arguments)
        self.adopting = adopting

    def start(self) -> None:
        for number, directory_id in self.adopting.items():
            self._adopt(number, directory_id)
        self.later(ADOPT_EVERY_MS, self.start)

    def _adopt(self, number: int, directory_id: UUID) -> None:
        def on_adopted(answer: Any) -> None:
            if answer is not None and not answer.error_code:
                self.adopting.pop(number, None)

        self.send(
            self.any_node(),
            ADD_RAFT_VOTER,
            on_adopted,
            cluster_id=None,
            timeout_ms=1000,
            voter_id=number,
            voter_directory_id=directory_id,
            listeners=[],
        )


class EndWatcher(Client):
    """Asks leaders where partitions end. The answer must never be smaller than one before, across elections too."""

    def __init__(self, *arguments: Any, topic: str, partitions: int) -> None:
        super().__init__(*arguments)
        self.topic, self.partitions = topic, partitions
        self.ends: dict[int, int] = {}
        self.faults: list[str] = []

    def start(self) -> None:
        for partition in range(self.partitions):
            self._learn(partition)

    def _learn(self, partition: int) -> None:
        self.learn_leaders(self.topic, lambda: self._ask(partition))

    def _ask(self, partition: int) -> None:
        leader = self.leaders.get(partition, -1)
        if leader < 0:
            self.later(RETRY_MS, lambda: self._learn(partition))
            return

        def on_end(answer: Any) -> None:
            found = None if answer is None else answer.topics[0].partitions[0]
            if found is None or found.error_code:
                self.later(RETRY_MS, lambda: self._learn(partition))
                return
            if found.offset < self.ends.get(partition, 0):
                self.faults.append(f"partition {partition} ends at {found.offset} after {self.ends[partition]}")
            self.ends[partition] = found.offset
            self.later(self.random.randrange(2 * PAUSE_MS), lambda: self._ask(partition))

        place = {"partition_index": partition, "current_leader_epoch": self._epochs[partition], "timestamp": LATEST}
        topics = [{"name": self.topic, "partitions": [place]}]
        self.send(leader, LIST_OFFSETS, on_end, replica_id=-1, isolation_level=0, topics=topics)
