"""Alerts, evaluated by Prometheus's own tool: each fires for its fault with its text, and not for something similar."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.architecture.test_observe import DEPLOY, alarms

pytestmark = pytest.mark.needs("promtool")

RULES = {alarm["alert"]: alarm for alarm in alarms()}
EVERY_S = 5
LATER = "12m"

Series = dict[str, str]
"""The values of each series, one every five seconds, in promtool's notation: `0+1x20` grows by one, twenty times."""


class Trouble(NamedTuple):
    series: Series
    labels: dict[str, str]
    summary: str
    calm: Series


WELL = {'up{job="gateway", instance="g:8000"}': "1x180"}
TROUBLES = {
    "BooksBroken": Trouble(
        {'seckill_invariants_broken{job="books"}': "2x180"}, {"job": "books"},
        "The books do not balance: 2 residuals beyond what is in flight",
        {'seckill_invariants_broken{job="books"}': "0x142 2 0x40"},
    ),
    "BooksUnknown": Trouble(
        {}, {}, "The books are not being checked", {'seckill_invariants_broken{job="books"}': "0x180"},
    ),
    "Lag": Trouble(
        {'mqcore_group_lag{group="orders", topic="t", partition="0"}': "600+2.5x180",
         'mqcore_group_lag{group="orders", topic="t", partition="1"}': "600x180"}, {"group": "orders"},
        "orders is 1560 records behind and not catching up",
        {'mqcore_group_lag{group="orders", topic="t", partition="0"}': "40000-100x180",
         'mqcore_group_lag{group="inventory", topic="t", partition="0"}': "900x180"},
    ),
    "DeadLetters": Trouble(
        {'mqcore_produced_records_total{topic="purchase.requests.dead", partition="0"}': "0x100 2x100"},
        {"topic": "purchase.requests.dead"}, "2 records could not be processed and are in purchase.requests.dead",
        {'mqcore_produced_records_total{topic="purchase.requests", partition="0"}': "0+9x180",
         'mqcore_produced_records_total{topic="purchase.requests.dead", partition="0"}': "2x180"},
    ),
    "GroupHalted": Trouble(
        {'seckill_group_halted{group="orders", topic="inventory.decisions"}': "0x100 3x100"},
        {"group": "orders", "topic": "inventory.decisions"},
        "orders halted in 3 partitions of inventory.decisions, because their logs lost records",
        {},
    ),
    "EventsHeldBack": Trouble(
        {'seckill_outbox_oldest_seconds{job="orders"}': "0+0.25x180"}, {"job": "orders"},
        "Events wait in the outbox for 36s, because a relay or the broker stands still",
        {'seckill_outbox_oldest_seconds{job="orders"}': "29x180"},
    ),
    "PartitionsOffline": Trouble(
        {'mqcore_partitions_offline{job="mqcore"}': "3x180"}, {"job": "mqcore"},
        "3 partitions are offline: a log is corrupt, or the disk is full",
        {'mqcore_partitions_offline{job="mqcore"}': "0x180"},
    ),
    "RedisDown": Trouble(
        {'seckill_redis_up{job="inventory", use="gate"}': "0x180",
         'seckill_redis_up{job="inventory", use="celery"}': "1x180"},
        {"job": "inventory", "use": "gate"}, "The Redis for gate does not answer",
        {'seckill_redis_up{job="inventory", use="gate"}': "1x100 0x1 1x80"},
    ),
    "UnderReplicated": Trouble(
        {'mqcore_partitions_under_replicated{instance="mqcore-1:9404"}': "4x180",
         'mqcore_partitions_under_replicated{instance="mqcore-2:9404"}': "3x180"}, {},
        "7 partitions have a replica that is not in sync",
        {'mqcore_partitions_under_replicated{instance="mqcore-1:9404"}': "4x140 0x40"},
    ),
    "UnderMinIsr": Trouble(
        {'mqcore_partitions_under_min_isr{instance="mqcore-1:9404"}': "2x180",
         'mqcore_partitions_under_min_isr{instance="mqcore-2:9404"}': "0x180"}, {},
        "2 partitions refuse writes with acks=all: too few replicas are in sync",
        {'mqcore_partitions_under_min_isr{instance="mqcore-1:9404"}': "2x140 0x40",
         'mqcore_partitions_under_replicated{instance="mqcore-1:9404"}': "2x180"},
    ),
    "WithoutLeader": Trouble(  # each broker counts the partitions of the whole cluster
        {'mqcore_partitions_without_leader{instance="mqcore-1:9404"}': "5x180",
         'mqcore_partitions_without_leader{instance="mqcore-2:9404"}': "5x180"}, {},
        "5 partitions have no leader: none of their in-sync replicas runs",
        {'mqcore_partitions_without_leader{instance="mqcore-1:9404"}': "5x140 0x40"},
    ),
    "NoController": Trouble(
        {'mqcore_quorum_leader{instance="mqcore-1:9404"}': "1x100 -1x80",
         'mqcore_quorum_leader{instance="mqcore-2:9404"}': "-1x180"}, {},
        "The metadata quorum has no leader, so nothing can be changed and no leader elected",
        {'mqcore_quorum_leader{instance="mqcore-1:9404"}': "-1x180",
         'mqcore_quorum_leader{instance="mqcore-2:9404"}': "2x180"},
    ),
    "ServerErrors": Trouble(
        {'haproxy_frontend_http_responses_total{proxy="front", code="2xx"}': "0+90x180",
         'haproxy_frontend_http_responses_total{proxy="front", code="5xx"}': "0+10x180"}, {},
        "10% of all responses are server errors",
        {'haproxy_frontend_http_responses_total{proxy="front", code="2xx"}': "0+98x180",
         'haproxy_frontend_http_responses_total{proxy="front", code="5xx"}': "0+2x180",
         'haproxy_frontend_http_responses_total{proxy="metrics", code="5xx"}': "0+90x180"},
    ),
    "Down": Trouble(
        WELL | {'up{job="orders", instance="orders-sweep:9100"}': "0x180"},
        {"job": "orders", "instance": "orders-sweep:9100"}, "orders does not answer",
        WELL | {'up{job="orders", instance="orders-sweep:9100"}': "1x142 0 1x40"},
    ),
    "OrdersOverdue": Trouble(
        {'seckill_orders_overdue_seconds{job="orders"}': "90x180"}, {"job": "orders"},
        "The oldest unpaid order is 1m 30s past its deadline",
        {'seckill_orders_overdue_seconds{job="orders"}': "59x180"},
    ),
    "DeliveriesLate": Trouble(
        {'seckill_deliveries_late_seconds{channel="sms"}': "121x180"}, {"channel": "sms"},
        "Messages by sms are 2m 1s late", {'seckill_deliveries_late_seconds{channel="sms"}': "120x180"},
    ),
    "ProviderDisagrees": Trouble(
        {'seckill_discrepancies{state="open", kind="lost"}': "1x180"}, {},
        "The payment provider's log and ours differ in 1 places",
        {'seckill_discrepancies{state="open", kind="lost"}': "0x180",
         'seckill_discrepancies{state="closed", kind="lost"}': "4x180"},
    ),
}  # fmt: skip


