"""Which try of a buyer is on, on a real Redis: however many there were, it costs the same."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from redis.exceptions import RedisError

from gateway import shown
from gateway.admission import Ask, admit
from gateway.identity import request_id
from gateway.outcomes import Shown
from gateway.pages import attempts

pytestmark = pytest.mark.usefixtures("redis")

FOREVER = 10**15


def tried(number: int, state: str | None = None, *, may_buy_again: bool = False) -> UUID:
    asked = request_id(settings.SECRET_KEY, "ann", 1, attempts.key(number))
    ask = Ask(asked, "0" * 16, f"u{number}", "1.2.3.4", 2, FOREVER, "", "", str(number), FOREVER, sale_id=1)
    assert admit([ask])[0].verdict == "admitted"
    if state is not None:
        shown.keep([Shown(asked, "ann", 1, state, None, None, may_buy_again)], tell=False)
    return asked


def test_the_last_try_is_found_and_the_next_number_offered() -> None:
    assert attempts.of("ann", 1) == (None, 1)
    tried(1, "SOLD_OUT")
    tried(2, "EXPIRED", may_buy_again=True)
    found = attempts.of("ann", 1)
    assert found.number == 3 and not found.is_on
    assert found.last is not None and found.last.shown is not None and found.last.shown.state == "EXPIRED"
    third = tried(3, "AWAITING_PAYMENT")
    found = attempts.of("ann", 1)
    assert (found.number, found.is_on) == (4, True)
    assert found.last is not None and found.last.request_id == third


def test_forty_refused_tries_are_one_question_to_redis_and_none_to_the_database(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    for number in range(1, 41):
        tried(number, "SOLD_OUT")
    asked: list[int] = []
    script = shown._look_script()

    def counted(args: list[str], client: object) -> Any:
        asked.append(len(args))
        return script(args=args, client=client)

    monkeypatch.setattr(shown, "_look_script", lambda: counted)
    with django_assert_num_queries(0):
        assert attempts.of("ann", 1).number == 41
    assert len(asked) == 1


def test_with_redis_away_the_first_try_is_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried(1, "SOLD_OUT")

    def away(_: object) -> None:
        raise RedisError("away")

    monkeypatch.setattr(shown, "look_all", away)
    assert attempts.of("ann", 1) == (None, 1)
