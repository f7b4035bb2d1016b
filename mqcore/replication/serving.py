"""Shell: serves the fetches of followers: opens and finds their sessions, and answers all of them when this broker
leads one more partition."""

from __future__ import annotations

from typing import Final

from mqcore.host import Clock
from mqcore.identity import BrokerId
from mqcore.partitions.hosted import HostedPartitions
from mqcore.replication.fetch_session import FetchSession, OnAnswer, ReplicaAnswer
from mqcore.wire.errors import ErrorCode
from mqcore.wire.fetch import FetchRequest

NEW_LEADER_ANSWERS_MS: Final = (10, 100)
"""After a new term has begun here. The second one is for followers that are slow to hear of it."""

NEW_SESSION: Final = 0
"""The session epoch of a request that opens a session. −1, by which a client closes one, opens one here, too."""


class ReplicaFetches:
    """`listener` is the only one on which a client may fetch as a follower."""

    def __init__(self, partitions: HostedPartitions, clock: Clock, listener: str, response_bytes_max: int) -> None:
        self.listener = listener
        self.sessions: dict[BrokerId, FetchSession] = {}
        self._partitions = partitions
        self._clock = clock
        self._response_bytes_max = response_bytes_max
        self._last_id = 0
        self._is_leading_more = False

    def begin_to_lead(self) -> None:
        """This broker leads one more partition. Followers whose requests wait here cannot ask for it before they have
        an answer, so they get one when the metadata have reached them, too."""
        if not self._is_leading_more:
            self._is_leading_more = True
            for delay_ms in NEW_LEADER_ANSWERS_MS:
                self._clock.call_later(delay_ms, self._answer_all)

    def _answer_all(self) -> None:
        self._is_leading_more = False
        for session in list(self.sessions.values()):
            session.answer()

    def serve(self, request: FetchRequest, on_answer: OnAnswer) -> FetchSession | None:
        """Call `on_answer` once: now, or later, unless the returned session is dropped before."""
        session = self._find(request) if request.session_epoch > NEW_SESSION else self._open(request)
        if isinstance(session, ErrorCode):
            on_answer(ReplicaAnswer([], error=session))
            return None
        session.serve(request, on_answer)
        return session if session.is_waiting else None

    def _find(self, request: FetchRequest) -> FetchSession | ErrorCode:
        session = self.sessions.get(BrokerId(request.replica_id))
        if session is None or (session.id, session.broker_epoch) != (request.session_id, request.replica_epoch):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return session if session.epoch == request.session_epoch else ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def _open(self, request: FetchRequest) -> FetchSession | ErrorCode:
        """A new session replaces the follower's old one, unless the request comes from an earlier life of it."""
        replica = BrokerId(request.replica_id)
        old = self.sessions.get(replica)
        if old is not None and request.replica_epoch < old.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if old is not None:
            old.answer()
            self.drop(old)
        self._last_id += 1
        session = FetchSession(self._last_id, request, self._partitions, self._clock, self._response_bytes_max)
        self.sessions[replica] = session
        return session

    def drop(self, session: FetchSession) -> None:
        """The connection of a follower is gone, or it has opened another session."""
        session.close()
        if self.sessions.get(session.replica) is session:
            del self.sessions[session.replica]
