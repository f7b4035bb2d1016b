"""What the measures make of records: a small sale whose numbers can be counted on fingers, through real Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from analytics import schemas, shapes, sinks
from analytics.measures import MEASURES
from seckill.topics import ORDER_EVENTS, PURCHASE_REQUESTS
from tests.spark import BEGAN_MS, SALE, SKU, message, story, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.needs("java"), pytest.mark.filterwarnings("ignore")]

RECORDS = "topic string, partition int, offset bigint, log_ms bigint, value binary"


def frame(spark: SparkSession, rows: list[Any]) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.createDataFrame(rows, RECORDS).withColumn("read_at", f.timestamp_millis("log_ms"))


ODD: dict[str, tuple[object, str | None]] = {
    "as it should be": (message(), None),
    "with a field of a later version": (message(colour="red"), None),
    "no JSON": (b"\xff{{", "no envelope"),
    "no object": ([1, 2], "no envelope"),
    "nothing": (None, "no value"),
    "no body": (message(body=None), "no envelope"),
    "a type nobody knows": (message(type="PurchaseWished"), "unknown type"),
    "the type of another topic": (message(type="OrderPaid"), "unknown type"),
    "a version from the future": (message(version=99), "unknown version"),
    "a quantity in words": (message(quantity="many"), "incomplete body"),
    "half a unit": (message(quantity=0.5), "incomplete body"),
    "no user": (message(user_id=None), "incomplete body"),
    "no identity": (message(event_id="x"), "incomplete body"),
    "a quantity that overflows": (message(quantity=2**62), "impossible value"),
    "less than nothing": (message(quantity=-1), "impossible value"),
    "a time before time": (message(admitted_at_ms=-5), "impossible value"),
    "a name that Postgres cannot hold": (message(user_id="a\0b"), "impossible value"),
    "a name without end": (message(user_id="a" * 300), "impossible value"),
    "another's identity": (message(event_id="0" * 36), "the event id is not the request id"),
}


@pytest.fixture(scope="module")
def faults(spark: SparkSession) -> dict[str, str | None]:
    contents = [each if each is None or isinstance(each, bytes) else written(each) for each, _ in ODD.values()]
    rows = [
        (PURCHASE_REQUESTS.name, 0, number, BEGAN_MS, None if content is None else bytearray(content))
        for number, content in enumerate(contents)
    ]
    found = schemas.events(frame(spark, rows)).select("offset", "fault").collect()
    names = list(ODD)
    return {names[row.offset]: row.fault for row in found}


@pytest.mark.parametrize("name", ODD)
def test_a_message_is_readable_or_it_is_said_why_not(faults: dict[str, str | None], name: str) -> None:
    assert faults[name] == ODD[name][1]


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    """All measures of the story, as they go to Postgres."""
    return measured(frame(spark, story().rows()))


def measured(records: DataFrame, *, with_duplicates: bool = False) -> dict[str, list[dict[str, Any]]]:
    said = shapes.numbered(schemas.events(records))
    unique = said if with_duplicates else shapes.distinct(said, "")
    rows = sinks.computed({"record": said, "event": unique, "step": shapes.steps(unique, "")}).collect()
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row.measure].append(json.loads(row.row))
    return found


def total(rows: list[dict[str, Any]], column: str, **wanted: object) -> int:
    return sum(row[column] for row in rows if all(row[name] == value for name, value in wanted.items()))


def test_each_event_counts_once_however_often_it_stands_in_the_log(counted: dict[str, list[dict[str, Any]]]) -> None:
    totals = counted["total"]
    assert total(totals, "events", kind="PurchaseRequested") == 12 + 6 + 1
    assert total(totals, "events", kind="RESERVED") == 3
    assert total(totals, "events", kind="SOLD_OUT") == 9 + 1
    assert total(totals, "events", kind="DUPLICATE") == 5
    assert total(totals, "events", kind="OrderPaid") == 1
    assert total(totals, "events", kind="UnitsReleased") == 1


def test_without_the_rule_duplicates_would_be_counted(spark: SparkSession) -> None:
    totals = measured(frame(spark, story().rows()), with_duplicates=True)["total"]
    assert total(totals, "events", kind="PurchaseRequested") == 12 + 6 + 1 + 2 * 2


def test_of_the_copies_of_an_event_the_first_in_the_log_counts(spark: SparkSession) -> None:
    said = bytearray(written(message()))
    places = [(PURCHASE_REQUESTS.name, partition, offset) for partition, offset in ((1, 2), (0, 9), (1, 0), (0, 8))]
    rows = [(*place, BEGAN_MS, said) for place in places]
    found = shapes.numbered(schemas.events(frame(spark, rows))).select("partition", "offset", "copy").collect()
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


def test_what_came_late_is_counted_and_counted_as_late(counted: dict[str, list[dict[str, Any]]]) -> None:
    assert total(counted["total"], "late") == 1


def test_times_are_taken_from_admission(counted: dict[str, list[dict[str, Any]]]) -> None:
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


def test_a_robot_stands_out_among_buyers(counted: dict[str, list[dict[str, Any]]]) -> None:
    [robot] = [row for row in counted["buyer"] if row["user_id"] == "robot"]
    assert (robot["requests"], robot["refused"], robot["granted"]) == (6, 5, 0)
    assert robot["last_ms"] - robot["first_ms"] == 250


def test_who_came_first_is_seen_beside_who_was_served(counted: dict[str, list[dict[str, Any]]]) -> None:
    assert (total(counted["fairness"], "granted"), total(counted["fairness"], "refused")) == (3, 10)


def test_a_stream_and_a_batch_add_up_the_same_tables() -> None:
    """The table of measures names exactly the columns of the tables in the database."""
    from django.apps import apps

    tables = {model._meta.db_table: model for model in apps.get_app_config("analytics").get_models()}
    for measure in MEASURES:
        columns = {field.column for field in tables[f"analytics_{measure.name}"]._meta.concrete_fields}
        assert columns - {"id", "run_id"} == {*measure.keys, *measure.columns}
