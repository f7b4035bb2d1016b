"""A scenario told step by step: what happened, and what the log of each broker then holds."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mqcore.identity import BrokerId
from mqcore.partitions.leader import LeaderState
from tests.simulation.replication.bench import Bench, Held
from tests.simulation.replication.records import RecordId
from tests.simulation.replication.replica import Produced
from tests.simulation.replication.scenario_steps import Scenario
from tests.simulation.replication.setup import Setup
from tests.simulation.replication.truth import Violated
from tests.simulation.replication.world import BROKERS

LEGEND = """7² is record 7, written in leader epoch 2.  | is the high watermark that the broker knows.
A broker with * takes itself for the leader, a broker with † is dead."""
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
STEP_WIDTH, LOG_WIDTH = 52, 18


def tell(scenario: Scenario, setup: Setup) -> bool:
    """Print the scenario. Returns whether it holds; a seeded bug may break it."""
    heads = "".join(f"{f' broker {each}':{LOG_WIDTH}}" for each in BROKERS)
    print(LEGEND, "", f"{'':{STEP_WIDTH}}{heads}".rstrip(), sep="\n")
    bench = ToldBench(setup)
    try:
        scenario(bench)
    except AssertionError as error:
        line = traceback.extract_tb(error.__traceback__)[-1].line
        print(f"\nFAILED: {str(error) or line}")
        return False
    print("\nFAILED: a property was violated" if bench.violations else "\nThe scenario holds.")
    return not bench.violations


class ToldBench(Bench):
    """It goes on after a violation, because what follows from it is the interesting part."""

    def __init__(self, setup: Setup) -> None:
        self.violations: list[Violated] = []
        self._notes: list[str] = []
        self._depth = 1  # the steps of `Bench.__init__` are not told
        super().__init__(setup)
        self._depth = 0
        self._term = self.controller.terms[self.partition]
        with self._step("broker 1 leads, all are in sync"):
            pass

    @contextmanager
    def _step(self, text: str) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._tell(text)

    def _tell(self, text: str) -> None:
        print(f"{text:{STEP_WIDTH}}" + "".join(f"{self._log(each):{LOG_WIDTH}}" for each in BROKERS).rstrip())
        term = self.controller.terms[self.partition]
        if term != self._term:
            self._term = term
            in_sync = ", ".join(map(str, sorted(term.isr)))
            leader = "no leader" if term.leader < 0 else f"leader {term.leader}"
            self._notes.insert(0, f"the controller: {leader}, epoch {term.leader_epoch}, in sync {in_sync}")
        for note in self._notes:
            print(f"    → {note}")
        self._notes.clear()

    def _log(self, broker: BrokerId) -> str:
        replica = self.brokers[broker].replicas.get(self.partition)
        if replica is None:
            return " –"
        records = [_record(each) for each in replica.content]
        records.insert(replica.high_watermark, "|")
        mark = "*" if isinstance(replica.role, LeaderState) else " "
        return (mark if self.brokers[broker].node.is_running else "†") + " ".join(records)

    def check(self) -> None:
        try:
            super().check()
        except Violated as violated:
            if str(violated) not in map(str, self.violations):
                self._notes.append(f"VIOLATED {violated}")
            self.violations.append(violated)

    # ── the steps ────────────────────────────────────────────────────────────────────────────────

    def start_and_register(self, number: int) -> None:
        with self._step(f"broker {number} starts and registers"):
            super().start_and_register(number)

    def fence(self, *numbers: int) -> None:
        with self._step(f"the session of {_brokers(numbers)} ends"):
            super().fence(*numbers)

    def unfence(self, number: int) -> None:
        with self._step(f"the controller hears from broker {number} again"):
            super().unfence(number)

    def tell(self, *numbers: int) -> None:
        with self._step(f"the metadata reach {_brokers(numbers)}"):
            super().tell(*numbers)

    def kill(self, number: int) -> None:
        with self._step(f"broker {number} is killed"):
            super().kill(number)

    def power_loss(self, number: int) -> None:
        with self._step(f"broker {number} loses power"):
            super().power_loss(number)

    def wipe(self, number: int) -> None:
        with self._step(f"broker {number} loses its disk"):
            super().wipe(number)

    def wait(self, ms: int) -> None:
        with self._step(f"{ms} ms pass"):
            super().wait(ms)

    def recreate(self) -> None:
        with self._step("the topic is deleted and created again"):
            super().recreate()

    def fetch(self, number: int) -> bool:
        with self._step(f"broker {number} fetches once"):
            return super().fetch(number)

    def replicate(self, *numbers: int) -> None:
        with self._step(f"fetches of {_brokers(numbers)}, until nothing is new"):
            super().replicate(*numbers)

    def alter(self, number: int) -> Held:
        with self._step(f"broker {number} proposes other in-sync replicas"):
            return super().alter(number)

    def produce(
        self, number: int, *records: int, acks: int = -1, producer: int = -1, sequence: int = -1
    ) -> list[Produced]:
        sent = ", ".join(map(str, records))
        with self._step(f"broker {number} gets {sent} with acks={'all' if acks == -1 else acks}"):
            return super().produce(number, *records, acks=acks, producer=producer, sequence=sequence)

    def _remember(self, answers: list[Produced], records: tuple[int, ...], acks: int) -> Callable[[Produced], None]:
        reply = super()._remember(answers, records, acks)

        def noted(answer: Produced) -> None:
            sent = ", ".join(map(str, records))
            self._notes.append(f"the producer of {sent} gets {answer.error.name if answer.error else 'its answer'}")
            reply(answer)

        return noted


def _record(record: RecordId) -> str:
    return f"{record.number}{str(record.leader_epoch).translate(SUPERSCRIPTS)}" if record.number >= 0 else "…"


def _brokers(numbers: tuple[int, ...]) -> str:
    return ("broker " if len(numbers) == 1 else "brokers ") + ", ".join(map(str, numbers))
