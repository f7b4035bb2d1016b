"""Machine: who may vote, who may stand, and how an election is won.

Own rules:
* A voter gives one vote in an epoch, and only to a candidate whose log is at least as long as its own (Raft 5.4.1).
* A request for a pre-vote changes nothing in the voter.
* A node stands only if its own log names it as a voter. An empty folder therefore never founds a second cluster.
"""

from __future__ import annotations

from mqcore.identity import BrokerId, LeaderEpoch
from mqcore.raft import following, leading
from mqcore.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    Ticket,
    VoteRequest,
    VoteResponse,
    VoterSet,
    majority,
)
from mqcore.raft.ready import Answer, LogView, Ready, Send
from mqcore.raft.state import Candidate, Election, Follower, Prospective, Unattached
from mqcore.raft.view import View
from mqcore.wire.errors import ErrorCode

# ── standing for election ──────────────────────────────────────────────────────────────────────────


def start_election(view: View) -> Ready:
    """A deadline has passed without a leader: ask for pre-votes, or look for the leader if this node must not stand."""
    if not may_stand(view):
        return following.find_leader(view)
    role = Prospective(view.election_deadline(), frozenset({view.me.id}))
    if has_won(role.granted, voters_of(view)):
        return become_candidate(view)
    return view.step(role, sends=_vote_requests(view, view.epoch, pre_vote=True))


def may_stand(view: View) -> bool:
    """A leader appends at once, and two batches must not be waiting for a sync, so its log has to be durable."""
    is_voter = voters_of(view).get(view.me.id) == view.me
    return is_voter and is_trusted(view.log) and view.log.durable == view.log.end


def voters_of(view: View) -> VoterSet:
    return view.log.voters


def is_trusted(log: LogView) -> bool:
    """Recovery had to cut nothing that may have been acknowledged, or the log has passed that point again."""
    return log.durable >= log.suspect_to


def has_won(granted: frozenset[BrokerId], voters: VoterSet) -> bool:
    return len(granted & voters.keys()) >= majority(voters)


def become_candidate(view: View) -> Ready:
    """Ask for votes in a new epoch, giving the first one to itself."""
    election = Election(LeaderEpoch(view.epoch + 1), voted=view.me)
    role = Candidate(view.election_deadline(), frozenset({view.me.id}))
    if has_won(role.granted, voters_of(view)):
        return leading.become_leader(view, election, role.granted)
    return view.step(role, election, sends=_vote_requests(view, election.epoch, pre_vote=False))


def _vote_requests(view: View, epoch: LeaderEpoch, *, pre_vote: bool) -> tuple[Send, ...]:
    last_epoch, end = LeaderEpoch(view.log.last_epoch), view.log.end
    return tuple(
        Send(peer.id, VoteRequest(epoch, view.me, peer, last_epoch, end, pre_vote))
        for peer in voters_of(view).values()
        if peer != view.me
    )


def count_vote(view: View, node: BrokerId, request: VoteRequest, response: VoteResponse) -> Ready:
    role = view.state.role
    match role:
        case Prospective() if request.pre_vote and request.epoch == view.epoch:
            pass
        case Candidate() if not request.pre_vote and request.epoch == view.epoch:
            pass
        case _:
            return view.unchanged()
    voters = voters_of(view)
    if response.granted:
        role = role._replace(granted=role.granted | {node})
        if has_won(role.granted, voters):
            if isinstance(role, Prospective):
                return become_candidate(view)
            return leading.become_leader(view, view.state.election, role.granted)
        return view.step(role)
    role = role._replace(refused=role.refused | {node})
    if len(voters) - len(role.refused & voters.keys()) < majority(voters):
        return view.step(Unattached(view.election_deadline()))
    return view.step(role)


# ── voting ───────────────────────────────────────────────────────────────────────────────────────


def answer_vote(view: View, ticket: Ticket, request: VoteRequest) -> Ready:
    if request.voter != view.me:
        return _refuse(view, ticket, ErrorCode.INVALID_VOTER_KEY)
    if request.epoch < view.epoch:
        return _refuse(view, ticket, ErrorCode.FENCED_LEADER_EPOCH)
    if request.pre_vote:
        would_vote = view.leader is None and _is_electable(view, request)
        response = VoteResponse(ErrorCode.NONE, view.epoch, view.leader, would_vote)
        return view.unchanged(answers=(Answer(ticket, response),))
    if request.epoch > view.epoch:
        return view.following_up(enter_epoch(view, request.epoch), lambda view: _vote(view, ticket, request))
    return _vote(view, ticket, request)


