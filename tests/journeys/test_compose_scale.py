"""docker compose with more than one of everything: two gateways behind the front proxy, inventory four times, relays
with a standby, Celery twice. Sessions and tickets are valid across gateways, and the books balance.

It runs only on request: `TEST_COMPOSE=1 pytest tests/journeys/test_compose_scale.py` (tests/journeys/compose.py).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient

from tests.journeys.compose import Project, living
from tests.unit.deploy.test_compose_scale import SCALED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

RELAY_ACTIVE = re.compile(r"(relay-inventory-\d+) .*?(\d{4}-\d\d-\d\dT\S+).*relay active")
"""A line of the logs: some versions of compose write control characters before the container's name."""
CALL = """
import json, sys, urllib.error, urllib.request
method, path, body, headers = json.loads(sys.argv[1])
content = None if body is None else json.dumps(body).encode()
request = urllib.request.Request("http://127.0.0.1:8000/api/v1" + path, content, headers, method=method)
try:
    answer = urllib.request.urlopen(request, timeout=15)
except urllib.error.HTTPError as error:
    answer = error
print(json.dumps([answer.status, json.load(answer)]))
"""


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with living(Project("seckill-scale")) as made:
        scale = [part for name, count in SCALED.items() for part in ("--scale", f"{name}={count}")]
        made.up("--no-recreate", *scale)
        yield made


def call(
    project: Project, gateway: int, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    """One request to this gateway, past the front: status and body."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "application/json"}
    words = ("exec", "-T", "--index", str(gateway), "gateway", "python", "-c", CALL)
    status, content = json.loads(project.say(*words, json.dumps([method, path, body, sent])))
    return status, content


def test_every_container_runs_as_often_as_asked(project: Project) -> None:
    running: dict[str, int] = {}
    for container in project.containers():
        if container["State"] == "running":
            running[container["Service"]] = running.get(container["Service"], 0) + 1
    assert {name: running[name] for name in SCALED} == SCALED


def active_relays(project: Project) -> list[str]:
    """The containers that have become the active relay of inventory, in this order."""
    found = RELAY_ACTIVE.findall(project.say("logs", "--no-color", "relay-inventory"))
    return [container for container, _ in sorted(found, key=lambda each: str(each[1]))]


def test_a_standby_takes_over_from_a_killed_relay_during_a_rush_and_the_books_balance(project: Project) -> None:
    """Before the tests that buy without a crowd's log, which the report would miss (I8)."""
    before = active_relays(project)  # more than one, if a slow machine has ended the session of the first
    active = before[-1]
    crowd = project.begin("run", "--rm", "-T", "crowd", "--sale", "1", "--buyers", "600", "--over", "12")
    project.wait_until(
        lambda: int(json.loads(project.get("/api/v1/sales/1"))["available"]) < 480, "the first units", 180
    )
    subprocess.run(["docker", "kill", f"seckill-scale-{active}"], check=True, capture_output=True)
    project.wait_until(lambda: len(active_relays(project)) > len(before), "the standby to take over", 180)
    said, errors = crowd.communicate(timeout=240)
    assert crowd.returncode == 0, errors
    assert "600 buyers" in said
    assert active_relays(project)[len(before)] != active
    verdicts = project.judged()
    assert verdicts["all"] == "PASS", verdicts


def test_sessions_tickets_and_keys_are_valid_at_every_gateway(project: Project) -> None:
    status, session = call(project, 1, "POST", "/sessions", {"user": "ann"})
    assert status == 201
    signed_in = {"Authorization": f"Bearer {session['token']}"}
    status, ticket = call(project, 2, "POST", "/sales/1/ticket", {}, **signed_in)
    assert status in (200, 201), ticket
    proof = signed_in | {"Idempotency_Key": "first", "Purchase_Ticket": ticket["ticket"]}
    status, bought = call(project, 1, "POST", "/sales/1/purchases", {"quantity": 1}, **proof)
    assert status == 202, bought
    status, again = call(project, 2, "POST", "/sales/1/purchases", {"quantity": 1}, **proof)
    assert (status, again["request_id"]) == (202, bought["request_id"]), "the same key is the same purchase"

    def state() -> str:
        return str(call(project, 2, "GET", f"/purchases/{bought['request_id']}", **signed_in)[1].get("state"))

    project.wait_until(lambda: state() == "AWAITING_PAYMENT", "the purchase to be decided, seen by the other gateway")


def test_a_session_that_no_gateway_has_signed_is_refused_by_both(project: Project) -> None:
    """The control of the test above."""
    for gateway in (1, 2):
        status, _ = call(project, gateway, "POST", "/sales/1/ticket", {}, Authorization="Bearer forged")
        assert status == 401


def test_both_gateways_and_all_consumers_had_work(project: Project) -> None:
    read = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/metrics').read().decode())"
    for gateway in (1, 2):
        page = project.say("exec", "-T", "--index", str(gateway), "gateway", "python", "-c", read)
        offered = re.search(r"^seckill_purchases_offered_total (\S+)", page, re.MULTILINE)
        assert offered and float(offered[1]) > 50, f"gateway {gateway}: {offered}"
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{project.ports['BROKER_PORT']}")
    try:
        members = admin.describe_groups(["inventory"])["inventory"]["members"]
    finally:
        admin.close()
    assert len(members) == SCALED["inventory"]
