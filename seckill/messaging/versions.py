"""Codec: bring an older body up to the version that the reader knows. Events and sale views share these rules.

A version number changes only when an older reader would misunderstand the body. Adding a field does not change it:
readers ignore fields that they do not know and use a default for fields that an older writer left out. So a writer may
be upgraded before its readers, or after them, and a reader refuses a newer version instead of guessing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seckill.messaging.envelope import BadEnvelope

Upcaster = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Converts a body of one version to the next version."""

NO_UPCASTERS: Mapping[int, Upcaster] = {}


def upgrade_body(
    kind: str,
    version: object,
    body: Mapping[str, Any],
    *,
    newest: int,
    upcasters: Mapping[int, Upcaster] = NO_UPCASTERS,
) -> Mapping[str, Any]:
    """The body in version `newest`; `upcasters[n]` converts version n to n + 1. Raises `BadEnvelope` if it cannot."""
    if type(version) is not int or not 1 <= version <= newest:
        raise BadEnvelope(f"{kind}: version {version!r} is not supported; this reader knows versions 1 to {newest}")
    try:
        for number in range(version, newest):
            body = upcasters[number](body)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadEnvelope(f"{kind}: version {version} cannot be converted to {newest}: {error!r}") from error
    return body
