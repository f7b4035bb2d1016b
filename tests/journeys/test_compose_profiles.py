"""docker compose with its other profiles, three brokers, Apache Kafka and Spark: each sells, and the books balance.

It runs only on request: `TEST_COMPOSE=1 pytest tests/journeys/test_compose_profiles.py` (tests/journeys/compose.py).
"""

from __future__ import annotations

import json

import pytest

from tests.journeys.compose import Project, living

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_sale_runs_on_apache_kafka() -> None:
    with living(Project("seckill-kafka", "kafka", KAFKA_BOOTSTRAP_SERVERS="kafka:9092")) as project:
        project.rush("--buyers", "150", "--over", "5")
        verdicts = project.judged()
        assert verdicts["all"] == "PASS", verdicts
        offsets = project.say("exec", "-T", "gateway", "seckill", "lag")
        assert "inventory" in offsets


def test_a_sale_on_three_brokers_survives_the_loss_of_one() -> None:
    addresses = "mqcore-1:9092,mqcore-2:9092,mqcore-3:9092"
    with living(Project("seckill-cluster", "cluster", KAFKA_BOOTSTRAP_SERVERS=addresses)) as project:
        crowd = project.begin("run", "--rm", "-T", "crowd", "--sale", "1", "--buyers", "150", "--over", "10")
        project.say("kill", "mqcore-2")
        _, errors = crowd.communicate(timeout=180)
        assert crowd.returncode == 0, errors
        project.say("up", "-d", "--no-recreate", "--wait", "mqcore-2")
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
