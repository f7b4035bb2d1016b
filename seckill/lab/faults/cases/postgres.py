"""Postgres restarts with open transactions, and connections break during COMMIT."""

from __future__ import annotations

from urllib.parse import urlsplit

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.connection_cutter import ConnectionCutter
from seckill.lab.faults.fault_run import FaultRun

CUTS = 6


@case("16", "postgres-restarted", "Postgres is restarted while transactions are open", crowd=CrowdPlan(over_s=8))
def restarted(run: FaultRun) -> Steps:
    open_transactions = 0

    def find_open() -> int:
        nonlocal open_transactions
        open_transactions = run.stack.database.writing_transactions()
        return open_transactions

    run.stack.wait_until(find_open, "a transaction that has written something", 30)
    run.stack.send("stop", name="postgres")
    run.stack.send("start", name="postgres")
    run.stack.wait_until_up("postgres")
    yield
    run.prove("transactions open then", open_transactions)


@case(
    "17", "commit-cut", "the connection to Postgres breaks during COMMIT, before or after the server gets it",
    crowd=CrowdPlan(over_s=8),
)  # fmt: skip
def commit_cut(run: FaultRun) -> Steps:
    address = urlsplit(run.stack.environment["SECKILL_DATABASE_URL"])
    cutter = ConnectionCutter(address.hostname or "127.0.0.1", address.port or 5432)
    relayed = address._replace(netloc=f"{address.netloc.rpartition('@')[0]}@127.0.0.1:{cutter.port}").geturl()
    run.stack.restart_with("inventory", SECKILL_DATABASE_URL=relayed)
    cutter.cut(CUTS)
    try:
        run.stack.wait_until(lambda: cutter.is_done, "all COMMITs to be cut")
        yield
    finally:
        run.stack.restart_with("inventory")
        run.stack.wait_until_up("inventory")
        cutter.close()
    run.prove("COMMITs whose response was lost", cutter.responses_lost)
    run.prove("COMMITs that were lost", cutter.commits_lost)
