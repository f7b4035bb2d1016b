"""Buyers behave as their characters say. There is no network: the test responds to each call itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from loadtest.buyer_profiles import FARM, FLOOD, GREEDY, HONEST, IMPATIENT, STORM, Character, Mixture
from loadtest.buyers import Call, Pause, Person, Response, Together, run_person

Gateway = Callable[[Call], Response]
ONE = "00000000-0000-8000-8000-000000000001"


class BuyerSimulation:
    """Responds to calls, counts pauses as time, and records all steps."""

    def __init__(self, gateway: Gateway, patience_s: float = 60.0) -> None:
        self.gateway, self.patience_s = gateway, patience_s
        self.now_s = 0.0
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self.together: list[int] = []

    def run(self, character: Character) -> str:
        person = Person("anna", "10.0.0.1", character, random.Random(1), lambda: self.now_s > self.patience_s)
        return str(self._run_steps(run_person(person, 7)))

    def calls_for(self, what: str = "purchase") -> list[Call]:
        return [call for call in self.calls if call.what == what]

    def _run_steps(self, steps: Generator[Any, Any, Any]) -> Any:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                return end.value
            match step:
                case Call():
                    self.calls.append(step)
                    result = self.gateway(step)
                case Pause(seconds):
                    self.pauses.append(seconds)
                    self.now_s += seconds
                    result = None
                case Together(several):
                    self.together.append(len(several))
                    result = [self._run_steps(each) for each in several]


def shop(state: str = "SOLD_OUT", *attempts: Response) -> Gateway:
    """Accepts after these attempts; a poll shows the state, or PAID after a payment."""
    remaining = list(attempts)
    now = {"state": state, "order_id": "order-1"}

    def gateway(call: Call) -> Response:
        match call.what:
            case "session":
                return Response(201, {"token": "t"})
            case "sale":
                return Response(200, {"opens_at_ms": 0, "now_ms": 0})
            case "ticket":
                return Response(201, {"ticket": "T"})
            case "purchase":
                assert call.headers["Purchase-Ticket"] == "T"
                if remaining:
                    return remaining.pop(0)
                return Response(202, {"request_id": f"{ONE}-{call.fields['key']}", "partition": 1, "offset": 2})
            case "pay":
                now["state"] = "PAID"
                return Response(202, {})
            case "cancel":
                now["state"] = "CANCELLED"
                return Response(202, {})
        return Response(200, now)

    return gateway


def test_an_honest_buyer_signs_in_opens_the_sale_buys_and_polls() -> None:
    simulation = BuyerSimulation(shop())
    assert simulation.run(HONEST) == "SOLD_OUT"
    assert [call.what for call in simulation.calls] == ["session", "sale", "ticket", "purchase", "poll"]
    assert simulation.calls_for()[0].headers["Authorization"] == "Bearer t"


def test_before_the_opening_a_buyer_only_refreshes_the_page() -> None:
    simulation = BuyerSimulation(shop())
    gateway = simulation.gateway

    def closed_for_ten_seconds(call: Call) -> Response:
        if call.what == "sale":
            return Response(200, {"opens_at_ms": 10_000, "now_ms": int(simulation.now_s * 1000)})
        assert call.what != "purchase" or simulation.now_s >= 10
        return gateway(call)

    simulation.gateway = closed_for_ten_seconds
    assert simulation.run(HONEST) == "SOLD_OUT"
    assert len(simulation.calls_for("sale")) > 5


def test_a_retry_uses_the_same_key_and_waits_as_long_as_retry_after_says() -> None:
    simulation = BuyerSimulation(
        shop("SOLD_OUT", Response(0, {}, None, "gone"), Response(503, {}, 4.0), Response(429, {}, 99.0))
    )
    simulation.run(HONEST)
    assert [call.fields["key"] for call in simulation.calls_for()] == ["key-1"] * 4
    assert 2 <= simulation.pauses[1] <= 6
    assert simulation.pauses[2] <= 15  # a long Retry-After is capped


def test_a_retry_storm_clicks_four_times_and_ignores_retry_after() -> None:
    simulation = BuyerSimulation(shop("SOLD_OUT", *[Response(429, {}, 9.0)] * 8))
    simulation.run(STORM)
    assert simulation.together == [1, 4]
    assert max(simulation.pauses) < 1


def test_a_refused_ticket_is_replaced_and_simultaneous_clicks_share_one_ticket() -> None:
    simulation = BuyerSimulation(shop("SOLD_OUT", Response(403, {"type": "/problems/ticket-expired"})))
    simulation.run(HONEST)
    assert [call.what for call in simulation.calls][2:6] == ["ticket", "purchase", "ticket", "purchase"]
    simulation = BuyerSimulation(shop())
    simulation.run(STORM)
    assert len(simulation.calls_for("ticket")) == 1
    assert len(simulation.calls_for()) == 4


def test_a_waiting_buyer_polls_when_the_gateway_says() -> None:
    simulation = BuyerSimulation(shop("QUEUED"), patience_s=20)
    gateway = simulation.gateway
    simulation.gateway = lambda call: gateway(call)._replace(poll_after_s=7.0)
    simulation.run(HONEST)
    assert set(simulation.pauses) == {7.0}
    simulation.pauses, simulation.now_s = [], 0.0
    simulation.run(STORM)
    assert max(simulation.pauses) < 7


def test_a_final_refusal_ends_the_purchase() -> None:
    simulation = BuyerSimulation(shop("SOLD_OUT", Response(410, {"type": "/problems/sale-closed"})))
    assert simulation.run(HONEST) == "never accepted (410 /problems/sale-closed)"
    assert len(simulation.calls_for()) == 1


def test_an_impatient_buyer_clicks_twice_with_one_key_and_a_greedy_one_uses_two_keys() -> None:
    simulation = BuyerSimulation(shop())
    simulation.run(IMPATIENT)
    assert [call.fields["key"] for call in simulation.calls_for()] == ["key-1", "key-1"]
    simulation = BuyerSimulation(shop())
    assert simulation.run(GREEDY) == "2 × SOLD_OUT"
    assert [call.fields["key"] for call in simulation.calls_for()] == ["key-1", "key-2"]


def test_an_account_farm_is_many_accounts_at_one_address() -> None:
    simulation = BuyerSimulation(shop("AWAITING_PAYMENT"))
    assert simulation.run(FARM).startswith("farm: ")
    assert len({call.fields["user"] for call in simulation.calls_for()}) == FARM.accounts
    assert {call.headers["X-Forwarded-For"] for call in simulation.calls} == {"10.0.0.1"}


def test_a_request_flood_is_one_account_with_a_thousand_keys_each_tried_once() -> None:
    simulation = BuyerSimulation(shop("SOLD_OUT", *[Response(429, {}, 1.0)] * FLOOD.keys))
    simulation.run(FLOOD)
    assert len({call.fields["key"] for call in simulation.calls_for()}) == len(simulation.calls_for()) == 1000
    assert {call.fields["user"] for call in simulation.calls_for()} == {"anna"}
    assert not simulation.pauses


def test_a_buyer_with_a_unit_pays_cancels_or_does_nothing() -> None:
    assert BuyerSimulation(shop("AWAITING_PAYMENT")).run(replace(HONEST, pay=1.0)) == "PAID"
    assert BuyerSimulation(shop("AWAITING_PAYMENT")).run(replace(HONEST, pay=0.0, cancel=1.0)) == "CANCELLED"
    simulation = BuyerSimulation(shop("AWAITING_PAYMENT"))
    assert simulation.run(replace(HONEST, pay=0.0, cancel=0.0)) == "AWAITING_PAYMENT"
    assert not simulation.calls_for("pay")


def test_a_buyer_gives_up_when_the_time_is_over() -> None:
    def never(call: Call) -> Response:
        return Response(0, {}, None, "connection refused")

    assert BuyerSimulation(never).run(HONEST) == "not signed in"
    assert BuyerSimulation(shop("QUEUED")).run(HONEST) == "QUEUED when time was over"


def test_a_mixture_has_the_declared_shares() -> None:
    chance = random.Random(1)
    characters = [Mixture(double_click=0.5, greedy=0.25, storm=0.1).pick_character(chance) for _ in range(4000)]
    people = [each for each in characters if each.name != "storm"]
    assert 0.08 < 1 - len(people) / len(characters) < 0.12
    assert 0.45 < sum(each.clicks == 2 for each in people) / len(people) < 0.55
    assert 0.2 < sum(each.keys == 2 for each in people) / len(people) < 0.3
