"""A web server logs unexpected exceptions with their tracebacks, and no refusals."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

from seckill.monitoring.logs import KeyValueFormatter

ROOT = Path(__file__).parents[4]
SCRIPT = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "seckill.config.settings"
import django
django.setup()
from django.test import Client
from gateway import sales
from seckill.monitoring import logs
def fail():
    raise ZeroDivisionError("unexpected")
logs.configure_web_server()
client = Client(raise_request_exception=False, headers={"host": "localhost"})
assert client.get("/api/v1/nothing").status_code == 404
sales.list_sales = fail
assert client.get("/").status_code == 500
"""


def test_an_unexpected_exception_in_a_request_is_logged_and_a_refusal_is_not() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert "request failed method=GET path=/ trace=" in line
    assert "unexpected" in line


def test_fields_of_a_log_event_follow_its_text_and_are_quoted_where_they_would_be_ambiguous() -> None:
    record = logging.makeLogRecord({"msg": "lease not renewed", "levelname": "WARNING", "created": 0.5, "msecs": 500.0})
    record.topic, record.reason = "purchase.requests", "timed out\nafter 2 s"
    line = KeyValueFormatter().format(record)
    _, _, text = line.partition(".500 ")
    assert text == "WARNING lease not renewed topic=purchase.requests reason=" + json.dumps("timed out\nafter 2 s")
    assert len(line.splitlines()) == 1
