"""Adds Spark's tables to the evidence of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from seckill.report.evidence import Evidence
from seckill.report.evidence_sources import Source, SourceStatus
from seckill.report.identity import Id
from seckill.report.spark_counts import SparkCount, SparkCut


def with_statistics(evidence: Evidence, run: str = "replay") -> Evidence:
    """The same run with the tables that Spark would compute from its topics."""
    ids: dict[tuple[str, int, str], set[Id]] = defaultdict(set)
    for record in evidence.requests:
        ids["purchase.requests", record.position.partition, "PurchaseRequested"].add(record.request_id)
    for decision in evidence.decision_events:
        ids["inventory.decisions", decision.position.partition, decision.decision].add(decision.event_id)
    for change in evidence.order_events:
        ids["order.events", change.position.partition, change.event].add(change.event_id)
    amounts = {change.event_id: change.amount or 0 for change in evidence.order_events}
    totals = [
        SparkCount(run, *key, len(found), len(found), sum(amounts.get(event, 0) for event in found))
        for key, found in ids.items()
    ]
    cuts = [SparkCut(run, log.topic, log.partition, log.start, log.cut, log.records) for log in evidence.partition_logs]
    status = SourceStatus(Source.STATISTICS, {"spark_counts": len(totals), "spark_cuts": len(cuts)})
    sources = evidence.sources | {Source.STATISTICS: status}
    return replace(evidence, sources=sources, declared_off=frozenset(), spark_counts=totals, spark_cuts=cuts)
