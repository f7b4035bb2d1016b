"""Machine: what the leader commits, what it answers to fetches, and when it resigns.

Own rules:
* The watermark follows what a majority of the voters has durably, the leader included, and moves only past a record of
  the leader's own epoch (Raft 5.4.2).
* In a pull protocol a leader that is cut off hears nothing. So it resigns unless a majority has fetched with progress
  within the fetch timeout; a follower that cannot store what it is sent does not support a leader.
* The voter set changes by one node at a time, and only when the last change is committed.
"""

from __future__ import annotations

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.raft import serving
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Ticket,
    VoterKey,
    majority,
    voter_set,
)
from mqcore.raft.ready import Adopt, Answer, AppendLeaderChange, AppendVoters, LogView, Ready, Send
from mqcore.raft.state import Election, Leader, Progress, Resigned, WaitingFetch
from mqcore.raft.view import View
from mqcore.wire.errors import ErrorCode

REPLICAS_MAX = 16
"""How many replicas a leader remembers, so that requests under made-up names cannot fill its memory. The fetches of
others do not wait."""


def become_leader(view: View, election: Election, granted: frozenset[BrokerId]) -> Ready:
    begin_at = view.after(view.rules.fetch_timeout_ms / 2)
    role = Leader(view.log.end, view.now, begin_at, {})
    keys = tuple(key for key in view.log.voters.values() if key.id in granted)
    sends = _begin_requests(view, election.epoch, role)
    return view.step(role, election._replace(leader=view.me.id), log=AppendLeaderChange(keys), sends=sends)


def _begin_requests(view: View, epoch: LeaderEpoch, role: Leader) -> tuple[Send, ...]:
    """To the voters that have not fetched lately, or never."""
    since = view.now - view.rules.fetch_timeout_ms / 2
    return tuple(
        Send(peer.id, BeginQuorumEpochRequest(epoch, view.me.id, peer))
        for peer in view.peers
        if peer not in role.progress or role.progress[peer].progressed_at < since
    )


def resign(view: View, role: Leader) -> Ready:
    by_end = sorted(view.peers, key=lambda peer: _end_of_replica(role, peer), reverse=True)
    request = EndQuorumEpochRequest(view.epoch, view.me.id, tuple(peer.id for peer in by_end))
    return view.step(Resigned(view.election_deadline()), sends=tuple(Send(peer.id, request) for peer in by_end))


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


def check_deadlines(view: View, role: Leader) -> Ready:
    if has_lost_quorum(view, role):
        return resign(view, role)
    due = [fetch for fetch in role.waiting if view.now >= fetch.until]
    waiting = tuple(fetch for fetch in role.waiting if fetch not in due)
    answers = tuple(Answer(fetch.ticket, serving.fetch_response(view, fetch.request)) for fetch in due)
    role = role._replace(waiting=waiting)
    if view.now < role.begin_at:
        return view.step(role, answers=answers)
    sends = _begin_requests(view, view.epoch, role)
    role = role._replace(begin_at=view.after(view.rules.fetch_timeout_ms / 2))
    return view.step(role, sends=sends, answers=answers)


def has_lost_quorum(view: View, role: Leader) -> bool:
    deadline = quorum_deadline(view, role)
    return deadline is not None and view.now >= deadline


def quorum_deadline(view: View, role: Leader) -> Millis | None:
    """When the leader resigns unless more voters fetch. None if it is a majority alone."""
    needed = majority(view.log.voters) - 1
    if needed <= 0:
        return None
    times = [role.progress[peer].progressed_at if peer in role.progress else role.elected_at for peer in view.peers]
    return Millis(sorted(times, reverse=True)[needed - 1] + view.rules.fetch_timeout_ms)


def next_deadline(view: View, role: Leader) -> Millis | None:
    times = [
        quorum_deadline(view, role),
        role.begin_at if view.peers else None,
        *(fetch.until for fetch in role.waiting),
    ]
    return min((time for time in times if time is not None), default=None)


# ── the commit ───────────────────────────────────────────────────────────────────────────────────


def log_moved(view: View, role: Leader) -> Ready:
    """More is appended or durable: commit, and answer the fetches that this has news for."""
    watermark = max(view.state.high_watermark, committed_end(view, role))
    answers: list[Answer] = []
    waiting: list[WaitingFetch] = []
    progress = dict(role.progress)
    for fetch in role.waiting:
        response = serving.fetch_response(view, fetch.request)._replace(high_watermark=watermark)
        if serving.is_news(fetch.request, response):
            answers.append(Answer(fetch.ticket, response))
            if fetch.request.replica in progress:
                replica = progress[fetch.request.replica]
                progress[replica.key] = replica._replace(was_sent=serving.is_sent(response))
        else:
            waiting.append(fetch)
    role = role._replace(waiting=tuple(waiting), progress=progress)
    return view.step(role, high_watermark=watermark, answers=tuple(answers))


def committed_end(view: View, role: Leader) -> int:
    voters = view.log.voters
    ends = [own_end(view.log) if key == view.me else _end_of_replica(role, key) for key in voters.values()]
    end = sorted(ends, reverse=True)[majority(voters) - 1]
    return end if is_own_epoch(end, role) else 0


def own_end(log: LogView) -> int:
    return log.durable


