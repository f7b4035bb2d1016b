"""Shell: the queue as the gateway sees it: requests on their way to the broker, and whether it accepts more.

Everything here runs on the event loop. Equal requests join the one under way, so they become one record.
"""

from __future__ import annotations

import time
from asyncio import Future, get_running_loop
from itertools import islice
from uuid import UUID

from gateway import metrics
from gateway.admission import Verdict
from gateway.backlog_monitor import shared_monitor
from gateway.breakers import Partition, QueueBreakers
from gateway.events import PurchaseRequested
from gateway.producer import QueueProducer
from gateway.refusals import queue_moving, queue_unavailable, queue_unknown
from seckill.messaging import fault_points
from seckill.messaging.record_position import RecordPosition
from seckill.messaging.slots import NoLease, SlotUnavailable
from seckill.messaging.topics import PURCHASE_REQUESTS
from seckill.monitoring import traces
from seckill.resilience.circuit_breaker import Permit

ACK_SECONDS_MAX = 3.0
OVERDUE_S = 0.9 * ACK_SECONDS_MAX
"""A request that has been under way for so long will not be acknowledged before its caller gives up."""
BREAKER_OPEN_S = 1.0
REPORTED_MAX = 1000


class _UnderWay:
    """A record that was sent, and the callers that wait for it."""

    __slots__ = ("callers", "partition", "since")

    def __init__(self, partition: Partition | None) -> None:
        self.callers: list[Future[RecordPosition]] = []
        self.partition, self.since = partition, time.monotonic()


class QueuePermit:
    """Whether a request of this user may be sent: `refusal` says why not.

    A probe of the backlog guard or of the breaker goes back to them unless the request is really sent. Sold out means
    sold: units that are only held may come back, so they stop nobody.
    """

    __slots__ = ("_breaker", "_guard", "_queue", "partition", "refusal", "topic")

    def __init__(self, queue: PurchaseQueue, user_id: str, *, is_sold_out: bool) -> None:
        self._queue = queue
        self._guard = self._breaker = Permit.NO
        self.partition = queue.partition_for(user_id)
        self.topic = PURCHASE_REQUESTS.name if self.partition is None else self.partition[0]
        self.refusal = Verdict.SOLD_OUT if is_sold_out else self._request()

    def _request(self) -> Verdict | None:
        self._guard = shared_monitor().permit(self.topic)
        if self._guard is Permit.NO:
            return Verdict.BACKLOG
        self._breaker = self._queue.breakers.permit(self.partition, time.monotonic())
        return Verdict.NO_QUEUE if self._breaker is Permit.NO else None

    def spend(self) -> None:
        """The request is being sent."""
        self._guard = self._breaker = Permit.NO

    def release(self) -> None:
        """Return what was not spent."""
        if self._guard is Permit.PROBE:
            shared_monitor().backlog.give_back()
        if self._breaker is Permit.PROBE:
            self._queue.breakers.give_back(self.partition, time.monotonic())


class PurchaseQueue:
    def __init__(self, producer: QueueProducer) -> None:
        self.producer = producer
        self.breakers = QueueBreakers(BREAKER_OPEN_S, ACK_SECONDS_MAX, OVERDUE_S)
        self._under_way: dict[UUID, _UnderWay] = {}
        self._acknowledged: dict[UUID, RecordPosition] = {}  # positions that Redis does not know yet

    def partition_for(self, user_id: str) -> Partition | None:
        """Where this user's requests wait; None until the producer has connected."""
        writer = self.producer.writer
        return None if writer is None else writer.partition_for(user_id.encode())

    def breaker_state(self) -> int:
        return self.breakers.of_broker.state(time.monotonic()).value

    async def enqueue(
        self, requested: PurchaseRequested, trace: str, permit: QueuePermit, *, is_new: bool
    ) -> RecordPosition:
        """Returns once the broker has acknowledged the record. `is_new`: it was certainly not sent before.

        Raises `Problem`. After a cancellation the record stays under way.
        """
        request_id = requested.request_id
        known = self._acknowledged.get(request_id)
        if known is not None:
            return known
        caller: Future[RecordPosition] = get_running_loop().create_future()
        under_way = self._under_way.get(request_id)
        if under_way is None:
            if permit.refusal is Verdict.NO_QUEUE:  # a known request; this counts as no failure of the queue
                raise queue_unknown()
            under_way = self._send(requested, trace, permit, is_new)
        under_way.callers.append(caller)
        return await caller

    def unreported(self) -> list[tuple[UUID, RecordPosition]]:
        """Acknowledged positions that Redis has to be told; `forget_reported` follows."""
        return list(islice(self._acknowledged.items(), REPORTED_MAX))

    def forget_reported(self, reported: list[tuple[UUID, RecordPosition]]) -> None:
        for request_id, _ in reported:
            del self._acknowledged[request_id]

    def record_timeout(self) -> None:
        """A caller got no answer in time."""
        now = time.monotonic()
        overdue = {each.partition for each in self._under_way.values() if now - each.since >= OVERDUE_S}
        self.breakers.record_failed(overdue, now)

    def _send(self, requested: PurchaseRequested, trace: str, permit: QueuePermit, is_new: bool) -> _UnderWay:
        request_id = requested.request_id
        fault_points.trigger("gateway.before_produce")
        writer = self.producer.writer
        if writer is None:
            raise queue_unavailable() if is_new else queue_unknown()
        under_way = self._under_way[request_id] = _UnderWay(permit.partition)
        try:
            writer.send(
                requested.user_id.encode(), requested.envelope().encode(), [(traces.HEADER, trace.encode())],
                lambda outcome: self._settle(request_id, outcome),
            )  # fmt: skip
        except BaseException as fault:
            del self._under_way[request_id]
            if isinstance(fault, NoLease):  # the database or the broker is unavailable; no slot is being moved
                raise (queue_unavailable(fault) if is_new else queue_unknown(fault)) from fault
            if isinstance(fault, SlotUnavailable):
                raise queue_moving(fault) from fault
            raise
        permit.spend()
        return under_way

    def _settle(self, request_id: UUID, outcome: RecordPosition | Exception) -> None:
        under_way = self._under_way.pop(request_id)
        callers = [caller for caller in under_way.callers if not caller.done()]
        if isinstance(outcome, Exception):
            metrics.FAILED.inc()
            self.breakers.record_failed([under_way.partition], time.monotonic())
            for caller in callers:
                caller.set_exception(queue_unknown(outcome))
            return
        fault_points.trigger("gateway.after_ack")
        self.breakers.record_acknowledged((outcome.topic, outcome.partition), time.monotonic())
        self._acknowledged[request_id] = outcome
        metrics.ACKNOWLEDGED.inc()
        for caller in callers:
            caller.set_result(outcome)
