"""Buyers behave as their characters say. No network: the test answers each of their calls itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from loadtest.buyers import Answer, Call, Pause, Person, Together, life
from loadtest.characters import FARM, FLOOD, GREEDY, HONEST, IMPATIENT, STORM, Character, Mixture

Gateway = Callable[[Call], Answer]
ONE = "00000000-0000-8000-8000-000000000001"


class World:
    """Answers calls, counts pauses as time, and keeps what it saw."""

    def __init__(self, gateway: Gateway, patience_s: float = 60.0) -> None:
        self.gateway, self.patience_s = gateway, patience_s
        self.now_s = 0.0
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self.together: list[int] = []

    def lives(self, character: Character) -> str:
        person = Person("anna", "10.0.0.1", character, random.Random(1), lambda: self.now_s > self.patience_s)
        return str(self._drive(life(person, 7)))

    def asked(self, what: str = "purchase") -> list[Call]:
        return [call for call in self.calls if call.what == what]

    def _drive(self, steps: Generator[Any, Any, Any]) -> Any:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            match step:
                case Call():
                    self.calls.append(step)
                    answer = self.gateway(step)
                case Pause(seconds):
                    self.pauses.append(seconds)
                    self.now_s += seconds
                    answer = None
                case Together(several):
                    self.together.append(len(several))
                    answer = [self._drive(each) for each in several]


def shop(state: str = "SOLD_OUT", *attempts: Answer) -> Gateway:
    """Accepts after these attempts; a look shows the state, once paid PAID."""
    left = list(attempts)
    now = {"state": state, "order_id": "order-1"}

    def gateway(call: Call) -> Answer:
        match call.what:
            case "session":
                return Answer(201, {"token": "t"})
            case "sale":
                return Answer(200, {"opens_at_ms": 0, "now_ms": 0})
            case "ticket":
                return Answer(201, {"ticket": "T"})
            case "purchase":
                assert call.headers["Purchase-Ticket"] == "T"
                if left:
                    return left.pop(0)
                return Answer(202, {"request_id": f"{ONE}-{call.said['key']}", "partition": 1, "offset": 2})
            case "pay":
                now["state"] = "PAID"
                return Answer(202, {})
            case "cancel":
                now["state"] = "CANCELLED"
                return Answer(202, {})
        return Answer(200, now)

    return gateway


def test_an_honest_buyer_signs_in_looks_at_the_page_asks_and_follows() -> None:
    world = World(shop())
    assert world.lives(HONEST) == "SOLD_OUT"
    assert [call.what for call in world.calls] == ["session", "sale", "ticket", "purchase", "poll"]
    assert world.asked()[0].headers["Authorization"] == "Bearer t"


def test_before_the_gong_the_page_is_refreshed_and_nothing_is_asked() -> None:
    world = World(shop())
    gateway = world.gateway

    def closed_for_ten_seconds(call: Call) -> Answer:
        if call.what == "sale":
            return Answer(200, {"opens_at_ms": 10_000, "now_ms": int(world.now_s * 1000)})
        assert call.what != "purchase" or world.now_s >= 10
        return gateway(call)

    world.gateway = closed_for_ten_seconds
    assert world.lives(HONEST) == "SOLD_OUT"
    assert len(world.asked("sale")) > 5


def test_he_tries_again_under_the_same_key_and_waits_as_long_as_he_is_told() -> None:
    world = World(shop("SOLD_OUT", Answer(0, {}, None, "gone"), Answer(503, {}, 4.0), Answer(429, {}, 99.0)))
    world.lives(HONEST)
    assert [call.said["key"] for call in world.asked()] == ["key-1"] * 4
    assert 2 <= world.pauses[1] <= 6
    assert world.pauses[2] <= 15  # nobody waits for minutes


def test_a_storm_clicks_four_times_and_waits_for_nothing() -> None:
    world = World(shop("SOLD_OUT", *[Answer(429, {}, 9.0)] * 8))
    world.lives(STORM)
    assert world.together == [1, 4]
    assert max(world.pauses) < 1


def test_a_ticket_that_is_refused_is_fetched_anew_and_clicks_at_once_share_one() -> None:
    world = World(shop("SOLD_OUT", Answer(403, {"type": "/problems/ticket-expired"})))
    world.lives(HONEST)
    assert [call.what for call in world.calls][2:6] == ["ticket", "purchase", "ticket", "purchase"]
    world = World(shop())
    world.lives(STORM)
    assert len(world.asked("ticket")) == 1
    assert len(world.asked()) == 4


def test_who_waits_looks_again_when_he_is_told_to() -> None:
    world = World(shop("QUEUED"), patience_s=20)
    gateway = world.gateway
    world.gateway = lambda call: gateway(call)._replace(poll_after_s=7.0)
    world.lives(HONEST)
    assert set(world.pauses) == {7.0}
    world.pauses, world.now_s = [], 0.0
    world.lives(STORM)
    assert max(world.pauses) < 7


def test_a_refusal_for_good_ends_it() -> None:
    world = World(shop("SOLD_OUT", Answer(410, {"type": "/problems/sale-closed"})))
    assert world.lives(HONEST) == "never accepted (410 /problems/sale-closed)"
    assert len(world.asked()) == 1


def test_an_impatient_one_clicks_twice_under_one_key_and_a_greedy_one_has_two_keys() -> None:
    world = World(shop())
    world.lives(IMPATIENT)
    assert [call.said["key"] for call in world.asked()] == ["key-1", "key-1"]
    world = World(shop())
    assert world.lives(GREEDY) == "2 × SOLD_OUT"
    assert [call.said["key"] for call in world.asked()] == ["key-1", "key-2"]


def test_a_farm_is_many_accounts_at_one_address() -> None:
    world = World(shop("AWAITING_PAYMENT"))
    assert world.lives(FARM).startswith("farm: ")
    assert len({call.said["user"] for call in world.asked()}) == FARM.accounts
    assert {call.headers["X-Forwarded-For"] for call in world.calls} == {"10.0.0.1"}


def test_a_flood_is_one_account_with_a_thousand_keys_each_tried_once() -> None:
    world = World(shop("SOLD_OUT", *[Answer(429, {}, 1.0)] * FLOOD.keys))
    world.lives(FLOOD)
    assert len({call.said["key"] for call in world.asked()}) == len(world.asked()) == 1000
    assert {call.said["user"] for call in world.asked()} == {"anna"}
    assert not world.pauses


def test_who_gets_something_pays_cancels_or_walks_away() -> None:
    assert World(shop("AWAITING_PAYMENT")).lives(replace(HONEST, pay=1.0)) == "PAID"
    assert World(shop("AWAITING_PAYMENT")).lives(replace(HONEST, pay=0.0, cancel=1.0)) == "CANCELLED"
    world = World(shop("AWAITING_PAYMENT"))
    assert world.lives(replace(HONEST, pay=0.0, cancel=0.0)) == "AWAITING_PAYMENT"
    assert not world.asked("pay")


def test_everybody_goes_home_when_his_time_is_over() -> None:
    def never(call: Call) -> Answer:
        return Answer(0, {}, None, "nobody there")

    assert World(never).lives(HONEST) == "not signed in"
    assert World(shop("QUEUED")).lives(HONEST) == "QUEUED when time was over"


def test_a_mixture_has_the_shares_that_it_says() -> None:
    chance = random.Random(1)
    crowd = [Mixture(double_click=0.5, greedy=0.25, storm=0.1).somebody(chance) for _ in range(4000)]
    people = [each for each in crowd if each.name != "storm"]
    assert 0.08 < 1 - len(people) / len(crowd) < 0.12
    assert 0.45 < sum(each.clicks == 2 for each in people) / len(people) < 0.55
    assert 0.2 < sum(each.keys == 2 for each in people) / len(people) < 0.3