def is_own_epoch(end: int, role: Leader) -> bool:
    return end > role.epoch_start


def may_append(log: LogView) -> bool:
    """Whether no batch waits for its sync. A power loss tears at most the last batch then, which recovery can cut."""
    return log.durable == log.end


def _end_of_replica(role: Leader, key: VoterKey) -> int:
    return role.progress[key].end if key in role.progress else 0


# ── fetches ──────────────────────────────────────────────────────────────────────────────────────


def answer_fetch(view: View, ticket: Ticket, request: FetchRequest) -> Ready:
    role = view.state.role
    if not isinstance(role, Leader) or request.epoch != view.epoch:
        error = _error_for(view, request.epoch)
        return view.unchanged(answers=(Answer(ticket, FetchResponse(error, view.epoch, view.leader)),))
    role = _note_fetch(view, role, request)
    superseded = [fetch for fetch in role.waiting if fetch.request.replica == request.replica]
    others = [fetch for fetch in role.waiting if fetch not in superseded]
    until = view.after(view.rules.fetch_wait_ms) if request.replica in role.progress else view.now
    ready = log_moved(view, role._replace(waiting=(*others, WaitingFetch(ticket, request, until))))
    answers = tuple(Answer(fetch.ticket, serving.fetch_response(view, fetch.request)) for fetch in superseded)
    ready = ready._replace(answers=answers + ready.answers)
    voters = _voters_with(view, ready, request)
    return ready if voters is None else ready._replace(log=AppendVoters(voter_set(voters)))


def answer_fetch_snapshot(view: View, ticket: Ticket, request: FetchSnapshotRequest) -> Ready:
    role = view.state.role
    if not isinstance(role, Leader) or request.epoch != view.epoch:
        error = _error_for(view, request.epoch)
        return view.unchanged(answers=(Answer(ticket, FetchSnapshotResponse(error, view.epoch, view.leader)),))
    if request.snapshot != view.log.snapshot:
        response = FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, view.epoch, view.leader)
        return view.unchanged(answers=(Answer(ticket, response),))
    old = role.progress.get(request.replica)
    if old is not None:
        role = _with_progress(
            role, old._replace(asked=request, progressed_at=serving.progress_time(view, old, request), was_sent=True)
        )
    response = FetchSnapshotResponse(ErrorCode.NONE, view.epoch, view.leader, request.snapshot, request.position)
    return view.step(role, answers=(Answer(ticket, response),))


def _error_for(view: View, epoch: LeaderEpoch) -> ErrorCode:
    if not isinstance(view.state.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < view.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _note_fetch(view: View, role: Leader, request: FetchRequest) -> Leader:
    """Remember what the replica has. A position that is not in the leader's log acknowledges nothing."""
    key = request.replica
    old = role.progress.get(key)
    end = request.offset if serving.mismatch(view.log, request) is None else 0
    time = view.now if old is None else serving.progress_time(view, old, request)
    if old is None and len(role.progress) >= REPLICAS_MAX and key not in view.log.voters.values():
        return role
    return _with_progress(role, Progress(key, end, time, request))


def _with_progress(role: Leader, progress: Progress) -> Leader:
    return role._replace(progress={**role.progress, progress.key: progress})


# ── the voter set ────────────────────────────────────────────────────────────────────────────────


def _voters_with(view: View, ready: Ready, request: FetchRequest) -> list[VoterKey] | None:
    """The voter set with the fetching node, if that is to become a voter now: it is configured as one, no directory
    has been a voter under its id yet, and it has caught up."""
    key, voters = request.replica, view.log.voters
    if key.id not in view.rules.node_ids or key.id in voters or not _has_caught_up(ready, key):
        return None
    return [*voters.values(), key] if may_change_voters(view, ready) else None


def may_change_voters(view: View, ready: Ready) -> bool:
    role, watermark = ready.state.role, ready.state.high_watermark
    assert isinstance(role, Leader)
    is_settled = is_own_epoch(watermark, role) and watermark > view.log.voters_offset
    return is_settled and may_append(view.log)


def _has_caught_up(ready: Ready, key: VoterKey) -> bool:
    role = ready.state.role
    return isinstance(role, Leader) and _end_of_replica(role, key) >= max(1, ready.state.high_watermark)


def adopt(view: View, request: Adopt) -> Ready:
    """Remove the lost directory of a voter. Its new one, which has caught up, becomes a voter like any other node once
    that is committed. In one step the old majority and the new one might have no voter in common."""
    key, voters = request.key, view.log.voters
    ready = view.unchanged()
    error = ErrorCode.NONE
    if not isinstance(view.state.role, Leader):
        error = ErrorCode.NOT_CONTROLLER
    elif key.id not in view.rules.node_ids or key.id == view.me.id or not _has_caught_up(ready, key):
        error = ErrorCode.INVALID_VOTER_KEY
    elif key.id in voters and voters[key.id] != key:
        if may_change_voters(view, ready):
            ready = ready._replace(
                log=AppendVoters(voter_set(voter for voter in voters.values() if voter.id != key.id))
            )
        else:
            error = ErrorCode.OPERATION_NOT_ATTEMPTED
    return ready._replace(answers=(Answer(request.ticket, EpochResponse(error, view.epoch, view.leader)),))
