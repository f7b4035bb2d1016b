"""What a web server writes down: what nobody foresaw, with its traceback, and no refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "seckill.settings"
import django
django.setup()
from django.test import Client
from gateway import sales
from seckill import logs
def breaks():
    raise ZeroDivisionError("nobody thought of it")
logs.of_a_web_server()
client = Client(raise_request_exception=False, headers={"host": "localhost"})
assert client.get("/api/v1/nothing").status_code == 404
sales.views = breaks
assert client.get("/api/v1/sales").status_code == 500
"""


def test_a_request_that_breaks_is_written_down_and_a_refusal_is_not() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    [line] = done.stderr.splitlines()
    assert "a request is broken method=GET path=/api/v1/sales trace=" in line
    assert "nobody thought of it" in line
