"""Postgres goes away with transactions open, and connections are lost during COMMIT."""

from __future__ import annotations

from urllib.parse import urlsplit

from seckill.faults.case import Acts, Rush, case
from seckill.faults.cutting import Cutter
from seckill.faults.world import World

CUTS = 6


@case("16", "postgres-restarted", "Postgres is restarted in the middle of transactions", rush=Rush(over_s=8))
def restarted(world: World) -> Acts:
    """Transactions that have written something, seen in the very moment before."""
    open_then = 0

    def writes() -> int:
        nonlocal open_then
        open_then = world.count("pg_stat_activity WHERE backend_xid IS NOT NULL AND application_name = 'seckill'")
        return open_then

    world.wait_until(writes, "a transaction to be open", 30)
    world.word("stop", name="postgres")
    world.word("start", name="postgres")
    world.wait_until(lambda: world.is_up("postgres"), "Postgres to be back")
    yield
    world.proves("transactions open then", open_then)


@case("17", "commit-cut", "the connection is lost during COMMIT: before it, or after it", rush=Rush(over_s=8))
def commit_cut(world: World) -> Acts:
    address = urlsplit(world.environment["SECKILL_DATABASE_URL"])
    cutter = Cutter(address.hostname or "127.0.0.1", address.port or 5432)
    through = address._replace(netloc=f"{address.netloc.rpartition('@')[0]}@127.0.0.1:{cutter.port}").geturl()
    world.restart_with("inventory", SECKILL_DATABASE_URL=through)
    cutter.cut(CUTS)
    try:
        world.wait_until(lambda: cutter.is_done, "all COMMITs to be cut")
        yield
    finally:
        world.restart_with("inventory")
        world.wait_until(lambda: world.is_up("inventory"), "inventory to be up")
        cutter.close()
    world.proves("COMMITs whose answer was lost", cutter.answers_lost)
    world.proves("COMMITs that were lost", cutter.commits_lost)
