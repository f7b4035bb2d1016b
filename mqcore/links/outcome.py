"""Values: what a request to another broker may lead to, besides its response."""

from __future__ import annotations

from typing import NamedTuple


class LinkFault(NamedTuple):
    """The connection broke, or the response did not come in time. The other broker may have carried out the request."""

    reason: str
