"""The admission script on a real Redis: one answer per key, a fixed order of refusals, one purchase per ticket."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from redis import Redis

from gateway import admission
from gateway.admission import USER_BURST, AdmissionRequest, Verdict, parse_admitted_request, request_key
from gateway.admission_script import SINCE_KEY
from seckill.messaging.record_position import RecordPosition
from tests.gateway_loop import admit_requests
from tests.services import together

pytestmark = pytest.mark.usefixtures("redis")

FOREVER = 10**15
PLACE = RecordPosition("purchase.requests", 3, 1234)


def ask(request_id: UUID | None = None, **different: Any) -> AdmissionRequest:
    request_id = request_id or uuid4()
    good = AdmissionRequest(
        request_id, "0123456789abcdef", f"user-{request_id}", f"10.0.{request_id.bytes[0]}.{request_id.bytes[1]}", 0,
        FOREVER, ticket_number=request_id.hex, ticket_expires_at_ms=FOREVER,
    )  # fmt: skip
    return good._replace(**different)


def verdict(asked: AdmissionRequest) -> Verdict:
    [admitted] = admit_requests([asked])
    return admitted.verdict


def test_one_of_many_equal_calls_is_admitted_and_the_others_get_its_answer() -> None:
    request_id = uuid4()
    rounds = together([lambda: admit_requests([ask(request_id)] * 3) for _ in range(4)])
    answers = [answer for round in rounds if not isinstance(round, BaseException) for answer in round]
    assert len(answers) == 12
    assert sorted(answer.verdict for answer in answers) == [Verdict.ADMITTED] + 11 * [Verdict.KNOWN]
    assert len({(answer.admitted_at_ms, answer.deadline_ms) for answer in answers}) == 1


@pytest.mark.parametrize(
    "since",
    [
        {"closes_at_ms": 1},
        {"opens_at_ms": FOREVER},
        {"shut": "paused"},
        {"ticket": "ticket_missing"},
        {"ticket_expires_at_ms": 1},
        {"ticket_number": "another"},
        {"full": "sold_out"},
    ],
)
def test_a_known_key_gets_its_own_answer_whatever_has_happened_since(since: dict[str, Any]) -> None:
    first = ask()
    assert verdict(first._replace(**since)) is not Verdict.ADMITTED or "ticket_number" in since, (
        "the control: the limit works"
    )
    first = ask()
    assert verdict(first) is Verdict.ADMITTED
    assert verdict(first._replace(**since)) is Verdict.KNOWN


def test_the_same_key_with_another_body_is_refused() -> None:
    first = ask()
    assert verdict(first) is Verdict.ADMITTED
    assert verdict(first._replace(fingerprint="fedcba9876543210")) is Verdict.OTHER_BODY


def test_refusals_are_judged_in_a_fixed_order() -> None:
    """Each reason hides the later ones, so removing them one by one reveals the next."""
    everything_wrong = ask(
        opens_at_ms=FOREVER, closes_at_ms=1, shut="paused", ticket="ticket_invalid", ticket_expires_at_ms=1,
        full="sold_out",
    )  # fmt: skip
    mendings: list[tuple[Verdict, dict[str, Any]]] = [
        (Verdict.NOT_OPEN_YET, {"opens_at_ms": 0}),
        (Verdict.CLOSED, {"closes_at_ms": FOREVER}),
        (Verdict.PAUSED, {"shut": ""}),
        (Verdict.TICKET_INVALID, {"ticket": ""}),
        (Verdict.TICKET_EXPIRED, {"ticket_expires_at_ms": FOREVER}),
        (Verdict.SOLD_OUT, {"full": ""}),
        (Verdict.ADMITTED, {}),
    ]
    asked = everything_wrong
    for expected, mending in mendings:
        assert verdict(asked) is expected
        asked = asked._replace(**mending)


def test_a_ticket_is_for_one_key() -> None:
    first, second = ask(ticket_number="one"), ask(ticket_number="one")
    assert verdict(first) is Verdict.ADMITTED
    assert verdict(second) is Verdict.TICKET_SPENT
    assert verdict(second._replace(ticket_number="two")) is Verdict.ADMITTED


def test_a_refused_request_spends_no_ticket_and_is_not_remembered(redis: Redis) -> None:
    asked = ask(full="sold_out")
    assert verdict(asked) is Verdict.SOLD_OUT
    assert redis.get(request_key(asked.request_id)) is None
    assert verdict(asked._replace(full="")) is Verdict.ADMITTED


def test_the_rate_limit_of_a_user_affects_no_other_user() -> None:
    verdicts = [answer.verdict for answer in admit_requests([ask(user_id="bot") for _ in range(USER_BURST + 5)])]
    assert verdicts.count(Verdict.ADMITTED) == USER_BURST
    assert set(verdicts[USER_BURST:]) == {Verdict.TOO_MANY}
    assert verdict(ask(user_id="ann")) is Verdict.ADMITTED


def test_users_behind_one_address_share_its_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ADDRESS_BURST", 30)
    verdicts = [answer.verdict for answer in admit_requests([ask(address="10.9.9.9") for _ in range(35)])]
    assert verdicts == [Verdict.ADMITTED] * 30 + [Verdict.TOO_MANY] * 5
    assert verdict(ask(address="10.9.9.8")) is Verdict.ADMITTED


def test_the_first_position_of_a_request_is_kept_and_returned_again() -> None:
    asked = ask()
    [before] = admit_requests([asked])
    [after] = admit_requests([asked], [(asked.request_id, PLACE)])
    [later] = admit_requests([asked], [(asked.request_id, PLACE._replace(offset=9999))])
    assert (before.position, after.position, later.position) == (None, PLACE, PLACE)


def test_a_position_for_a_forgotten_request_is_ignored(redis: Redis) -> None:
    asked = ask()
    admit_requests([], [(asked.request_id, PLACE)])
    assert redis.get(request_key(asked.request_id)) is None


def test_a_remembered_request_names_its_user(redis: Redis) -> None:
    asked = ask(user_id="ann")
    [admitted] = admit_requests([asked])
    admit_requests([], [(asked.request_id, PLACE)])
    kept = parse_admitted_request(str(redis.get(request_key(asked.request_id))))
    assert kept is not None
    assert (kept.user_id, kept.deadline_ms, kept.position) == ("ann", admitted.deadline_ms, PLACE)


def test_a_request_is_known_to_be_the_first_only_if_redis_remembers_from_before_the_opening(redis: Redis) -> None:
    [forgotten] = admit_requests([ask(opens_at_ms=1)])
    assert not forgotten.is_first, "Redis started to remember just now, but the sale opened long ago"
    redis.set(SINCE_KEY, 1)
    [first] = admit_requests([ask(opens_at_ms=forgotten.now_ms - 60_000)])
    assert first.is_first
    [old] = admit_requests([ask(opens_at_ms=forgotten.now_ms - 1000 * admission.MEMORY_S)])
    assert not old.is_first, "the sale opened longer ago than Redis remembers"


def test_the_script_is_loaded_again_after_redis_lost_it(redis: Redis) -> None:
    assert verdict(ask()) is Verdict.ADMITTED
    redis.script_flush()
    assert verdict(ask()) is Verdict.ADMITTED
