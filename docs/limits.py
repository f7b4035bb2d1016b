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
     "tests/conformance/test_abuse.py::test_connections_are_limited_by_address_and_in_all"),
    ("max.connections.per.ip", "", "",
     "A new connection of the address (with IPv6: of the /64) is closed; other addresses are served.",
     "tests/conformance/test_abuse.py::test_silent_connections_of_one_address_keep_out_no_other"),
    ("mqcore/server/traffic.py:RESERVED_CONNECTIONS",
     "places kept for the listener that `inter.broker.listener.name` names", "",
     "A new connection of another listener is closed.",
     "tests/unit/mqcore/server/test_traffic.py::test_places_are_reserved_for_the_inner_listener"),
    ("first.request.timeout.ms", "", "ms",
     "A connection that has not sent its first request is closed.",
     "tests/unit/mqcore/server/test_traffic.py::test_a_connection_that_never_asks_is_closed_without_a_line_in_the_log"),
    ("request.receive.timeout.ms", "", "ms",
     "A connection whose request is still incomplete is closed.",
     "tests/conformance/test_abuse.py::test_one_byte_a_second_is_too_slow_and_hurts_nobody"),
    ("response.send.timeout.ms", "", "ms",
     "A connection whose client has acknowledged nothing for this long is closed; one that reads slowly is not.",
     "tests/conformance/test_abuse.py::test_a_reader_that_is_slow_but_reads_gets_everything"),
    ("connections.max.idle.ms", "", "ms",
     "A connection without requests is closed.",
     "tests/unit/mqcore/server/test_connection.py::test_an_idle_connection_is_overdue_but_not_one_that_waits"),
    ("mqcore/server/metrics_page.py:MOST_REQUESTS", "connections to the metrics page", "",
     "The oldest one is closed.",
     "tests/unit/mqcore/server/test_metrics_page.py::test_connections_that_ask_for_nothing_keep_nobody_out"),
)  # fmt: skip

REQUESTS: Rows = (
    ("mqcore/server/connection.py:FIRST_FRAME_BYTES_MAX", "first request of a connection", "bytes",
     "The connection is closed.",
     "tests/unit/mqcore/server/test_budgets.py::test_the_first_request_of_a_connection_is_small"),
    ("socket.request.max.bytes", "", "bytes",
     "The connection is closed before memory is taken. Topics may not set `max.message.bytes` above it.",
     "tests/unit/mqcore/server/test_connection.py"
     "::test_an_impossible_length_closes_the_connection_before_anything_is_allocated"),
    ("queued.max.request.bytes", "", "bytes",
     "The connection is not read until others have given memory back, and is closed after the receive timeout. "
     "Idle buffers are taken back first; requests above 1 MiB take three quarters at most, one address a half.",
     "tests/conformance/test_abuse.py::test_half_received_requests_share_a_budget"),
    ("queued.max.requests", "", "",
     "The connection is not read until a request is answered.",
     "tests/unit/mqcore/server/test_connection.py"
     "::test_a_client_that_pipelines_without_end_is_not_read_while_its_requests_wait"),
    ("mqcore/server/connection.py:MOST_WAITING_BYTES", "requests and responses of one connection that wait", "bytes",
     "The connection is not read until fewer wait; one request may always wait.",
     "tests/unit/mqcore/server/test_connection.py::test_large_requests_that_wait_count_by_their_bytes"),
    ("mqcore/server/connection.py:FRAMES_A_TURN", "requests of one connection in one turn of the event loop", "",
     "The next ones wait for a turn, so others are served.",
     "tests/unit/mqcore/server/test_connection.py::test_who_sends_without_end_lets_others_have_their_turn"),
    ("mqcore/server/connection.py:SECONDS_A_TURN", "time for requests of one connection in one turn", "s",
     "The same: a request that takes longer is alone in its turn.",
     "tests/unit/mqcore/server/test_budgets.py::test_a_client_whose_requests_take_long_gets_one_of_them_in_a_turn"),
    ("mqcore/wire/reader.py:MAX_ELEMENTS", "array elements in one request", "",
     "The connection is closed.",
     "tests/unit/mqcore/apis/test_bombs.py::test_a_crowd_of_the_smallest_things_is_bounded_in_all"),
    ("mqcore/wire/frames.py:MAX_TAGS", "tagged fields in one place of a request", "",
     "The connection is closed.",
     "tests/unit/mqcore/wire/test_hot.py::test_tagged_fields_that_do_not_fit_or_are_too_many_are_refused"),
    ("mqcore/wire/frames.py:STRING_BYTES_MAX", "a string", "bytes",
     "The connection is closed.",
     "tests/unit/mqcore/wire/test_primitives.py::test_a_compact_string_is_no_longer_than_one_of_the_older_kind"),
    ("mqcore/apis/fetch.py:WAITING_PARTITIONS_MAX", "partitions of all fetches that wait", "",
     "A fetch of more than 64 partitions is answered at once with what there is.",
     "tests/unit/mqcore/apis/test_waiting_fetch.py"
     "::test_fetches_of_many_partitions_do_not_wait_when_too_many_partitions_are_waited_for"),
)  # fmt: skip

