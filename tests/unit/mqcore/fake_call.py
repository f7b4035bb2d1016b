"""A `Call` that records its answers. tests/contract/test_call.py holds it to the server's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqcore.apis.services import Services


class FakeCall:
    """Implements `mqcore.apis.call.Call`."""

    client_id = "tester"
    client_host = "10.0.0.1"
    is_from_broker = False

    def __init__(self, services: Services, version: int, listener: str = "PLAINTEXT") -> None:
        self.services = services
        self.version = version
        self.listener = listener
        self.when_gone: Callable[[], None] | None = None
        self.when_closed: Callable[[], None] | None = None
        self.answers: list[Any] = []
        self.has_hung_up = False
        self._is_gone = False

    def answer(self, response: Any) -> None:
        if self._is_gone:
            return
        assert not self.answers, "a call is answered once"
        self.answers.append(response)
        self.when_gone = None

    def hang_up(self) -> None:
        self.has_hung_up = True

    def when_disconnected(self, callback: Callable[[], None]) -> None:
        self.when_closed = callback

    def disconnect(self) -> None:
        """The client closes its connection."""
        self._is_gone = True
        when_gone, self.when_gone = self.when_gone, None
        if when_gone is not None:
            when_gone()
        if self.when_closed is not None:
            self.when_closed()
