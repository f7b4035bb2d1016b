"""What the measures compute from the records of a small sale, with real Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from analytics import frame_shapes, schemas, sinks
from analytics.measures import MEASURES
from seckill.messaging.topics import ORDER_EVENTS, PURCHASE_REQUESTS
from tests.spark import BEGAN_MS, SALE, SKU, message, story, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.needs("java"), pytest.mark.filterwarnings("ignore")]

RECORDS = "topic string, partition int, offset bigint, log_ms bigint, value binary"


def frame(spark: SparkSession, rows: list[Any]) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.createDataFrame(rows, RECORDS).withColumn("read_at", f.timestamp_millis("log_ms"))


ODD: dict[str, tuple[object, str | None]] = {
    "a valid message": (message(), None),
    "an additional field": (message(colour="red"), None),
    "not JSON": (b"\xff{{", "no envelope"),
    "not an object": ([1, 2], "no envelope"),
    "no value": (None, "no value"),
    "no body": (message(body=None), "no envelope"),
    "an unknown type": (message(type="PurchaseWished"), "unknown type"),
    "the type of another topic": (message(type="OrderPaid"), "unknown type"),
    "a newer version": (message(version=99), "unknown version"),
    "a quantity as text": (message(quantity="many"), "incomplete body"),
    "half a unit": (message(quantity=0.5), "incomplete body"),
    "no user": (message(user_id=None), "incomplete body"),
    "no event id": (message(event_id="x"), "incomplete body"),
    "a quantity that overflows": (message(quantity=2**62), "impossible value"),
    "a negative quantity": (message(quantity=-1), "impossible value"),
    "a negative time": (message(admitted_at_ms=-5), "impossible value"),
    "a user name that Postgres cannot store": (message(user_id="a\0b"), "impossible value"),
    "a user name that is too long": (message(user_id="a" * 300), "impossible value"),
    "another event id": (message(event_id="0" * 36), "the event id differs from the request id"),
}


@pytest.fixture(scope="module")
def faults(spark: SparkSession) -> dict[str, str | None]:
    contents = [each if each is None or isinstance(each, bytes) else written(each) for each, _ in ODD.values()]
    rows = [
        (PURCHASE_REQUESTS.name, 0, number, BEGAN_MS, None if content is None else bytearray(content))
        for number, content in enumerate(contents)
    ]
    found = schemas.parse_events(frame(spark, rows)).select("offset", "fault").collect()
    names = list(ODD)
    return {names[row.offset]: row.fault for row in found}


@pytest.mark.parametrize("name", ODD)
def test_a_message_is_parsed_or_its_fault_is_named(faults: dict[str, str | None], name: str) -> None:
    assert faults[name] == ODD[name][1]


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    """All measures of the story as they are written to Postgres."""
    return measured(frame(spark, story().rows()))


def measured(records: DataFrame, *, with_duplicates: bool = False) -> dict[str, list[dict[str, Any]]]:
    said = frame_shapes.with_copy_numbers(schemas.parse_events(records))
    unique = said if with_duplicates else frame_shapes.distinct_events(said, "")
    rows = sinks.compute_measures(
        {"record": said, "event": unique, "step": frame_shapes.request_steps(unique, "")}
    ).collect()
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row.measure].append(json.loads(row.row))
    return found


def total(rows: list[dict[str, Any]], column: str, **wanted: object) -> int:
    return sum(row[column] for row in rows if all(row[name] == value for name, value in wanted.items()))


def test_each_event_counts_once_however_often_it_is_in_the_log(counted: dict[str, list[dict[str, Any]]]) -> None:
    totals = counted["total"]
    assert total(totals, "events", kind="PurchaseRequested") == 12 + 6 + 1
    assert total(totals, "events", kind="RESERVED") == 3
    assert total(totals, "events", kind="SOLD_OUT") == 9 + 1
    assert total(totals, "events", kind="DUPLICATE") == 5
    assert total(totals, "events", kind="OrderPaid") == 1
    assert total(totals, "events", kind="UnitsReleased") == 1


def test_without_deduplication_duplicates_would_be_counted(spark: SparkSession) -> None:
    totals = measured(frame(spark, story().rows()), with_duplicates=True)["total"]
    assert total(totals, "events", kind="PurchaseRequested") == 12 + 6 + 1 + 2 * 2


def test_of_the_copies_of_an_event_the_first_in_the_log_counts(spark: SparkSession) -> None:
    said = bytearray(written(message()))
    places = [(PURCHASE_REQUESTS.name, partition, offset) for partition, offset in ((1, 2), (0, 9), (1, 0), (0, 8))]
    rows = [(*place, BEGAN_MS, said) for place in places]
    found = (
        frame_shapes.with_copy_numbers(schemas.parse_events(frame(spark, rows)))
        .select("partition", "offset", "copy")
        .collect()
    )
    assert sorted((row.copy, row.partition, row.offset) for row in found) == [
        (1, 0, 8),
        (2, 0, 9),
        (3, 1, 0),
        (4, 1, 2),
    ]


def test_records_are_distinct_events_duplicates_and_unreadable_ones(counted: dict[str, list[dict[str, Any]]]) -> None:
    [requests] = [row for row in counted["partition"] if row["topic"] == PURCHASE_REQUESTS.name]
    assert (requests["records"], requests["first_offset"], requests["next_offset"]) == (16, 0, 16)
    assert {(row["topic"], row["fault"]): row["records"] for row in counted["unreadable"]} == {
        (PURCHASE_REQUESTS.name, "no envelope"): 1,
        (ORDER_EVENTS.name, "no value"): 1,
    }


def test_late_events_are_counted_and_counted_as_late(counted: dict[str, list[dict[str, Any]]]) -> None:
    assert total(counted["total"], "late") == 1


def test_latencies_are_measured_from_admission(counted: dict[str, list[dict[str, Any]]]) -> None:
    latency = {stage: total(counted["latency"], "events", stage=stage) for stage in ("decision", "order", "payment")}
    assert latency == {"decision": 18, "order": 3, "payment": 1}
    assert max(row["most_ms"] for row in counted["latency"] if row["stage"] == "order") == 40


def test_units_money_and_articles_add_up(counted: dict[str, list[dict[str, Any]]]) -> None:
    sold = counted["sell_through"]
    assert (total(sold, "reserved"), total(sold, "released"), total(sold, "sold")) == (3, 1, 1)
    assert (total(counted["revenue"], "orders"), total(counted["revenue"], "amount")) == (1, 9_900)
    assert counted["sku"] == [
        {"sale_id": SALE, "sku": SKU, "requests": 19, "wanted": 19, "reserved": 3, "sold_out": 10}
    ]


def test_a_bot_stands_out_among_buyers(counted: dict[str, list[dict[str, Any]]]) -> None:
    [robot] = [row for row in counted["buyer"] if row["user_id"] == "robot"]
    assert (robot["requests"], robot["refused"], robot["granted"]) == (6, 5, 0)
    assert robot["last_ms"] - robot["first_ms"] == 250


def test_granted_and_refused_requests_are_counted_by_time_of_arrival(counted: dict[str, list[dict[str, Any]]]) -> None:
    assert (total(counted["fairness"], "granted"), total(counted["fairness"], "refused")) == (3, 10)


def test_measures_name_exactly_the_columns_of_their_tables() -> None:
    """The table of measures names exactly the columns of the tables in the database."""
    from django.apps import apps

    tables = {model._meta.db_table: model for model in apps.get_app_config("analytics").get_models()}
    for measure in MEASURES:
        columns = {field.column for field in tables[f"analytics_{measure.name}"]._meta.concrete_fields}
        assert columns - {"id", "run_id"} == {*measure.keys, *measure.columns}
