"""Shell: drives buyers on an asyncio loop: their calls over shared connections, their pauses, a line for each call."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from loadtest.buyers import API, Answer, Call, Pause, Person, Step, Together, life
from loadtest.characters import FARM, FLOOD, Mixture, address
from loadtest.ledger import ClientLog, now_ms
from loadtest.rush.http import Client
from loadtest.strain import EVERY_S, Strain, Strained

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """Who comes, and when. `rate`: so many a second, whatever became of those before; else all within `over_s`."""

    url: str
    sale: int
    buyers: int
    mixture: Mixture
    over_s: float = 1.0
    rate: float | None = None
    patience_s: float = 60.0
    connections: int = 64
    prefix: str = "buyer-"
    seed: int = 1
    farms: int = 0
    floods: int = 0

    def people(self, until: float) -> Iterator[tuple[float, Person]]:
        """Each with the second at which he comes; the same seed, the same crowd."""
        at_s = 0.0
        for number in range(self.buyers + self.farms + self.floods):
            chance = random.Random(f"{self.seed}:{number}")
            if self.rate is None:
                at_s = chance.random() * self.over_s
            else:
                at_s += chance.expovariate(self.rate)
            bot = FARM if number >= self.buyers else None
            if number >= self.buyers + self.farms:
                bot = FLOOD
            character = bot or self.mixture.somebody(chance)
            name = f"{self.prefix}{self.sale}-{number}"
            yield at_s, Person(name, address(chance), character, chance, lambda: time.monotonic() > until)


class Driver:
    """Does what a buyer wants done."""

    def __init__(self, client: Client, log: ClientLog) -> None:
        self._client, self._log = client, log

    async def drive(self, steps: Generator[Step, Any, T]) -> T:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            match step:
                case Call():
                    answer = await self._call(step)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                    answer = None
                case Together(several):
                    answer = await asyncio.gather(*(self.drive(each) for each in several))

    async def _call(self, call: Call) -> Answer:
        began_ms = now_ms()
        answer = Answer(0, {}, None, "the generator was stopped")
        try:
            answer = await self._client.call(call.method, call.path, call.body, call.headers)
        finally:
            self._log.record(call, began_ms, answer)
        return answer


async def rush(plan: Plan, log: ClientLog) -> tuple[Counter[str], Strained]:
    """All of them, until each has got what he came for, or goes home; how it ended for how many."""
    connections = plan.connections if plan.rate is None else _most_connections()
    client = Client(plan.url.rstrip("/") + API, connections)
    driver = Driver(client, log)
    ends: Counter[str] = Counter()
    strain = Strain(time.monotonic(), time.process_time())
    began = time.monotonic()

    async def one(at_s: float, person: Person) -> None:
        await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
        ends[await driver.drive(life(person, plan.sale))] += 1

    watching = asyncio.create_task(_watch(strain, log))
    try:
        async with asyncio.TaskGroup() as crowd:
            for at_s, person in plan.people(began + plan.patience_s):
                crowd.create_task(one(at_s, person))
    finally:
        watching.cancel()
        client.close()
    strained = strain.so_far(time.monotonic(), time.process_time())
    log.write("generator", **strained._asdict())
    return ends, strained


async def _watch(strain: Strain, log: ClientLog) -> None:
    """How late is this loop? And let others see the log grow."""
    while True:
        due = time.monotonic() + EVERY_S
        await asyncio.sleep(EVERY_S)
        strain.note(time.monotonic() - due)
        log.flush()


def _most_connections() -> int:
    """An open loop waits for nobody, so it may need as many as there are buyers: what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, 65_536) if hard != resource.RLIM_INFINITY else 65_536
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most - 100
