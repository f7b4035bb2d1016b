"""The gateway dies around the moment at which a request becomes true."""

from __future__ import annotations

from seckill.faults.case import Acts, case
from seckill.faults.cases.dying import dies_at, turned_away
from seckill.faults.world import World


@case("3", "gateway-killed-after-ack", "the broker has the request, the buyer gets no answer")
def after_ack(world: World) -> Acts:
    yield from dies_at(world, "gateway", "gateway.after_ack")
    world.proves("attempts without an answer", turned_away(world))


@case("4", "gateway-killed-before-produce", "admitted, and never sent")
def before_produce(world: World) -> Acts:
    yield from dies_at(world, "gateway", "gateway.before_produce")
    world.proves("attempts without an answer", turned_away(world))
