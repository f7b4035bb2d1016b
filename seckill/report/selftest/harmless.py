"""Values: mutations that the report does not detect, and why each of them is harmless. Any other mutation must be
found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from seckill.report.selftest.mutations import Mutation


class Harmless(NamedTuple):
    """`mutation` is a pattern FIELD.COLUMN KIND (STRATUM) with * as wildcard; without a column it is about whole
    rows."""

    mutation: str
    reason: str


def _each(field: str, columns: str, kinds: str, reason: str) -> Iterator[Harmless]:
    """One pattern for each of the columns; `kinds` is the rest of the pattern."""
    return (Harmless(f"{field}.{column} {kinds}", reason) for column in columns.split())


CHECKSUM = "the crowd's log ends with a count and a checksum, so a changed line makes source C incomplete"
CLOCKS = "the value is the time of another row of the same run, and clocks may differ by 5 s"
REFUSED = "nothing follows from this column of a refused purchase, and its reason is still true; " + CHECKSUM
UNAVAILABLE = "nothing follows from this column of a purchase that was refused for technical reasons; " + CHECKSUM
UNANSWERED = "without an answer the request may be in the log or not; " + CHECKSUM
POSSIBLE = "the buyer may have seen this state at that time"
TICKET_CALL = "only tickets that an accepted purchase used are compared; " + CHECKSUM
NO_ACTION = "the action has no effect on the tables that are compared, or the same effect as another one"
IDLE_PARTITION = "the partition has no records, so its offset is 0 either way"
OTHER_BUYER = "the records of two buyers have no order between them"

HARMLESS = (
    Harmless("silences*", "what was observed from outside changes no books; it can only explain a long outage"),
    *_each("attempts", "at_ms took_ms", "another's value (*)", CLOCKS),
    *_each("attempts", "at_ms took_ms", "exchanged (*)", CLOCKS),
    Harmless("attempts duplicated*", "two clicks with one key get the same answer; " + CHECKSUM),
    Harmless("attempts missing*", CHECKSUM),
    *_each(
        "attempts", "at_ms took_ms user_id key sale_id quantity status topic ticket stock_version", "* (4??)", REFUSED
    ),
    *_each(
        "attempts", "at_ms took_ms user_id key sale_id quantity status topic ticket problem", "* (503)", UNAVAILABLE
    ),
    *_each("attempts", "at_ms took_ms user_id key sale_id quantity status topic ticket problem", "* (0)", UNANSWERED),
    Harmless("attempts.took_ms an hour *", "an answer may take long; " + CHECKSUM),
    Harmless("attempts.address *", "addresses are only used to check rate limits; " + CHECKSUM),
    Harmless("attempts.at_ms an hour earlier (202)", "another click with the same key may have been answered then"),
    Harmless("attempts.problem * (202)", "an accepted purchase has no problem type"),
    Harmless("attempts.key * (202)", "only the gateway can derive a request id from a key; " + CHECKSUM),
    Harmless("attempts.ticket * (202)", "a repeated key gets the first answer again, whatever ticket comes with it"),
    *_each("other_calls", "at_ms took_ms expires_at_ms", "another's value (*)", CLOCKS),
    *_each("other_calls", "at_ms took_ms expires_at_ms", "exchanged (*)", CLOCKS),
    Harmless("other_calls missing*", CHECKSUM),
    Harmless("other_calls duplicated*", "the same answer twice; " + CHECKSUM),
    Harmless("other_calls.at_ms an hour *", "the time only matters for refused calls and used tickets; " + CHECKSUM),
    Harmless("other_calls.took_ms an hour *", "an answer may take long; " + CHECKSUM),
    Harmless("other_calls.expires_at_ms an hour later*", "the accepted purchases also had a valid ticket then"),
    Harmless("other_calls.problem *", "an accepted call has no problem type"),
    Harmless("other_calls.status *", "the call may have got no answer, or another successful one; " + CHECKSUM),
    Harmless("other_calls.ticket *", TICKET_CALL),
    Harmless("other_calls.what *", "the answer is also possible for the other call; " + CHECKSUM),
    Harmless("other_calls.user_id * (ticket)", TICKET_CALL),
    Harmless("other_calls.sale_id * (ticket)", TICKET_CALL),
    *_each(
        "other_calls", "user_id sale_id order_id", "* (pay)", "the order is of the same buyer, or the call was refused"
    ),
    *_each(
        "other_calls",
        "user_id sale_id order_id",
        "* (cancel)",
        "the order is of the same buyer, or the call was refused",
    ),
    *_each("polls", "at_ms took_ms", "another's value (*)", CLOCKS),
    *_each("polls", "at_ms took_ms", "exchanged (*)", CLOCKS),
    Harmless("polls missing*", CHECKSUM),
    Harmless("polls duplicated*", "the buyer may poll twice; " + CHECKSUM),
    Harmless("polls.at_ms an hour earlier*", "only possible if the request was sent in that hour; " + CHECKSUM),
    Harmless("polls.took_ms an hour *", "an answer may take long; " + CHECKSUM),
    Harmless("polls.may_buy_again *", POSSIBLE),
    Harmless("polls.order_id nothing*", POSSIBLE),
    Harmless("polls.state says *", POSSIBLE + ", or within 5 s of it"),
    Harmless("polls.state exchanged*", "both buyers may have seen the other state at that time"),
    Harmless("polls.status says 0 *", "the poll may have got no answer"),
    Harmless("polls.status says 429 *", "the poll may have been one too many"),
    Harmless("polls.status says 503 *", "the gateway may have been unavailable"),
    *_each("polls", "user_id request_id", "*", "a poll without an answer shows nothing"),
    Harmless("callbacks missing*", "a callback may be lost; the provider's log is compared (I14)"),
    *_each(
        "callbacks", "callback_id kind payment_id", "*", "a callback without effect is allowed; I14 compares the log"
    ),
    Harmless(
        "committed_offsets missing*", "a commit to the broker may be lost; the offset in the database counts (I11)"
    ),
    *_each(
        "committed_offsets", "next_offset group topic partition", "*", "the broker may be behind the database (I11)"
    ),
    *_each("spark_cuts", "topic partition", "exchanged*", "both partitions were read up to the same offset"),
    *_each("requests", "timestamp_ms admitted_at_ms deadline_ms", "another's*", CLOCKS),
    *_each("requests", "timestamp_ms admitted_at_ms deadline_ms", "exchanged*", CLOCKS),
    Harmless("decision_events.event_id * (UnitsReleased)", "no table stores the id of a release event"),
    Harmless("decision_events.position exchanged*", OTHER_BUYER),
    Harmless("decision_events.reason * (*", "only release events have a reason"),
    *_each("decision_events", "timestamp_ms", "another's*", CLOCKS),
    *_each("decision_events", "timestamp_ms", "exchanged*", CLOCKS),
    Harmless("order_events.position exchanged*", OTHER_BUYER),
    *_each("order_events", "timestamp_ms", "another's*", CLOCKS),
    *_each("order_events", "timestamp_ms", "exchanged*", CLOCKS),
    *_each("deliveries", "done_at_ms", "another's*", CLOCKS),
    *_each("deliveries", "done_at_ms", "exchanged*", CLOCKS),
    Harmless("deliveries.attempts *", "a worker that dies does not count its attempt"),
    Harmless("deliveries.channel exchanged*", "two deliveries of one event have the same text"),
    Harmless("gates.free *", "the stock row decides, whatever number the gate shows"),
    *_each("ledger", "at_ms", "another's*", CLOCKS),
    *_each("ledger", "at_ms", "exchanged*", CLOCKS),
    *_each("ledger", "cause", "* (declare)", "the audit trail shows the operator's command without this id"),
    *_each("ledger", "cause", "* (adjust)", "the audit trail shows the operator's command without this id"),
    Harmless("ledger.version exchanged (sell)", "no other table stores the stock version of a sell entry"),
    Harmless("partition_logs.* exchanged*", "both partitions end at the same offset"),
    Harmless("partition_logs missing*", IDLE_PARTITION),
    Harmless("partition_logs.topic another's*", IDLE_PARTITION),
    Harmless("partition_logs.partition *", IDLE_PARTITION),
    Harmless("group_offsets missing*", IDLE_PARTITION),
    *_each("group_offsets", "group topic partition", "*", IDLE_PARTITION),
    Harmless("group_offsets.* exchanged*", "both groups have read up to the same offset"),
    *_each("provider_lines", "at_ms", "another's*", CLOCKS),
    *_each("provider_lines", "at_ms", "exchanged*", CLOCKS),
    Harmless("payments.opened_at_ms another's*", CLOCKS),
    Harmless("payments.opened_at_ms exchanged*", CLOCKS),
    *_each("sink_lines", "at_ms", "another's*", CLOCKS),
    *_each("sink_lines", "at_ms", "exchanged*", CLOCKS),
    Harmless("sink_lines missing*", "the line is a refusal or a repetition, which has no effect"),
    Harmless("sink_lines moved*", "messages to two buyers, or in two sinks, have no order between them"),
    Harmless("sink_lines.channel exchanged*", "two messages about one event have the same text"),
    Harmless("sink_lines.trace_id *", "trace ids are for debugging; nothing depends on them"),
    Harmless("stocks.gate_retired *", "the sale is over, so its gate is not used"),
    Harmless(
        "stocks.gate_epoch *", "the epoch selects the gate's keys; with a wrong one there are none, and I4 is UNKNOWN"
    ),
    Harmless("operator_actions missing*", NO_ACTION + ", or it is older than the audit trail"),
    Harmless("operator_actions duplicated*", NO_ACTION),
    Harmless("operator_actions moved*", NO_ACTION),
    *_each("operator_actions", "arguments at_ms result target verb", "*", NO_ACTION),
)


_SPARK = "Spark derives it from the topics for charts; its totals and cuts are compared (I22)"
_INTERNAL = "internal progress, which does not change a result"
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
    "analytics_partition": "read by sources/statistics.py",
    "analytics_run": "read by sources/statistics.py",
    "analytics_total": "read by sources/statistics.py",
    "console_report": "finished reports; a report does not rest on older ones",
    "console_report_service": "the report service's own last sign of life, no fact of a run",
    "notifications_channel": _INTERNAL + ": the state of a circuit breaker",
    "orders_provider_log": _INTERNAL + ": how far the provider's log was compared",
    "streams_divert": _INTERNAL + ": the topic of a user's requests; I9 checks that each is decided once",
    "streams_outbox": "counted by writer; every event in it is unpublished (I23)",
    "streams_producer_lease": _INTERNAL + ": which gateway may write to which slots",
    "streams_retention": "read: sales that began before the pruned time make source O incomplete",
    "streams_slot_map": _INTERNAL + ": the partition of a user; I16 checks that requests stay in order",
    "streams_switch": _INTERNAL + ": a group that is switched off lags behind, which the report shows",
}
"""Tables that the report does not read, and why no invariant needs them."""


def harmless_reason(mutation: Mutation, listed: Iterable[Harmless] = HARMLESS) -> str:
    """Why the mutation may go undetected, or an empty text if it must be found."""
    return next((each.reason for each in listed if fnmatchcase(mutation.what, each.mutation)), "")
