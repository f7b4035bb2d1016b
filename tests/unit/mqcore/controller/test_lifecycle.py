"""A broker's side of its membership, and both sides together."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqcore.controller.cluster_commands import (
    Heartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
    UnregisterBroker,
    new_incarnation,
)
from mqcore.controller.lifecycle import Answer, BrokerLifecycle, LifecycleRules, Phase, Request, Unreachable
from mqcore.identity import BrokerId, Millis, Offset
from mqcore.wire.errors import ErrorCode, Refusal
from tests.unit.mqcore.controller.brokers import Brokers

REGISTRATION = RegisterBroker(BrokerId(1), new_incarnation(1, UUID(int=1)), (), None, (UUID(int=1),))
FENCED = HeartbeatAnswer(False, True, False)
UNFENCED = HeartbeatAnswer(True, False, False)
MAY_STOP = HeartbeatAnswer(True, True, True)
STALE = Refusal(ErrorCode.STALE_BROKER_EPOCH)


def is_in(phase: Phase, lifecycle: BrokerLifecycle) -> bool:
    return lifecycle.phase is phase


class Broker:
    """A lifecycle, its time, and the request that is due."""

    def __init__(self) -> None:
        self.now = Millis(1000)
        self.lifecycle = BrokerLifecycle(REGISTRATION, LifecycleRules(), self.now)

    def due(self) -> Request | None:
        """Wait until something is due, and return it."""
        deadline = self.lifecycle.deadline()
        if deadline is not None:
            self.now = Millis(max(self.now, deadline))
        return self.lifecycle.next_request(Offset(7), self.now)

    def exchange(self, *answers: Answer) -> Request:
        """Send what is due and get an answer, for each of the answers. Returns the last request."""
        assert answers
        for answer in answers:
            request = self.due()
            assert request is not None
            self.lifecycle.answered(request, answer, self.now)
            self.lifecycle.check()
            last = request
        return last


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def running(broker: Broker) -> Broker:
    broker.exchange(Registered(5), FENCED)
    broker.lifecycle.logs_opened(broker.now)
    broker.exchange(UNFENCED)
    assert is_in(Phase.RUNNING, broker.lifecycle)
    return broker


def test_a_broker_registers_recovers_and_runs(broker: Broker) -> None:
    assert broker.exchange(Registered(5)) is REGISTRATION and is_in(Phase.RECOVERY, broker.lifecycle)
    assert broker.exchange(FENCED) == Heartbeat(BrokerId(1), 5, Offset(7), wants_fence=True)
    broker.lifecycle.logs_opened(broker.now)
    assert broker.exchange(UNFENCED) == Heartbeat(BrokerId(1), 5, Offset(7))
    assert is_in(Phase.RUNNING, broker.lifecycle) and not broker.lifecycle.is_fenced


def test_a_broker_whose_logs_are_open_before_it_is_registered_wants_no_fence(broker: Broker) -> None:
    broker.lifecycle.logs_opened(broker.now)
    broker.exchange(Registered(5))
    assert broker.exchange(UNFENCED) == Heartbeat(BrokerId(1), 5, Offset(7))


def test_logs_that_open_while_a_heartbeat_is_under_way_are_reported_at_once(broker: Broker) -> None:
    broker.exchange(Registered(5))
    heartbeat = broker.due()
    assert isinstance(heartbeat, Heartbeat) and heartbeat.wants_fence
    broker.lifecycle.logs_opened(broker.now)
    broker.lifecycle.answered(heartbeat, FENCED, broker.now)
    assert broker.lifecycle.deadline() == broker.now, "not after a whole interval"
    assert broker.exchange(FENCED) == Heartbeat(BrokerId(1), 5, Offset(7))
    assert broker.lifecycle.deadline() == broker.now + LifecycleRules().heartbeat_ms, "it has nothing new to say"


def test_a_controller_that_is_being_elected_is_asked_again_soon(broker: Broker) -> None:
    broker.exchange(Unreachable())
    assert broker.lifecycle.deadline() == broker.now + LifecycleRules().search_ms


def test_heartbeats_follow_each_other_at_the_interval(running: Broker) -> None:
    before = running.now
    running.exchange(UNFENCED)
    assert running.now == before + 500


def test_one_request_is_under_way_at_a_time(running: Broker) -> None:
    assert running.due() is not None
    assert running.lifecycle.deadline() is None
    assert running.lifecycle.next_request(Offset(7), Millis(running.now + 60_000)) is None


@pytest.mark.parametrize("failure", [Unreachable(), Refusal(ErrorCode.NOT_CONTROLLER)])
def test_a_failed_request_is_sent_again_after_a_while(running: Broker, failure: Answer) -> None:
    before = running.due()
    assert before is not None
    running.lifecycle.answered(before, failure, running.now)
    again = running.due()
    assert again == before and again is not before and is_in(Phase.RUNNING, running.lifecycle)


def test_a_broker_that_the_controller_does_not_know_registers_again(running: Broker) -> None:
    running.exchange(STALE)
    assert is_in(Phase.STARTING, running.lifecycle) and running.lifecycle.is_fenced
    assert running.exchange(Registered(9)) is REGISTRATION
    assert running.exchange(UNFENCED) == Heartbeat(BrokerId(1), 9, Offset(7))
    assert is_in(Phase.RUNNING, running.lifecycle)


def test_an_answer_from_before_a_new_registration_changes_nothing(running: Broker) -> None:
    late = running.due()
    assert late is not None
    running.lifecycle.answered(late, STALE, running.now)
    running.exchange(Registered(9))
    running.lifecycle.answered(late, STALE, running.now)
    assert running.lifecycle.broker_epoch == 9 and is_in(Phase.RECOVERY, running.lifecycle)


def test_a_duplicate_registration_is_tried_until_the_earlier_session_has_ended(broker: Broker) -> None:
    taken = Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    broker.exchange(taken, taken, taken, Registered(5))
    assert is_in(Phase.RECOVERY, broker.lifecycle)


def test_a_running_broker_that_was_fenced_knows_it_and_goes_on(running: Broker) -> None:
    running.exchange(FENCED)
    assert running.lifecycle.is_fenced and is_in(Phase.RUNNING, running.lifecycle)
    running.exchange(UNFENCED)
    assert not running.lifecycle.is_fenced


def test_a_broker_stops_when_the_controller_lets_it(running: Broker) -> None:
    running.lifecycle.shut_down(running.now)
    assert running.exchange(UNFENCED) == Heartbeat(BrokerId(1), 5, Offset(7), wants_shutdown=True)
    assert is_in(Phase.PENDING_SHUTDOWN, running.lifecycle)
    running.exchange(MAY_STOP)
    assert is_in(Phase.ENDED, running.lifecycle) and running.lifecycle.deadline() is None and running.due() is None


def test_a_stop_ends_without_the_controller_after_its_time(running: Broker) -> None:
    running.lifecycle.shut_down(running.now)
    request = running.due()
    assert request is not None
    running.now = Millis(running.now + 10_000)
    assert running.lifecycle.deadline() is not None and running.due() is None
    assert is_in(Phase.ENDED, running.lifecycle)
    running.lifecycle.answered(request, UNFENCED, running.now)
    assert is_in(Phase.ENDED, running.lifecycle)


def test_a_broker_that_is_not_registered_stops_at_once(broker: Broker) -> None:
    broker.lifecycle.shut_down(broker.now)
    assert is_in(Phase.ENDED, broker.lifecycle)


def test_a_stopping_broker_that_the_controller_does_not_know_stops_at_once(running: Broker) -> None:
    running.lifecycle.shut_down(running.now)
    running.exchange(STALE)
    assert is_in(Phase.ENDED, running.lifecycle)


answers = st.sampled_from([Registered(4), FENCED, UNFENCED, MAY_STOP, STALE, Unreachable()])


@given(st.lists(st.tuples(st.sampled_from(["send", "answer", "late", "open", "stop", "wait"]), answers), max_size=40))
def test_no_order_of_events_breaks_the_lifecycle(events: list[tuple[str, Answer]]) -> None:
    broker = Broker()
    sent: list[Request] = []
    for event, answer in events:
        if event == "send":
            request = broker.lifecycle.next_request(Offset(3), broker.now)
            sent += [request] if request is not None else []
        elif event in ("answer", "late") and sent:
            of = sent[-1] if event == "answer" else sent[0]
            fits = isinstance(answer, Refusal | Unreachable) or (
                isinstance(answer, Registered) == isinstance(of, RegisterBroker)
            )
            broker.lifecycle.answered(of, answer if fits else Unreachable(), broker.now)
        elif event == "open":
            broker.lifecycle.logs_opened(broker.now)
        elif event == "stop":
            broker.lifecycle.shut_down(broker.now)
        else:
            broker.now = Millis(broker.now + 300)
        broker.lifecycle.check()


# Together with the controller


def run(cluster: Brokers, lifecycle: BrokerLifecycle, seconds: int) -> None:
    end = cluster.clock.monotonic_ms + seconds * 1000
    while cluster.clock.monotonic_ms < end and not is_in(Phase.ENDED, lifecycle):
        now = Millis(cluster.clock.monotonic_ms)
        request = lifecycle.next_request(cluster.machine.sessions.next_offset, now)
        if request is not None:
            answer = cluster.ask(request)
            assert isinstance(answer, Registered | HeartbeatAnswer | Refusal)
            lifecycle.answered(request, answer, now)
        cluster.run_ticks()
        cluster.pass_time(50)


def test_a_broker_and_the_controller_agree_from_the_start_to_the_stop() -> None:
    cluster = Brokers(0)
    lifecycle = BrokerLifecycle(cluster.registration(1, starts=1), LifecycleRules(), Millis(0))
    lifecycle.logs_opened(Millis(0))
    run(cluster, lifecycle, 10)
    assert is_in(Phase.RUNNING, lifecycle) and cluster.image.is_active(BrokerId(1))
    cluster.ask(UnregisterBroker(BrokerId(1)))
    run(cluster, lifecycle, 10)
    assert is_in(Phase.RUNNING, lifecycle) and cluster.image.is_active(BrokerId(1))
    lifecycle.shut_down(Millis(cluster.clock.monotonic_ms))
    run(cluster, lifecycle, 5)
    assert is_in(Phase.ENDED, lifecycle) and cluster.image.brokers[BrokerId(1)].fenced


def test_a_broken_connection_makes_the_next_heartbeat_due_soon() -> None:
    broker = Broker()
    broker.exchange(Registered(5), FENCED)
    broker.lifecycle.connection_lost(broker.now)
    assert broker.lifecycle.deadline() == broker.now + LifecycleRules().retry_ms
    assert isinstance(broker.due(), Heartbeat)
    broker.lifecycle.connection_lost(broker.now)
    assert broker.due() is None, "the heartbeat that is under way gets a fault of its own"