RESPONSES: Rows = (
    ("queued.max.response.bytes", "", "bytes",
     "Above half of it readers get pieces of 16 KiB; above it the connection that holds most is closed, one "
     "that does not read first.",
     "tests/conformance/test_abuse.py::test_answers_that_clients_do_not_read_share_a_budget"),
    ("fetch.max.bytes", "", "bytes",
     "The response has less than was asked for.",
     "tests/unit/mqcore/apis/test_waiting_fetch.py::test_a_full_answer_does_not_wait_for_more_bytes_than_it_may_hold"),
)  # fmt: skip

RECORDS: Rows = (
    ("mqcore/wire/records.py:DECOMPRESSED_BYTES_MAX",
     "what a batch may expand to while a client waits, unless it is larger itself", "bytes",
     "Produce to a compacted topic: CORRUPT_MESSAGE. ListOffsets by time: the batch's first offset.",
     "tests/unit/mqcore/partitions/test_validation.py"
     "::test_a_small_batch_expands_to_eight_mebibytes_at_most_whatever_the_topic_allows"),
    ("mqcore/wire/compression.py:GZIP_MEMBERS_MAX", "gzip members in a batch", "",
     "CORRUPT_MESSAGE, where records are looked at.",
     "tests/unit/mqcore/wire/test_compression.py::test_parts_of_a_stream_are_counted_because_each_takes_time"),
    ("mqcore/wire/compression.py:SNAPPY_BLOCKS_MAX", "snappy blocks in a batch", "",
     "CORRUPT_MESSAGE, where records are looked at.",
     "tests/unit/mqcore/wire/test_compression.py::test_parts_of_a_stream_are_counted_because_each_takes_time"),
    ("mqcore/partitions/producers.py:MOST_PRODUCERS", "idempotent producers of a partition", "",
     "The one that has been silent for longest is forgotten.",
     "tests/unit/mqcore/partitions/test_producers.py::test_the_longest_silent_producer_goes_when_there_are_too_many"),
    ("mqcore/partitions/producers.py:BROKER_PRODUCERS_MAX", "idempotent producers of all partitions", "",
     "The partition with the most forgets those that have been silent for longest.",
     "tests/unit/mqcore/partitions/test_producers.py"
     "::test_a_made_up_producer_pushes_out_those_of_its_own_partition_not_of_others"),
)  # fmt: skip

CLUSTER: Rows = (
    ("mqcore/controller/topics.py:MOST_PARTITIONS", "partitions", "",
     "CreateTopics and CreatePartitions: INVALID_PARTITIONS.",
     "tests/unit/mqcore/controller/test_topics.py"
     "::test_the_partitions_of_a_broker_are_bounded_over_all_topics_of_a_request"),
    ("mqcore/controller/configs.py:LONGEST_VALUE", "a value of a setting", "bytes",
     "INVALID_CONFIG.",
     "tests/unit/mqcore/controller/test_configs.py::test_the_longest_value_is_taken"),
    ("mqcore/controller/configs.py:LONGEST_NUMBER", "a number or a boolean of a setting, blanks included", "bytes",
     "INVALID_CONFIG.",
     "tests/unit/mqcore/controller/test_configs.py::test_blanks_do_not_make_a_number_as_long_as_a_text"),
    ("mqcore/broker.py:METADATA_BATCH_BYTES", "records of one request that changes metadata", "bytes",
     "POLICY_VIOLATION for every entry; nothing is written.",
     "tests/unit/mqcore/test_broker.py"
     "::test_requests_that_make_more_metadata_than_a_batch_holds_are_refused_and_harm_nobody"),
    ("mqcore/wire/records.py:LIMIT_BYTES", "a batch of the broker's own records, when written and when read", "bytes",
     "The command is refused with POLICY_VIOLATION; nothing is written.",
     "tests/unit/mqcore/coordination/test_partition_journal.py"
     "::test_what_no_reader_would_take_is_refused_before_anything_is_written"),
)  # fmt: skip

