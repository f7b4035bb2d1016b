"""docker compose with its other profiles, three brokers, Apache Kafka and Spark: each sells, and the books balance.

It runs only on request: `TEST_COMPOSE=1 pytest tests/journeys/test_compose_profiles.py` (tests/journeys/compose.py).
"""

from __future__ import annotations

import json

import pytest

from tests.journeys.compose import Project, living

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

REPLICA_ALERTS = {"UnderReplicated", "UnderMinIsr", "WithoutLeader", "NoController"}


def test_the_sale_runs_on_apache_kafka() -> None:
    with living(Project("seckill-kafka", "kafka", KAFKA_BOOTSTRAP_SERVERS="kafka:9092")) as project:
        project.rush("--buyers", "150", "--over", "5")
        verdicts = project.judged()
        assert verdicts["all"] == "PASS", verdicts
        offsets = project.say("exec", "-T", "gateway", "seckill", "lag")
        assert "inventory" in offsets


def test_a_sale_on_three_brokers_survives_the_loss_of_one_and_prometheus_shows_it() -> None:
    addresses = "mqcore-1:9092,mqcore-2:9092,mqcore-3:9092"
    with living(Project("seckill-cluster", "cluster", "observe", KAFKA_BOOTSTRAP_SERVERS=addresses)) as project:

        def scraped() -> list[str]:
            targets = project.prometheus("targets?state=active")["data"]["activeTargets"]
            return [each["health"] for each in targets if each["labels"]["job"] == "mqcore-cluster"]

        def raised() -> set[str]:
            """Alerts whose condition holds, whether or not for long enough to fire."""
            return {each["labels"]["alertname"] for each in project.prometheus("alerts")["data"]["alerts"]}

        def free() -> int:
            return int(json.loads(project.get("/api/v1/sales/1"))["available"])

        project.wait_until(lambda: scraped() == ["up"] * 3, "Prometheus to scrape three brokers")
        crowd = project.begin("run", "--rm", "-T", "crowd", "--sale", "1", "--buyers", "600", "--over", "20")
        project.wait_until(lambda: free() < 480, "the first units to be taken")
        assert not raised() & REPLICA_ALERTS
        project.say("kill", "mqcore-2")
        project.wait_until(lambda: "UnderReplicated" in raised(), "the alert for missing replicas")
        assert "WithoutLeader" not in raised()
        said, errors = crowd.communicate(timeout=240)
        assert crowd.returncode == 0, errors
        assert "600 buyers" in said
        project.say("up", "-d", "--no-recreate", "--wait", "mqcore-2", timeout=240)
        project.wait_until(lambda: not raised() & REPLICA_ALERTS, "all replicas to be in sync again", 120)
        assert scraped() == ["up"] * 3
        verdicts = project.judged()
        assert verdicts["all"] == "PASS", verdicts


def test_sparks_live_counts_and_its_replay_both_agree_with_the_books() -> None:
    with living(Project("seckill-stats", "stats")) as project:
        project.rush("--buyers", "150", "--over", "5")

        def numbers(kind: str) -> dict[str, object]:
            words = ("report", "--data", "/var/lib/seckill", "--json", "--of", kind)
            found: dict[str, object] = json.loads(project.say("run", "--rm", "-T", "stats", *words))
            return found

        project.wait_until(
            lambda: project.judged("--statistics")["I22"] == "PASS", "the stream to have counted all", 120
        )
        assert numbers("live")["kind"] == "live"
        project.say("run", "--rm", "-T", "stats", "replay", "--data", "/var/lib/seckill", timeout=240)
        assert numbers("replay")["kind"] == "replay"
        verdicts = project.judged("--statistics")
        assert (verdicts["I22"], verdicts["all"]) == ("PASS", "PASS"), verdicts
