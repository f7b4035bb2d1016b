"""Shell: damage done to the services' tables on purpose; the report has to find it, or the services to survive it."""

from __future__ import annotations

from seckill.lab.sale_database import SaleDatabase


def raise_stock(database: SaleDatabase, sale: int, units: int) -> int:
    """Claim more units than were ever declared; the number of stock rows changed."""
    return database.execute("UPDATE inventory_stock SET available = available + %s WHERE sale_id = %s", units, sale)


def drop_one_purchase_index(database: SaleDatabase) -> None:
    """Without this index Postgres no longer refuses a second purchase of the same buyer."""
    database.execute("DROP INDEX inventory_hold_one_active")


def duplicate_sold_holds(database: SaleDatabase) -> int:
    """Give up to three buyers a second sold unit. Returns the number of buyers."""
    return database.execute(
        "INSERT INTO inventory_hold (request_id, stock_id, sale_id, user_id, quantity, state, origin)"
        " SELECT gen_random_uuid(), stock_id, sale_id, user_id, quantity, 'sold', origin"
        " FROM (SELECT * FROM inventory_hold WHERE state = 'sold' LIMIT 3) AS held"
    )


def replace_event(database: SaleDatabase, row: int, value: bytes) -> None:
    """Rewrite an event in an outbox before the relay publishes it."""
    database.execute("UPDATE streams_outbox SET value = %s WHERE id = %s", value, row)


def switch_group(database: SaleDatabase, group: str, *, on: bool) -> None:
    """Turn a consumer group off or on by its row, as `seckill` does."""
    if on:
        database.execute("DELETE FROM streams_switch WHERE consumer_group = %s", group)
    else:
        database.execute("INSERT INTO streams_switch VALUES (%s, now())", group)
