"""Mutations that the report lets pass, and why each of them is harmless. What is not listed here has to be found."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from seckill.consistency.selftest.generating import Mutation


class Harmless(NamedTuple):
    """`mutation`: FIELD.COLUMN KIND (STRATUM), with * for whatever; of whole rows without a column."""

    mutation: str
    reason: str


CHECKSUM = "the crowd's log ends with a count and a checksum of its lines: with another line source C is not whole"
CLOCKS = "times within a run that are less than 5 s apart are in no certain order: the clocks of hosts differ"
LEGAL = "it may have been like that: a buyer may see an earlier state, or get no answer"
UNREAD = "it says nothing in a row of this kind"
PRUNED = "the audit trail has no more of it: it is pruned, and what is older than its first entry is not asked"
TRAIL = "verbs without an effect in the books, or with the same effect, cannot be told from others"

HARMLESS = (
    Harmless("*_ms another's*", CLOCKS),
    Harmless("*_ms exchanged*", CLOCKS),
    Harmless("stages.time *", CLOCKS),
    Harmless("attempts twice*", "two clicks under one key get one answer; and " + CHECKSUM),
    Harmless("attempts gone*", CHECKSUM),
    Harmless("attempts.* (4??)", "no purchase rests on it, and the reason still holds; and " + CHECKSUM),
    Harmless("attempts.* (503)", "no purchase rests on it; and " + CHECKSUM),
    Harmless("attempts.* (0)", "no answer came: it may be of any key, and is in the log or not; and " + CHECKSUM),
    Harmless("attempts.address *", "only a limit of requests is judged by it; and " + CHECKSUM),
    Harmless("attempts.at_ms an hour earlier (202)", "another click under the same key was answered at that time"),
    Harmless("attempts.problem *", "a reason beside an acceptance says nothing"),
    Harmless("attempts.key *", "only the gateway can compute a request's id from its key; and " + CHECKSUM),
    Harmless("attempts.ticket *", "of a key that was tried before, no ticket is asked any more"),
    Harmless("attempts.took_ms *", CLOCKS),
    Harmless("attempts.user_id *", "only of an answer on which no purchase rests; and " + CHECKSUM),
    Harmless("called gone*", CHECKSUM),
    Harmless("called twice*", "the same answer twice; and " + CHECKSUM),
    Harmless("called.at_ms *", "only what was refused, or rests on it, is judged by it; and " + CHECKSUM),
    Harmless("called.took_ms *", CLOCKS),
    Harmless("called.expires_at_ms *", "a ticket that is good for longer lets nobody in who was not let in"),
    Harmless("called.problem *", "a reason beside an acceptance says nothing"),
    Harmless("called.status *", "a call that got no answer, or another good one; and " + CHECKSUM),
    Harmless("called.ticket *", "tickets that nobody was let in with; and " + CHECKSUM),
    Harmless("called.what *", "the same answer to another call; and " + CHECKSUM),
    Harmless("called.user_id *", "of a call on which nothing rests; and " + CHECKSUM),
    Harmless("called.sale_id *", "of a call on which nothing rests; and " + CHECKSUM),
    Harmless("called.order_id *", "one of the same buyer's orders, or of a call that was refused; and " + CHECKSUM),
    Harmless("sights gone*", CHECKSUM),
    Harmless("sights twice*", "he looked twice; and " + CHECKSUM),
    Harmless("sights.at_ms an hour earlier*", "before it was accepted nobody looks: only if it was sent in that hour"),
    Harmless("sights.may_buy_again *", LEGAL),
    Harmless("sights.order_id nothing*", LEGAL),
    Harmless("sights.state *", LEGAL + "; a later one only if it came within 5 s"),
    Harmless("sights.status *", LEGAL),
    Harmless("sights.took_ms *", CLOCKS),
    Harmless("sights.user_id *", "a poll without an answer shows nobody anything"),
    Harmless("sights.request_id *", "a poll without an answer shows nobody anything"),
    Harmless("callbacks gone*", "a callback may be lost: the provider's log is what counts (I14)"),
    Harmless("callbacks.callback_id *", "the provider's own name of its call; only that it is one is used"),
    Harmless("callbacks.kind *", "a callback about nothing changes nothing: the provider's log counts (I14)"),
    Harmless("callbacks.payment_id *", "a callback about nothing changes nothing: the provider's log counts (I14)"),
    Harmless("committed gone*", "a commit to the broker may be lost: the group's row is what counts (I11)"),
    Harmless("committed.next_offset *", "the broker may be behind the group's row, never ahead of it (I11)"),
    Harmless("committed.group *", "the broker may be behind the group's row, never ahead of it (I11)"),
    Harmless("committed.topic *", "the broker may be behind the group's row, never ahead of it (I11)"),
    Harmless("committed.partition *", "the broker may be behind the group's row, never ahead of it (I11)"),
    Harmless("counted_to.topic exchanged*", "two partitions that were read to the same offsets"),
    Harmless("counted_to.partition exchanged*", "two partitions that were read to the same offsets"),
    Harmless("decisions_said.event_id * (UnitsReleased)", "only the topic has the id of a release"),
    Harmless("decisions_said.place exchanged*", "the records of two users have no order between them"),
    Harmless("decisions_said.reason *", UNREAD + ": only a release has a reason"),
    Harmless("orders_said.place exchanged*", "the records of two users have no order between them"),
    Harmless("deliveries.attempts *", "a worker that died has not counted them, and an attempt that hung left no line"),
    Harmless("deliveries.channel exchanged*", "two deliveries of one event say the same"),
    Harmless("gates.free *", "the row decides, whatever the gate offers or denies"),
    Harmless("ledger.cause * (declare)", "an operator's command, known by the audit trail and not by an id"),
    Harmless("ledger.cause * (adjust)", "an operator's command, known by the audit trail and not by an id"),
    Harmless("ledger.version exchanged (sell)", "only the ledger has the version of a sale of units that were held"),
    Harmless("logs.*exchanged*", "two partitions that end at the same offset"),
    Harmless("logs gone*", "a partition without a record"),
    Harmless("logs.topic another's*", "a partition without a record"),
    Harmless("logs.partition *", "a partition without a record"),
    Harmless("offsets gone (*)", "a partition without a record: nothing of it was read"),
    Harmless("offsets.group *", "a partition without a record: nothing of it was read"),
    Harmless("offsets.topic *", "a partition without a record: nothing of it was read"),
    Harmless("offsets.*exchanged*", "two groups that have read as far as each other"),
    Harmless("sink gone (*)", "a line of a refusal, or of an attempt beyond the first: it has no effect"),
    Harmless("sink out of turn*", "messages of two users, or of one user in two sinks, have no order between them"),
    Harmless("sink.channel exchanged*", "two messages of one event say the same"),
    Harmless("sink.trace_id *", "a trace is for people: nothing is decided by it"),
    Harmless("stocks.gate_retired *", "of a sale that is over: nobody asks its gate any more"),
    Harmless("stocks.gate_epoch *", "the gate is asked by it: another epoch has no keys, and I4 is UNKNOWN"),
    Harmless("verbs gone*", PRUNED + "; or: " + TRAIL),
    Harmless("verbs twice*", TRAIL),
    Harmless("verbs out of turn*", TRAIL),
    Harmless("verbs.arguments *", TRAIL),
    Harmless("verbs.at_ms *", TRAIL),
    Harmless("verbs.result *", TRAIL),
    Harmless("verbs.target *", TRAIL),
    Harmless("verbs.verb *", TRAIL),
)


_SPARK = "made by Spark from the topics, for pictures; its totals and cuts are read (I22)"
_HOW = "how the work is done, and not what came of it"
UNREAD_TABLES = {
    "analytics_batch": _SPARK,
    "analytics_buyer": _SPARK,
    "analytics_fairness": _SPARK,
    "analytics_flow": _SPARK,
    "analytics_latency": _SPARK,
    "analytics_revenue": _SPARK,
    "analytics_sell_through": _SPARK,
    "analytics_sku": _SPARK,
    "analytics_staged": _SPARK,
    "analytics_unreadable": _SPARK,
    "analytics_partition": "read with the statistics (sources/statistics.py)",
    "analytics_run": "read with the statistics (sources/statistics.py)",
    "analytics_total": "read with the statistics (sources/statistics.py)",
    "notifications_channel": _HOW + ": a breaker's state",
    "orders_provider_log": _HOW + ": how far a log was compared",
    "streams_divert": _HOW + ": who stays in which queue; that each is decided once is what counts (I9)",
    "streams_outbox": "counted by writer: what waits there is not published yet (I23)",
    "streams_producer_lease": _HOW + ": who may write by which slots",
    "streams_retention": "read: a sale that began before what was pruned leaves source O not whole",
    "streams_slot_map": _HOW + ": which partition a user goes to; that he stays in order is what counts (I16)",
    "streams_switch": _HOW + ": a group that holds still is behind, and that is told",
}
"""Tables the report does not read, and why nothing follows from them."""


def reason(mutation: Mutation, listed: Iterable[Harmless] = HARMLESS) -> str:
    """Why it may slip through; empty: it may not."""
    return next((each.reason for each in listed if fnmatchcase(mutation.what, each.mutation)), "")
