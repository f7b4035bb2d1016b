"""✗ What must not pass: books that were forged, guards that were taken away, evidence that is gone."""

from __future__ import annotations

from kafka import KafkaAdminClient

from seckill.consistency.sources import topics
from seckill.faults.case import Acts, Rush, case
from seckill.faults.world import World

LIE = 50


@case(
    "15b", "stock-forged", f"the stock row in Postgres is raised by {LIE}, by hand", rush=Rush(units=20), breaks=("I2",)
)
def stock_forged(world: World) -> Acts:
    raised = world.change("UPDATE inventory_stock SET available = available + %s WHERE sale_id = %s", LIE, world.sale)
    yield
    world.proves("rows forged", raised)
    [[active]] = world.query(
        "SELECT coalesce(sum(quantity), 0) FROM inventory_hold WHERE sale_id = %s AND state <> 'released'", world.sale
    )
    world.tells("units given away of 20", int(active))


@case("18", "unique-index-dropped", "the unique index is dropped and a second purchase forced in", breaks=("I12",))
def unique_index_dropped(world: World) -> Acts:
    world.wait_until(lambda: world.count("inventory_hold WHERE state = 'sold'"), "somebody to have bought")
    world.change("DROP INDEX inventory_hold_one_active")
    forced = world.change(
        "INSERT INTO inventory_hold (request_id, stock_id, sale_id, user_id, quantity, state, origin) "
        "SELECT gen_random_uuid(), stock_id, sale_id, user_id, quantity, 'sold', origin "
        "FROM (SELECT * FROM inventory_hold WHERE state = 'sold' LIMIT 3) AS held"
    )
    yield
    world.proves("second purchases forced in", forced)


@case("37", "log-head-deleted", "retention has taken the head of the log before the report", breaks=("I7",), late=True)
def log_head_deleted(world: World) -> Acts:
    ends = {place: end for place, end in topics.cut(world.broker).items() if place.topic == "purchase.requests"}
    admin = KafkaAdminClient(bootstrap_servers=world.broker)
    admin.delete_records({place: end // 2 for place, end in ends.items() if end > 1})
    admin.close()
    yield
    world.proves("records deleted", sum(end // 2 for end in ends.values()))


@case("38", "crowd-log-lost", "the log of one load worker is lost", breaks=("I7", "I8"), late=True)
def crowd_log_lost(world: World) -> Acts:
    assert world.crowd is not None
    lost = len(world.crowd.log.read_bytes())
    world.crowd.log.unlink()
    yield
    world.proves("bytes lost", lost)
