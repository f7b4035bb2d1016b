"""A Redis master is lost with what it had not yet replicated, and its replica is promoted."""

from __future__ import annotations

from seckill.config.redis_address import HASH_TAG
from seckill.lab.faults.case import CrowdPlan, Steps, case
from seckill.lab.faults.cases.crash_points import count_refused, wait_for_decisions
from seckill.lab.faults.fault_run import FaultRun
from seckill.stack.redis_groups import RedisCluster, RedisSentinels


@case(
    "54", "redis-cluster-failover",
    "kill -9 of the master with admission's keys, then of the one with the sale's gate; their replicas are promoted",
    crowd=CrowdPlan(over_s=12), servers="redis-cluster",
)  # fmt: skip
def cluster_failover(run: FaultRun) -> Steps:
    cluster, database = run.stack.outside, run.stack.database
    assert isinstance(cluster, RedisCluster)
    epoch = database.gate_epoch(run.sale)
    for key in (HASH_TAG, f"sale:{{{run.sale}}}:gate"):
        killed = cluster.fail_over(key)
        wait_for_decisions(run, "decisions after the promotion")
        cluster.bring_back(killed)
    yield
    run.prove("times the gate was rebuilt", database.gate_epoch(run.sale) - epoch)
    run.prove("attempts turned away", count_refused(run))


@case(
    "55", "redis-sentinel-failover",
    "kill -9 of the master of admission, gate and Celery; the Sentinels promote its replica",
    crowd=CrowdPlan(over_s=10), servers="redis-sentinels",
)  # fmt: skip
def sentinel_failover(run: FaultRun) -> Steps:
    sentinels, database = run.stack.outside, run.stack.database
    assert isinstance(sentinels, RedisSentinels)
    epoch = database.gate_epoch(run.sale)
    killed = sentinels.fail_over()
    sent = len(run.stack.sandbox_log("sinks"))
    wait_for_decisions(run, "decisions after the promotion")
    run.stack.wait_until(lambda: len(run.stack.sandbox_log("sinks")) > sent, "Celery to send messages again")
    sentinels.bring_back(killed)
    yield
    run.prove("times the gate was rebuilt", database.gate_epoch(run.sale) - epoch)
    run.prove("messages sent after the promotion", len(run.stack.sandbox_log("sinks")) - sent)
