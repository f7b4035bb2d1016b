"""The contract between the server and an API module.

An API module declares `API = Api(key, "Name", first, last)` and `handle(request, call)`. `request` is the decoded
message (Kafka's field names in snake case); the response is a plain dict of the same kind of names, nested
dicts and lists included: fields that the version does not have are left out, missing ones take their defaults,
misspelt ones are an error. A handler that cannot answer yet returns `LATER` and calls `call.answer(...)` once, later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
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
    first_served: int | None = None  # lower versions are advertised, but refused (Produce 0–2)


class Call(Protocol):
    """One request under way."""

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener(self) -> str:
        """The name of the listener the request came in by."""
        ...

    @property
    def services(self) -> Services: ...

    def answer(self, response: Any) -> None:
        """Give the response of a handler that returned `LATER`. Harmless if the client is gone."""
        ...

    def hang_up(self) -> None:
        """Close the connection once earlier answers have left."""
        ...

    when_gone: Callable[[], None] | None
    """Set it to be told if the client goes before its answer."""
