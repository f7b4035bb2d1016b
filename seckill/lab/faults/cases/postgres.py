"""Postgres restarts with open transactions, connections break during COMMIT, and a standby takes over."""

from __future__ import annotations

from urllib.parse import urlsplit

from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import wait_for_decisions
from seckill.lab.faults.connection_cutter import ConnectionCutter
from seckill.lab.faults.fault_run import FaultRun
from seckill.stack.postgres_pair import PostgresPair

CUTS = 6


@case("16", "postgres-restarted", "Postgres is restarted while transactions are open", crowd=CrowdPlan(over_s=8))
def restarted(run: FaultRun) -> Steps:
    open_transactions = _await_open_transactions(run)
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


@case(
    "53", "postgres-failover",
    "kill -9 of the primary Postgres with open transactions; its synchronous standby is promoted",
    crowd=CrowdPlan(over_s=8), servers="postgres-pair",
)  # fmt: skip
def failover(run: FaultRun) -> Steps:
    """The old primary comes back while the sale goes on, and its address is the first of the two that every client
    tries: it must only read."""
    pair, database = run.stack.outside, run.stack.database
    assert isinstance(pair, PostgresPair)
    open_transactions = _await_open_transactions(run)
    pair.fail_over()
    decided = database.decided()
    wait_for_decisions(run, "decisions on the promoted server")
    pair.bring_back_as_standby()
    decided_there = database.decided()
    wait_for_decisions(run, "decisions beside the former primary")
    yield
    run.prove("transactions open then", open_transactions)
    run.prove("decisions after the promotion", database.decided() - decided)
    run.prove("decisions beside the former primary, which only reads", database.decided() - decided_there)
    assert not pair.accepts_writes(pair.standby), "the former primary accepts writes"


def _await_open_transactions(run: FaultRun) -> int:
    """Wait until a transaction has written something. Returns the number of such transactions."""
    count = 0

    def find_open() -> int:
        nonlocal count
        count = run.stack.database.writing_transactions()
        return count

    run.stack.wait_until(find_open, "a transaction that has written something", 30)
    return count
