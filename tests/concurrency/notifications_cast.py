"""The cast of the tests of notifications: the sandbox's sinks, and deliveries with their clocks moved by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from loadtest.sandbox.http_server import start_server
from loadtest.sandbox.sinks import Sinks
from notifications import channel_breaker
from notifications.delivery import deliver
from notifications.models import Delivery
from seckill.stack.child_processes import free_port


class Phones:
    """The sinks of all channels. `behave` makes a channel fail, refuse or cut connections."""

    def __init__(self, folder: Path) -> None:
        self._sinks = Sinks(folder)
        self._log = folder / "sinks.jsonl"
        self.port = free_port()
        self._server = start_server(self.port, self._sinks.handle)

    def behave(self, channel: str, mode: str, times: int | None = None) -> None:
        control = {"channel": channel, "mode": mode, "times": times}
        assert self._sinks.handle("POST", "/control", control, {})[0] == 200

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._sinks.close()

    def lines(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["what"] != "control"]

    def counts(self) -> Counter[str]:
        return Counter(line["what"] for line in self.lines())


@contextmanager
def running_phones(folder: Path) -> Iterator[Phones]:
    phones = Phones(folder)
    before = settings.ENVIRONMENT
    settings.ENVIRONMENT = replace(before, sinks_url=f"http://127.0.0.1:{phones.port}")
    try:
        yield phones
    finally:
        settings.ENVIRONMENT = before
        phones.close()


def due(user: str = "ann", channel: str = "sms") -> Delivery:
    return Delivery.objects.create(event_id=uuid4(), channel=channel, user_id=user, text="paid")


def attempt(row: Delivery) -> str | None:
    """The delivery's state afterwards; None if it was left alone."""
    result = deliver(row.event_id, row.channel)
    return None if result is None else result.state


def end_pauses() -> None:
    Delivery.objects.update(due_at=Now())


def end_leases() -> None:
    Delivery.objects.filter(leased_until__isnull=False).update(leased_until=F("leased_until") - timedelta(minutes=1))


def age_breakers(seconds: float) -> None:
    """Make each open breaker this much older."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE notifications_channel SET open_until = open_until - make_interval(secs => %s)", [seconds]
        )


def fail_until_open(phones: Phones, channel: str = "sms") -> None:
    phones.behave(channel, "fail")
    for number in range(channel_breaker.FAILURES_MAX):
        assert attempt(due(f"victim-{number}", channel)) == "due"
