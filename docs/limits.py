"""The limits of the broker and of the sale, as one table; docs/generated/limits.md is made from it.

A row has where the value is (a setting of the broker, or `path:NAME` of a constant), what it limits, its unit, what
a client gets at the limit, and the test that measures it. Values are read from the code and never repeated here. A
service adds its limits to `SALE`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, NamedTuple

from mqcore import config
from mqcore.groups.rules import GroupRules

ROOT = Path(__file__).parents[1]

Rows = tuple[tuple[str, str, str, str, str], ...]

CONNECTIONS: Rows = (
    ("max.connections", "", "",
     "A new connection is closed at once. Fewer if the process may not open that many files.",
     "tests/conformance/test_abuse_connections.py::test_connections_are_limited_per_address_and_in_total"),
    ("max.connections.per.ip", "", "",
     "A new connection of the address (with IPv6: of the /64) is closed; other addresses are served.",
     "tests/conformance/test_abuse_connections.py::test_silent_connections_of_one_address_do_not_block_other_addresses"),
    ("mqcore/server/connection_limits.py:RESERVED_CONNECTIONS",
     "places kept for the listener that `inter.broker.listener.name` names", "",
     "A new connection of another listener is closed.",
     "tests/unit/mqcore/server/test_connection_limits.py::test_connections_are_reserved_for_the_inter_broker_listener"),
    ("first.request.timeout.ms", "", "ms",
     "A connection that has not sent its first request is closed.",
     "tests/unit/mqcore/server/test_connection_limits.py::test_a_connection_without_a_request_is_closed_but_not_logged"),
    ("request.receive.timeout.ms", "", "ms",
     "A connection whose request is still incomplete is closed.",
     "tests/conformance/test_abuse_connections.py::test_one_byte_per_second_is_too_slow_and_affects_no_other_client"),
    ("response.send.timeout.ms", "", "ms",
     "A connection whose client has acknowledged nothing for this long is closed; one that reads slowly is not.",
     "tests/conformance/test_abuse_memory.py::test_a_slow_reader_gets_everything"),
    ("connections.max.idle.ms", "", "ms",
     "A connection without requests is closed.",
     "tests/unit/mqcore/server/test_deadlines.py::test_an_idle_connection_is_overdue_but_not_one_that_waits_for_an_answer"),
    ("mqcore/server/metrics_page.py:REQUESTS_MAX", "connections to the metrics page", "",
     "The oldest one is closed.",
     "tests/unit/mqcore/server/test_metrics_page.py::test_silent_connections_do_not_keep_out_a_health_check"),
)  # fmt: skip

REQUESTS: Rows = (
    ("mqcore/server/context.py:FIRST_FRAME_BYTES_MAX", "first request of a connection", "bytes",
     "The connection is closed.",
     "tests/unit/mqcore/server/test_budgets.py::test_the_first_request_of_a_connection_has_a_lower_limit"),
    ("socket.request.max.bytes", "", "bytes",
     "The connection is closed before memory is taken. Topics may not set `max.message.bytes` above it.",
     "tests/unit/mqcore/server/test_connection.py"
     "::test_an_impossible_length_closes_the_connection_before_anything_is_allocated"),
    ("queued.max.request.bytes", "", "bytes",
     "The connection is not read until others have given memory back, and is closed after the receive timeout. "
     "Idle buffers are taken back first; requests above 1 MiB take three quarters at most, one address a half.",
     "tests/conformance/test_abuse_memory.py::test_incomplete_requests_share_a_memory_budget"),
    ("queued.max.requests", "", "",
     "The connection is not read until a request is answered.",
     "tests/unit/mqcore/server/test_backpressure.py"
     "::test_a_client_is_not_read_while_queued_max_requests_of_it_wait"),
    ("mqcore/server/call_queue.py:WAITING_BYTES_MAX", "requests and responses of one connection that wait", "bytes",
     "The connection is not read until fewer wait; one request may always wait.",
     "tests/unit/mqcore/server/test_backpressure.py::test_waiting_requests_are_limited_by_their_bytes"),
    ("mqcore/server/connection.py:FRAMES_PER_TURN_MAX", "requests of one connection in one turn of the event loop", "",
     "The next ones wait for a turn, so others are served.",
     "tests/unit/mqcore/server/test_backpressure.py::test_a_client_that_never_stops_sending_yields_each_turn"),
    ("mqcore/server/connection.py:TURN_SECONDS_MAX", "time for requests of one connection in one turn", "s",
     "The same: a request that takes longer is alone in its turn.",
     "tests/unit/mqcore/server/test_budgets.py::test_slow_requests_of_one_client_run_one_per_turn"),
    ("mqcore/wire/reader.py:ELEMENTS_MAX", "array elements in one request", "",
     "The connection is closed.",
     "tests/unit/mqcore/apis/test_bombs.py::test_the_number_of_array_elements_in_a_request_is_limited"),
    ("mqcore/wire/frames.py:TAGS_MAX", "tagged fields in one place of a request", "",
     "The connection is closed.",
     "tests/unit/mqcore/wire/test_fast_primitives.py::test_oversized_and_too_many_tagged_fields_are_refused"),
    ("mqcore/wire/frames.py:STRING_BYTES_MAX", "a string", "bytes",
     "The connection is closed.",
     "tests/unit/mqcore/wire/test_primitives.py::test_a_compact_string_has_the_limit_of_an_old_string"),
    ("mqcore/apis/fetch.py:WAITING_PARTITIONS_MAX", "partitions of all fetches that wait", "",
     "A fetch of more than 64 partitions is answered at once with what there is.",
     "tests/unit/mqcore/apis/test_waiting_fetch.py"
     "::test_large_fetches_do_not_wait_while_too_many_partitions_are_waiting"),
)  # fmt: skip

RESPONSES: Rows = (
    ("queued.max.response.bytes", "", "bytes",
     "Above half of it readers get pieces of 16 KiB; above it the connection that holds most is closed, one "
     "that does not read first.",
     "tests/conformance/test_abuse_memory.py::test_unread_answers_share_a_memory_budget"),
    ("fetch.max.bytes", "", "bytes",
     "The response has less than was asked for.",
     "tests/unit/mqcore/apis/test_waiting_fetch.py::test_a_full_response_does_not_wait_for_min_bytes"),
)  # fmt: skip

RECORDS: Rows = (
    ("mqcore/wire/records.py:DECOMPRESSED_BYTES_MAX",
     "what a batch may expand to while a client waits, unless it is larger itself", "bytes",
     "Produce to a compacted topic: CORRUPT_MESSAGE. ListOffsets by time: the batch's first offset.",
     "tests/unit/mqcore/partitions/test_validation.py"
     "::test_a_small_batch_expands_to_at_most_eight_mebibytes"),
    ("mqcore/wire/compression.py:GZIP_MEMBERS_MAX", "gzip members in a batch", "",
     "CORRUPT_MESSAGE, where records are looked at.",
     "tests/unit/mqcore/wire/test_compression.py::test_the_number_of_gzip_members_and_snappy_blocks_is_limited"),
    ("mqcore/wire/compression.py:SNAPPY_BLOCKS_MAX", "snappy blocks in a batch", "",
     "CORRUPT_MESSAGE, where records are looked at.",
     "tests/unit/mqcore/wire/test_compression.py::test_the_number_of_gzip_members_and_snappy_blocks_is_limited"),
    ("mqcore/partitions/producers.py:PRODUCERS_MAX", "idempotent producers of a partition", "",
     "The one that has been silent for longest is forgotten.",
     "tests/unit/mqcore/partitions/test_producers.py::test_the_longest_idle_producer_is_evicted_when_there_are_too_many"),
    ("mqcore/partitions/producers.py:BROKER_PRODUCERS_MAX", "idempotent producers of all partitions", "",
     "The partition with the most forgets those that have been silent for longest.",
     "tests/unit/mqcore/partitions/test_producers.py"
     "::test_invented_producers_evict_those_of_their_own_partition_only"),
)  # fmt: skip

CLUSTER: Rows = (
    ("mqcore/controller/topics.py:PARTITIONS_MAX", "partitions", "",
     "CreateTopics and CreatePartitions: INVALID_PARTITIONS.",
     "tests/unit/mqcore/controller/test_topics.py"
     "::test_the_partitions_of_a_broker_are_limited_over_all_topics_of_a_request"),
    ("mqcore/controller/config_changes.py:VALUE_BYTES_MAX", "a value of a setting", "bytes",
     "INVALID_CONFIG.",
     "tests/unit/mqcore/controller/test_config_changes.py::test_a_value_of_the_maximum_length_is_accepted"),
    ("mqcore/controller/config_changes.py:NUMBER_BYTES_MAX", "a number or boolean setting, with blanks", "bytes",
     "INVALID_CONFIG.",
     "tests/unit/mqcore/controller/test_config_changes.py::test_spaces_count_towards_the_length_of_a_number"),
    ("mqcore/broker.py:METADATA_BATCH_BYTES", "records of one request that changes metadata", "bytes",
     "POLICY_VIOLATION for every entry; nothing is written.",
     "tests/unit/mqcore/test_broker.py"
     "::test_a_request_with_more_metadata_than_a_batch_holds_is_rejected_without_effect"),
    ("mqcore/wire/records.py:OWN_BATCH_BYTES_MAX", "a batch of the broker's own records", "bytes",
     "The command is refused with POLICY_VIOLATION; nothing is written.",
     "tests/unit/mqcore/coordination/test_partition_journal.py"
     "::test_a_batch_that_no_reader_accepts_is_rejected_before_it_is_written"),
)  # fmt: skip

GROUP_LIMITS: Rows = (
    ("group.memory.max.bytes", "", "bytes",
     "A join, an assignment or a commit that does not fit is refused; heartbeats and rejoins go on.",
     "tests/unit/mqcore/groups/test_memory.py"
     "::test_a_join_that_exceeds_the_shared_budget_is_rejected"),
    ("mqcore/groups/coordinator.py:GROUPS_MAX", "groups", "",
     "A new group: POLICY_VIOLATION.",
     "tests/unit/mqcore/groups/test_coordinator_groups.py::test_the_number_of_groups_is_limited"),
    ("mqcore/groups/rules.py:MEMBERS_MAX", "members of a group", "",
     "JoinGroup: GROUP_MAX_SIZE_REACHED.",
     "tests/unit/mqcore/groups/test_joining.py::test_a_full_group_rejects_new_members"),
    ("GroupRules.max_member_bytes", "subscriptions of a member, or its assignment", "bytes",
     "JoinGroup or SyncGroup: INVALID_REQUEST.",
     "tests/unit/mqcore/groups/test_joining.py::test_the_size_of_a_member_is_limited"),
    ("mqcore/apis/join_group.py:_CLIENT_ID_CHARACTERS_MAX", "characters of a client id that a member keeps", "",
     "The rest is dropped: it is a label for tools.",
     "tests/unit/mqcore/apis/test_group_members.py::test_a_long_client_id_is_truncated"),
    ("GroupRules.max_offsets", "offsets of a group", "",
     "A partition that is new to the group is refused.",
     "tests/unit/mqcore/groups/test_offsets.py::test_the_offsets_of_a_group_are_limited_and_known_ones_can_still_be_committed"),
    ("GroupRules.max_commit_bytes", "texts in one commit", "bytes",
     "OffsetCommit is refused.",
     "tests/unit/mqcore/groups/test_offsets.py::test_the_size_of_a_commit_is_limited_to_one_batch"),
)  # fmt: skip

SALE: Rows = (
    ("seckill/web/request_limits.py:HEADER_BYTES_MAX", "headers of a request", "bytes",
     "431",
     "tests/unit/seckill/web/test_request_limits.py::test_headers_are_limited_in_total_including_their_names"),
    ("seckill/web/request_limits.py:COOKIE_BYTES_MAX", "cookies of a request", "bytes",
     "431",
     "tests/unit/seckill/web/test_request_limits.py::test_cookies_are_limited_in_total_over_all_their_headers"),
    ("seckill/web/request_limits.py:BODY_SECONDS_MAX", "time for a body to arrive", "s",
     "408, and the connection is closed",
     "tests/unit/gateway/test_http.py::test_a_body_that_does_not_arrive_in_time_is_refused_and_the_connection_closed"),
    ("seckill/config/settings.py:DATA_UPLOAD_MAX_MEMORY_SIZE", "a body", "bytes",
     "413; it is not read",
     "tests/unit/gateway/test_routes.py::test_a_body_that_is_too_large_for_django_is_not_read"),
    ("gateway/http.py:BODY_BYTES_MAX", "a body of the API", "bytes",
     "413",
     "tests/unit/gateway/test_bodies.py::test_a_body_that_is_not_a_small_json_object_is_refused"),
    ("gateway/purchase.py:WAITING_MAX", "purchases of one gateway process that wait for their outcome", "",
     "503; the rest of the shop goes on",
     "tests/concurrency/test_gateway_purchases.py"
     "::test_while_the_broker_stalls_a_limited_number_waits_and_the_rest_are_refused"),
    ("gateway/admission.py:USER_BURST", "purchases of one user at once", "",
     "429",
     "tests/concurrency/test_gateway_admission.py::test_the_rate_limit_of_a_user_affects_no_other_user"),
    ("gateway/admission.py:ADDRESS_BURST", "purchases of one address at once", "",
     "429",
     "tests/concurrency/test_gateway_admission.py::test_users_behind_one_address_share_its_rate_limit"),
    ("gateway/admission.py:TRIES_MAX", "requests of one user in a sale", "",
     "429",
     "tests/concurrency/test_gateway_hoarding.py::test_requests_per_user_and_sale_are_limited"),
    ("gateway/purchase.py:UNPAID_UNITS_MAX", "units that one address holds unpaid in a sale", "",
     "429",
     "tests/unit/gateway/test_unpaid_units.py::test_an_address_may_hold_a_share_of_the_sale_unpaid"),
    ("gateway/routes.py:STREAMS_SHARE", "share of a gateway's connections that event streams may use", "",
     "503: poll instead",
     "tests/unit/gateway/test_event_stream.py::test_a_full_process_refuses_another_stream_and_suggests_polling"),
    ("gateway/subscriptions.py:STREAMS_OF_ADDRESS_MAX", "streams of one address", "",
     "503",
     "tests/unit/gateway/test_event_stream.py"
     "::test_streams_per_request_and_per_address_are_limited_and_an_ended_stream_makes_room"),
    ("gateway/http.py:QUERY_FIELDS_MAX", "fields in a query", "",
     "400",
     "tests/unit/gateway/test_http.py::test_a_query_has_a_limited_number_of_fields"),
    ("seckill/console/login_limits.py:FAILURES_MAX", "failed logins of one address in a minute", "",
     "429",
     "tests/concurrency/test_console_login.py"
     "::test_after_some_failures_an_address_has_to_wait_even_with_the_right_password"),
    ("seckill/console/login_limits.py:FAILURES_PER_NAME_MAX", "failed logins of one name in a minute", "",
     "429",
     "tests/concurrency/test_console_login.py::test_changing_addresses_does_not_help_because_names_are_counted_too"),
)  # fmt: skip


class Limit(NamedTuple):
    name: str
    value: float
    unit: str
    at_the_limit: str
    test: str


def limits_of(rows: Rows) -> list[Limit]:
    return [Limit(*_named(source, what), unit, at, test) for source, what, unit, at, test in rows]


def _named(source: str, what: str) -> tuple[str, float]:
    path, _, name = source.partition(":")
    if name:
        return f"{what} (`{name}`)", constant(path, name)
    if source.startswith("GroupRules."):
        return what, getattr(GroupRules(), source.removeprefix("GroupRules."))
    return f"`{source}`", int(str(config.settings()[source].default))


def constant(path: str, name: str) -> float:
    """What the module assigns to the name, read without an import, because modules of the sale need Django."""
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            for at, found in enumerate(names):
                if isinstance(found, ast.Name) and found.id == name:
                    value: Any = getattr(node, "value", None)
                    return _number(value.elts[at] if isinstance(target, ast.Tuple) else value, path)
    raise LookupError(f"{path} assigns nothing to {name}")


def _number(node: ast.expr, path: str) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.BinOp(left, ast.Mult(), right):
            return _number(left, path) * _number(right, path)
        case ast.BinOp(left, ast.LShift(), right):
            return int(_number(left, path)) << int(_number(right, path))
        case ast.Name(id=name):
            return constant(path, name)
    raise LookupError(f"{path}: {ast.unparse(node)} is not a number")


def shown(limit: Limit) -> str:
    """The value in the unit that people would say."""
    if limit.unit == "bytes":
        for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
            if limit.value % size == 0:
                return f"{int(limit.value) // size} {unit}"
    number, unit = (limit.value / 1000, "s") if limit.unit == "ms" else (limit.value, limit.unit)
    return (f"{number:,.0f} {unit}" if number == int(number) else f"{number:g} {unit}").rstrip()


SECTIONS: tuple[tuple[str, list[Limit]], ...] = (
    ("Connections to the broker", limits_of(CONNECTIONS)),
    ("Requests", limits_of(REQUESTS)),
    ("Responses", limits_of(RESPONSES)),
    ("Records", limits_of(RECORDS)),
    ("Topics and settings", limits_of(CLUSTER)),
    ("Groups", limits_of(GROUP_LIMITS)),
    ("The sale", limits_of(SALE)),
)
