"""✗ What the report must find: changed books, removed safeguards, missing evidence."""

from __future__ import annotations

from kafka import KafkaAdminClient

from seckill.config.kafka_clients import client_options
from seckill.lab import damage
from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.fault_run import FaultRun
from seckill.report.sources import topics

FORGED_UNITS = 50


@case(
    "15b", "stock-forged", f"someone raises the stock row in Postgres by {FORGED_UNITS} units, by hand",
    crowd=CrowdPlan(units=20), must_break=("I2",),
)  # fmt: skip
def stock_forged(run: FaultRun) -> Steps:
    raised = damage.raise_stock(run.stack.database, run.sale, FORGED_UNITS)
    yield
    run.prove("rows forged", raised)
    run.record("units taken of 20", run.stack.database.active_units(run.sale))


@case(
    "18", "unique-index-dropped", "the unique index is dropped, and buyers get a second purchase",
    must_break=("I12",),
)  # fmt: skip
def unique_index_dropped(run: FaultRun) -> Steps:
    run.stack.wait_until(run.stack.database.sold_holds, "a unit to be sold")
    damage.drop_one_purchase_index(run.stack.database)
    duplicated = damage.duplicate_sold_holds(run.stack.database)
    yield
    run.prove("second purchases forced in", duplicated)


@case(
    "37", "log-head-deleted", "retention deletes the beginning of the request topic before the report reads it",
    must_break=("I7",), after_sale=True,
)  # fmt: skip
def log_head_deleted(run: FaultRun) -> Steps:
    ends = {
        place: end for place, end in topics.topic_ends(run.stack.broker).items() if place.topic == "purchase.requests"
    }
    admin = KafkaAdminClient(**client_options(run.stack.broker))
    admin.delete_records({place: end // 2 for place, end in ends.items() if end > 1})
    admin.close()
    yield
    run.prove("records deleted", sum(end // 2 for end in ends.values()))


@case("38", "crowd-log-lost", "the log of one load generator is lost", must_break=("I7", "I8"), after_sale=True)
def crowd_log_lost(run: FaultRun) -> Steps:
    size = len(run.crowd.log.read_bytes())
    run.crowd.log.unlink()
    yield
    run.prove("bytes lost", size)