def expected(alert: str, trouble: Trouble) -> dict[str, Any]:
    rule = RULES[alert]
    annotations = rule["annotations"] | {"summary": trouble.summary}
    return {"exp_labels": rule["labels"] | trouble.labels, "exp_annotations": annotations}


def sounding(alert: str, series: Series, *alerts: dict[str, Any]) -> dict[str, Any]:
    return {
        "interval": f"{EVERY_S}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"alertname": alert, "eval_time": LATER, "exp_alerts": list(alerts)}],
    }


def told(tmp_path: Path, *tests: dict[str, Any]) -> str:
    """The errors that promtool reports, or an empty text."""
    file = tmp_path / "alarms.json"  # JSON is also valid YAML
    rules = {"rule_files": [str(DEPLOY / "prometheus/alerts.yml")], "evaluation_interval": f"{EVERY_S}s"}
    file.write_text(json.dumps(rules | {"tests": list(tests)}))
    said = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    return "" if said.returncode == 0 else said.stdout + said.stderr


def test_every_alert_is_tested_here() -> None:
    assert set(TROUBLES) == set(RULES)


def test_an_alert_fires_for_its_fault_and_not_for_something_similar(tmp_path: Path) -> None:
    sound = [sounding(alert, each.series, expected(alert, each)) for alert, each in TROUBLES.items()]
    silent = [sounding(alert, each.calm) for alert, each in TROUBLES.items()]
    assert told(tmp_path, *sound, *silent) == ""


def test_a_gateway_whose_address_is_gone_counts_as_down(tmp_path: Path) -> None:
    gone = TROUBLES["Down"]._replace(labels={"job": "gateway"}, summary="gateway does not answer")
    others = {'up{job="orders", instance="orders-sweep:9100"}': "1x180"}
    assert told(tmp_path, sounding("Down", others, expected("Down", gone))) == ""


def test_an_alert_that_does_not_fire_is_noticed(tmp_path: Path) -> None:
    said = told(tmp_path, *(sounding(alert, each.calm, expected(alert, each)) for alert, each in TROUBLES.items()))
    assert set(re.findall(r"alertname: (\w+)", said)) == set(TROUBLES)


def test_the_prometheus_configuration_is_valid() -> None:
    command = ["promtool", "check", "config", "--syntax-only", str(DEPLOY / "prometheus/prometheus.yml")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
