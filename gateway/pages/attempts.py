"""The verb: which try of a buyer is on. A page's key is the number of the try, so every tab and every device of his
means the same request, and nothing has to be kept in the browser.

Only Redis is asked. If it has forgotten a try, the page offers to make it again: the same key is the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from redis.exceptions import RedisError

from gateway import following, places, shown
from gateway.following import Followed
from gateway.identity import request_id
from gateway.outcomes import REFUSED
from gateway.places import Standing
from gateway.shown import Known

MOST = 50


class Attempts(NamedTuple):
    """`last` is his latest try in the sale; `number` is of the next one."""

    last: Followed | None
    number: int

    @property
    def is_on(self) -> bool:
        """The last one is not over, so there is nothing to press."""
        return self.last is not None and not is_over(self.last)


def key(number: int) -> str:
    return f"page-{number}"


def of(user_id: str, sale_id: int) -> Attempts:
    """Two questions to Redis for all tries together, and only the last one is followed."""
    asked = [request_id(settings.SECRET_KEY, user_id, sale_id, key(number)) for number in range(1, MOST)]
    last: Followed | None = None
    for number, (request, known) in enumerate(zip(asked, _known(asked), strict=True), start=1):
        if known.shown is None and known.remembered is None:
            return Attempts(last, number)
        cached = None if known.shown is None else Followed(request, known.shown.user_id, known.shown)
        found = cached if cached is not None and is_over(cached) else following.follow(request, None)
        if found is None:
            return Attempts(last, number)
        last = found
        if not is_over(found):
            return Attempts(found, number + 1)
    return Attempts(last, MOST)


def is_over(followed: Followed) -> bool:
    """He may try again."""
    return followed.shown is not None and (followed.shown.may_buy_again or followed.shown.state in REFUSED)


def signed_place(asked: UUID, user_id: str, told: str) -> str:
    """For the address of the stream: the one that came along, else made of what Redis remembers; empty: unknown."""
    if places.opened(asked, told) is not None:
        return told
    try:
        remembered = shown.look(asked).remembered
    except (RedisError, TimeoutError):
        return ""
    if remembered is None or remembered.place is None or remembered.user_id != user_id:
        return ""
    standing = Standing(user_id, remembered.place, remembered.deadline_ms)
    return places.sealed(asked, standing)


def _known(asked: Sequence[UUID]) -> Sequence[Known]:
    try:
        return shown.look_all(asked)
    except RedisError:
        return [Known(None, None)] * len(asked)
