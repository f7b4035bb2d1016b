"""Machine: how a follower or an observer fetches the leader's log.

Own rules:
* At most one fetch is open, and none leaves while a part of the own log is not durable: a fetch acknowledges.
* A response counts only if it answers the open fetch.
* The log is cut by epochs (KIP-101, KIP-279), never by the watermark, and never below it.
"""

from __future__ import annotations

from mqcore.identity import BrokerId, LeaderEpoch, Millis
from mqcore.log.epochs import EpochEnd
from mqcore.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
)
from mqcore.raft.ready import AppendFetched, LogView, Ready, Send, StoreSnapshotPart, Truncate
from mqcore.raft.state import Election, Follower, Unattached
from mqcore.raft.view import View
from mqcore.wire.errors import ErrorCode

# ── finding and following a leader ───────────────────────────────────────────────────────────────


def find_leader(view: View) -> Ready:
    """Ask a random node for the leader, for nodes that must not stand: empty, suspect, or observers."""
    others = sorted(view.rules.node_ids - {view.me.id})
    if not others or not may_fetch(view.log):
        return view.step(Unattached(view.election_deadline()))
    node = others[int(view.random() * len(others))]
    request = _fetch_request(view)
    deadline = view.after(view.rules.retry_ms * (1 + view.random()))
    return view.step(Unattached(deadline), sends=(Send(node, request),))


def follow(view: View, epoch: LeaderEpoch, leader: BrokerId) -> Ready:
    election = view.state.election
    voted = election.voted if epoch == election.epoch else None
    role = Follower(leader, view.after(view.rules.fetch_timeout_ms))
    ready = view.step(role, Election(epoch, voted, leader))
    return view.following_up(ready, lambda view: fetch(view, role))


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def fetch(view: View, role: Follower) -> Ready:
    """Take `role`, and send the next fetch if nothing stands against it. More of the log may be committed now."""
    watermark = known_watermark(view, role)
    is_waiting = role.retry_at is not None and view.now < role.retry_at
    if role.asked is not None or is_waiting or not may_fetch(view.log):
        return view.step(role, high_watermark=watermark)
    request: FetchRequest | FetchSnapshotRequest
    if role.download is None:
        request = _fetch_request(view)._replace(high_watermark=watermark)
    else:
        snapshot, position = role.download
        request = FetchSnapshotRequest(view.epoch, view.me, snapshot, position)
    role = role._replace(asked=request, retry_at=None)
    return view.step(role, high_watermark=watermark, sends=(Send(role.leader, request),))


def may_fetch(log: LogView) -> bool:
    return log.durable == log.end


def known_watermark(view: View, role: Follower) -> int:
    """A leader tells its watermark only to a replica whose log it has found to be part of its own."""
    return max(view.state.high_watermark, min(role.leader_high_watermark, view.log.durable))


def _fetch_request(view: View) -> FetchRequest:
    log = view.log
    return FetchRequest(view.epoch, view.me, log.end, LeaderEpoch(log.last_epoch), view.state.high_watermark)


# ── what comes back ──────────────────────────────────────────────────────────────────────────────


def lose_request(view: View, request: Request) -> Ready:
    """The request has failed, or the shell could not store its answer. A snapshot is fetched from its beginning.

    A leader whose process died closes its connections, so the follower gives it less time from now on: a random time,
    because all followers notice at once. If the leader lives, the next fetch is answered; and if only this follower has
    lost it, the others refuse their pre-votes."""
    role = view.state.role
    if not isinstance(role, Follower) or request is not role.asked:
        return view.unchanged()
    deadline = min(role.deadline, _grace(view))
    retry_at = view.after(view.rules.retry_ms)
    return view.step(role._replace(asked=None, download=None, retry_at=retry_at, deadline=deadline))


def _grace(view: View) -> Millis:
    return view.after(view.rules.lost_request_grace_ms * (1 + view.random()))


def take_response(view: View, request: Request, response: FetchResponse | FetchSnapshotResponse) -> Ready:
    role = view.state.role
    if not isinstance(role, Follower) or request is not role.asked:
        return view.unchanged()
    if response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and response.epoch == view.epoch:
        return view.step(Unattached(_grace(view)))  # it has resigned or restarted
    if response.error is ErrorCode.SNAPSHOT_NOT_FOUND:
        return fetch(view, role._replace(asked=None, download=None))  # the leader has a newer one by now
    if response.error is not ErrorCode.NONE or response.epoch != view.epoch:
        return lose_request(view, request)
    role = role._replace(asked=None, retry_at=None, deadline=view.after(view.rules.fetch_timeout_ms))
    match response:
        case FetchResponse():
            return _take_fetched(view, role, response)
        case FetchSnapshotResponse():
            return _take_snapshot_part(view, role, response)


def _take_fetched(view: View, role: Follower, response: FetchResponse) -> Ready:
    if response.diverging is not None:
        end = truncation_point(view.log, response.diverging)
        if end < view.state.high_watermark:
            return _stop(view, f"leader {role.leader} asks to cut the log at {end}")
        return view.step(role, log=Truncate(end))
    if response.snapshot is not None:
        if response.snapshot.end < view.state.high_watermark:
            return _stop(
                view, f"leader {role.leader} asks to go back to a snapshot that ends at {response.snapshot.end}"
            )
        return fetch(view, role._replace(download=(response.snapshot, 0)))
    role = role._replace(leader_high_watermark=response.high_watermark)
    if response.records:
        return view.step(role, log=AppendFetched(response.records))
    return fetch(view, role)


def truncation_point(log: LogView, diverging: EpochEnd) -> int:
    """The logs cannot agree past the end of that epoch in either of them."""
    return max(0, min(log.end_of(diverging.epoch).end_offset, diverging.end_offset))


def _stop(view: View, reason: str) -> Ready:
    """A committed record would go, so this leader belongs to another cluster or has lost its disk."""
    alarm = f"{reason}, but everything below {view.state.high_watermark} is committed"
    return view.step(Unattached(view.election_deadline()), alarm=alarm)


def _take_snapshot_part(view: View, role: Follower, response: FetchSnapshotResponse) -> Ready:
    if role.download is None or (response.snapshot, response.position) != role.download:
        return fetch(view, role)
    snapshot, position = role.download
    end = position + len(response.data)
    is_last = end >= response.size
    download = None if is_last else (snapshot, end)
    part = StoreSnapshotPart(snapshot, position, response.data, is_last)
    return view.step(role._replace(download=download), log=part)
