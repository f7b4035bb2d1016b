"""Shell: runs buyers on an asyncio loop: requests over shared connections, pauses, a log line for each request."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from loadtest.buyer_profiles import FARM, FLOOD, Mixture, random_address
from loadtest.buyers import API, Call, Pause, Person, Response, Step, Together, run_person
from loadtest.client_log import ClientLog, now_ms
from loadtest.generator_load import CHECK_EVERY_S, GeneratorLoad, LoadMonitor
from loadtest.rush.http import Client

OPEN_FILES_MAX = 65_536

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """The buyers and their arrival: at a fixed `rate` per second (open loop), or else spread over `over_s` seconds."""

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
        """Each buyer with the second of arrival. The same seed produces the same crowd."""
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
            character = bot or self.mixture.pick_character(chance)
            name = f"{self.prefix}{self.sale}-{number}"
            yield at_s, Person(name, random_address(chance), character, chance, lambda: time.monotonic() > until)


class StepRunner:
    """Executes the steps that a buyer yields."""

    def __init__(self, client: Client, log: ClientLog) -> None:
        self._client, self._log = client, log

    async def run(self, steps: Generator[Step, Any, T]) -> T:
        received: Any = None
        while True:
            try:
                step = steps.send(received)
            except StopIteration as end:
                result: T = end.value
                return result
            match step:
                case Call():
                    received = await self._call(step)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                    received = None
                case Together(several):
                    received = await asyncio.gather(*(self.run(each) for each in several))

    async def _call(self, call: Call) -> Response:
        began_ms = now_ms()
        response = Response(0, {}, None, "the generator was stopped")
        try:
            response = await self._client.call(call.method, call.path, call.body, call.headers)
        finally:
            self._log.record(call, began_ms, response)
        return response


async def run_crowd(plan: Plan, log: ClientLog) -> tuple[Counter[str], GeneratorLoad]:
    """Run all buyers to their end. Returns the number of buyers by outcome, and the load of this process."""
    connections = plan.connections if plan.rate is None else _connections_max()
    client = Client(plan.url.rstrip("/") + API, connections)
    runner = StepRunner(client, log)
    outcomes: Counter[str] = Counter()
    monitor = LoadMonitor(time.monotonic(), time.process_time())
    began = time.monotonic()

    async def run_buyer(at_s: float, person: Person) -> None:
        await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
        outcomes[await runner.run(run_person(person, plan.sale))] += 1

    monitoring = asyncio.create_task(_check_forever(monitor, log))
    try:
        async with asyncio.TaskGroup() as crowd:
            for at_s, person in plan.people(began + plan.patience_s):
                crowd.create_task(run_buyer(at_s, person))
    finally:
        monitoring.cancel()
        client.close()
    load = monitor.load(time.monotonic(), time.process_time())
    log.write("generator", **load._asdict())
    return outcomes, load


async def _check_forever(monitor: LoadMonitor, log: ClientLog) -> None:
    """Measure how late this event loop is, and flush the log so that other programs can follow it."""
    while True:
        due = time.monotonic() + CHECK_EVERY_S
        await asyncio.sleep(CHECK_EVERY_S)
        monitor.note(time.monotonic() - due)
        log.flush()


def _connections_max() -> int:
    """What the system allows, because an open loop may need a connection for every buyer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files_max = min(hard, OPEN_FILES_MAX) if hard != resource.RLIM_INFINITY else OPEN_FILES_MAX
    if soft < files_max:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, hard))
    return files_max - 100
