"""Port: the contract between the server and an API module.

An API module declares `API = Api(key, "Name", first, last)` and `handle(request, call)`.

* `request` is the decoded message, a type from `mqcore.wire.requests` with Kafka's field names in snake case.
* The response is a dict with the same kind of names, nested dicts and lists included. Fields that the version lacks are
  left out, missing fields take their defaults, and a misspelt field is an error.
* A handler that cannot answer yet returns `LATER` and calls `call.answer(...)` once, later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mqcore.apis.services import Services

Response = Mapping[str, Any]


class Later:
    """The type of `LATER`."""


LATER: Final = Later()


@dataclass(frozen=True, slots=True)
class Api:
    """What ApiVersions and docs/generated/api-versions.md are made from."""

    key: int
    name: str
    first_version: int
    last_version: int
    first_served: int | None = None  # lower versions are advertised but refused (Produce 0–2)
    forwarded: bool = False
    """Whether another node serves it while that is the active controller."""


class Call(Protocol):
    """One request in progress."""

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener(self) -> str:
        """The name of the listener that accepted the connection."""
        ...

    @property
    def services(self) -> Services: ...

    def answer(self, response: Any) -> None:
        """Send the response of a handler that returned `LATER`. Ignored if the client has disconnected."""
        ...

    def hang_up(self) -> None:
        """Close the connection after the earlier answers are sent."""
        ...

    when_gone: Callable[[], None] | None
    """Called if the client disconnects before it has its answer. `answer` resets it."""