def _vote(view: View, ticket: Ticket, request: VoteRequest) -> Ready:
    election = view.state.election
    is_free = election.leader is None and election.voted in (None, request.candidate)
    if not (is_free and _is_electable(view, request)):
        return _refuse(view, ticket, ErrorCode.NONE)
    answer = Answer(ticket, VoteResponse(ErrorCode.NONE, view.epoch, None, granted=True))
    voted = election._replace(voted=request.candidate)
    return view.step(Unattached(view.election_deadline()), voted, answers=(answer,))


def _is_electable(view: View, request: VoteRequest) -> bool:
    """An empty candidate has nothing to lead, and a suspect voter cannot judge what was acknowledged."""
    own = (view.log.last_epoch, view.log.end)
    return is_trusted(view.log) and request.last_epoch >= 0 and (request.last_epoch, request.end) >= own


def _refuse(view: View, ticket: Ticket, error: ErrorCode) -> Ready:
    return view.unchanged(answers=(Answer(ticket, VoteResponse(error, view.epoch, view.leader)),))


# ── epochs and leaders of others ─────────────────────────────────────────────────────────────────


def enter_epoch(view: View, epoch: LeaderEpoch) -> Ready:
    """Someone is in a newer epoch; its leader, if it has one, is not known yet."""
    return view.step(Unattached(view.election_deadline()), Election(epoch))


def learn_leader(view: View, source: BrokerId, epoch: LeaderEpoch, leader: BrokerId | None) -> Ready:
    """What `source` tells about epoch and leader. A node whose leader has timed out follows it again only if the leader
    itself speaks. Otherwise two nodes that both miss it would send each other back to it again and again."""
    if epoch > view.epoch:
        if leader is None or leader == view.me.id:
            return enter_epoch(view, epoch)
        return following.follow(view, epoch, leader)
    is_open = isinstance(view.state.role, (Unattached, Prospective, Candidate))
    if epoch < view.epoch or leader is None or not is_open:
        return view.unchanged()
    if leader != view.me.id and (view.state.election.leader is None or source == leader):
        return following.follow(view, epoch, leader)
    return view.unchanged()  # a node that has lost its folder hears of the leader that it was


def answer_begin(view: View, ticket: Ticket, request: BeginQuorumEpochRequest) -> Ready:
    if request.voter != view.me:
        return view.unchanged(answers=(_epoch_answer(view, ticket, ErrorCode.INVALID_VOTER_KEY),))
    if request.epoch < view.epoch:
        return view.unchanged(answers=(_epoch_answer(view, ticket, ErrorCode.FENCED_LEADER_EPOCH),))
    return view.following_up(
        learn_leader(view, request.leader, request.epoch, request.leader),
        lambda view: view.unchanged(answers=(_epoch_answer(view, ticket, ErrorCode.NONE),)),
    )


def answer_end(view: View, ticket: Ticket, request: EndQuorumEpochRequest) -> Ready:
    """The leader resigns. Its best successor stands at once, the others give it time."""
    if request.epoch < view.epoch:
        return view.unchanged(answers=(_epoch_answer(view, ticket, ErrorCode.FENCED_LEADER_EPOCH),))
    answer = EpochResponse(ErrorCode.NONE, request.epoch, None)
    role = view.state.role
    if request.epoch == view.epoch and not (isinstance(role, Follower) and role.leader == request.leader):
        return view.unchanged(answers=(Answer(ticket, answer),))
    is_first = view.me.id in request.successors[:1]
    deadline = view.now if is_first else view.election_deadline()
    election = Election(request.epoch) if request.epoch > view.epoch else view.state.election
    return view.step(Unattached(deadline), election, answers=(Answer(ticket, answer),))


def _epoch_answer(view: View, ticket: Ticket, error: ErrorCode) -> Answer:
    return Answer(ticket, EpochResponse(error, view.epoch, view.leader))