GROUP_LIMITS: Rows = (
    ("group.memory.max.bytes", "", "bytes",
     "A join, an assignment or a commit that does not fit is refused; heartbeats and rejoins go on.",
     "tests/unit/mqcore/groups/test_memory.py"
     "::test_all_groups_share_one_budget_and_a_join_that_does_not_fit_is_refused"),
    ("mqcore/groups/coordinator.py:MAX_GROUPS", "groups", "",
     "A new group: POLICY_VIOLATION.",
     "tests/unit/mqcore/groups/test_coordinator.py::test_there_are_only_so_many_groups"),
    ("mqcore/groups/rules.py:MOST_MEMBERS", "members of a group", "",
     "JoinGroup: GROUP_MAX_SIZE_REACHED.",
     "tests/unit/mqcore/groups/test_joining.py::test_a_full_group_takes_nobody_in"),
    ("GroupRules.max_member_bytes", "subscriptions of a member, or its assignment", "bytes",
     "JoinGroup or SyncGroup: INVALID_REQUEST.",
     "tests/unit/mqcore/groups/test_joining.py::test_a_member_cannot_be_larger_than_its_limits"),
    ("mqcore/apis/join_group.py:_LONGEST_CLIENT_ID", "characters of a client id that a member keeps", "",
     "The rest is dropped: it is a label for tools.",
     "tests/unit/mqcore/apis/test_group_apis.py::test_a_member_keeps_the_beginning_of_a_long_client_id"),
    ("GroupRules.max_offsets", "offsets of a group", "",
     "A partition that is new to the group is refused.",
     "tests/unit/mqcore/groups/test_offsets.py::test_a_group_keeps_only_so_many_offsets_but_those_can_go_on"),
    ("GroupRules.max_commit_bytes", "texts in one commit", "bytes",
     "OffsetCommit is refused.",
     "tests/unit/mqcore/groups/test_offsets.py::test_a_commit_is_not_larger_than_one_batch_can_be"),
)  # fmt: skip

SALE: Rows = (
    ("seckill/request_limits.py:HEADER_BYTES_MAX", "headers of a request", "bytes",
     "431",
     "tests/unit/seckill/test_request_limits.py::test_all_headers_together_have_a_limit_names_included"),
    ("seckill/request_limits.py:COOKIE_BYTES_MAX", "cookies of a request", "bytes",
     "431",
     "tests/unit/seckill/test_request_limits.py::test_cookies_have_a_limit_however_many_headers_they_come_in"),
    ("seckill/request_limits.py:BODY_SECONDS_MAX", "time for a body to arrive", "s",
     "408, and the connection is closed",
     "tests/unit/seckill/test_serving.py::test_a_body_that_does_not_arrive_in_time_is_408_and_ends_the_connection"),
    ("seckill/settings.py:DATA_UPLOAD_MAX_MEMORY_SIZE", "a body", "bytes",
     "413; it is not read",
     "tests/unit/seckill/test_serving.py::test_a_body_that_is_too_large_is_not_read"),
    ("gateway/views.py:MOST_BODY", "a body of the API", "bytes",
     "413",
     "tests/unit/gateway/test_bodies.py::test_a_body_is_a_small_object_or_refused"),
    ("gateway/door.py:ROOM_ON_LOOP", "purchases of one gateway process that wait for their outcome", "",
     "503; the rest of the shop goes on",
     "tests/journeys/test_gateway.py::test_when_all_connections_wait_orders_are_503_and_the_rest_goes_on"),
    ("gateway/admission.py:USER_BURST", "purchases of one user at once", "",
     "429",
     "tests/concurrency/test_gateway_admission.py::test_a_bucket_runs_empty_for_its_user_and_for_nobody_else"),
    ("gateway/admission.py:ADDRESS_BURST", "purchases of one address at once", "",
     "429",
     "tests/concurrency/test_gateway_admission.py::test_many_users_of_one_address_share_its_bucket"),
    ("gateway/admission.py:TRIES_MAX", "requests of one user in a sale", "",
     "429",
     "tests/concurrency/test_gateway_hoarding.py::test_a_user_has_so_many_tries_in_a_sale"),
    ("gateway/desk.py:UNPAID_MAX", "units that one address holds unpaid in a sale", "",
     "429",
     "tests/unit/gateway/test_desk.py::test_an_address_may_hold_a_share_of_the_sale_unpaid"),
    ("gateway/live.py:MOST_STREAMS", "streams of events", "",
     "503: poll instead",
     "tests/unit/gateway/test_live.py::test_a_full_house_says_to_poll"),
    ("gateway/streaming.py:STREAMS_OF_ADDRESS_MAX", "streams of one address", "",
     "503",
     "tests/unit/gateway/test_live.py"
     "::test_a_request_has_few_streams_and_an_address_some_and_both_get_room_when_one_ends"),
    ("gateway/live.py:QUERY_BYTES_MAX", "the query of a stream", "bytes",
     "400",
     "tests/unit/gateway/test_live.py::test_what_is_too_long_or_unreadable_is_refused_before_it_is_parsed"),
    ("seckill/console/login_limits.py:MOST_FAILURES", "failed logins of one address in a minute", "",
     "429",
     "tests/concurrency/test_console_login.py"
     "::test_after_some_failures_an_address_has_to_wait_even_with_the_right_password"),
    ("seckill/console/login_limits.py:FAILURES_PER_NAME_MAX", "failed logins of one name in a minute", "",
     "429",
     "tests/concurrency/test_console_login.py::test_made_up_addresses_do_not_help_because_the_name_is_counted_too"),
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
