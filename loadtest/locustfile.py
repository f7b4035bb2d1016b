"""Shell: `locust -f loadtest/locustfile.py`: the same buyers, as Locust's users; web UI, headless, distributed.

A user lives one buyer after another, each with a name of his own. Each process writes a log of its own into --evidence
and declares it in the manifest there, so that `seckill report` can hold everything against it; a worker that is killed
leaves a log that is declared and cut off. With --arrival-rate the users are sources instead: buyers arrive at that
rate, whatever became of those before them.

Locust turns the sockets of its whole process into gevent's: nothing of the product is imported here.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Generator
from typing import Any

import gevent
from locust import FastHttpUser, LoadTestShape, User, between, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import MasterRunner

from loadtest import shapes
from loadtest.buyers import API, Answer, Call, Pause, Person, Together, life
from loadtest.characters import FARM, FLOOD, GREEDY, HONEST, IMPATIENT, STORM, Character, Mixture, address
from loadtest.ledger import now_ms
from loadtest.locustrun import DEFAULT_HOST, Run
from loadtest.locustweb import LOOPBACK, protect
from seckill.binding import check_bind

log = logging.getLogger(__name__)


@events.init_command_line_parser.add_listener
def _options(parser: LocustArgumentParser) -> None:
    parser.set_defaults(web_host=LOOPBACK, master_bind_host=LOOPBACK)  # Locust's own default: every interface
    parser.add_argument(
        "--evidence",
        default="var/stack/evidence",
        help="folder of the logs and their manifest",
        include_in_web_ui=False,
    )
    group = parser.add_argument_group("flash sale")
    group.add_argument("--sale", type=int, default=0, help="number of the sale; 0: the newest one")
    group.add_argument("--patience", type=float, default=60.0, help="seconds after which a buyer goes home")
    group.add_argument(
        "--shape",
        default="",
        choices=["", *shapes.SHAPES],
        help="a story told with up to -u users, instead of -u all along",
    )
    group.add_argument(
        "--arrival-rate", type=float, default=0.0, help="open loop: so many buyers a second; the users are its sources"
    )


@events.init.add_listener
def _guard_page(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    if options is None or options.worker:
        return
    if not options.headless:
        check_bind(options.web_host, "Locust's page")
    if options.master:
        check_bind(options.master_bind_host.replace("*", ""), "Locust's master")
    if environment.web_ui is not None:
        protect(environment.web_ui.app, environment)


# ── a process's evidence ─────────────────────────────────────────────────────────────────────────


_run: Run | None = None


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    global _run
    if not isinstance(environment.runner, MasterRunner):  # it has no users
        _run = Run(environment)


@events.test_stopping.add_listener
def _stop(environment: Environment, **_: Any) -> None:
    if _run is not None:
        _run.is_stopping = True


@events.test_stop.add_listener
def _end(environment: Environment, **_: Any) -> None:
    """All users have stopped: the log can be closed."""
    global _run
    if _run is not None:
        _run.close()
        _run = None


# ── users ────────────────────────────────────────────────────────────────────────────────────────


class Crowd(FastHttpUser):
    """What all users are. `sort`: which of them a scene of a story calls."""

    abstract = True
    host = DEFAULT_HOST
    wait_time = between(0.5, 2.0)
    concurrency = 100
    connection_timeout = network_timeout = 15.0
    sort = shapes.PEOPLE
    character: Character = HONEST

    @task
    def live(self) -> None:
        run, options = _run, self.environment.parsed_options
        assert run is not None and options is not None
        if options.arrival_rate > 0:
            self._emit(run, options.arrival_rate / max(1, options.num_users or 1), options.patience)
        else:
            self._one(run, self.character, options.patience)

    def _emit(self, run: Run, rate: float, patience_s: float) -> None:
        """A source: buyers at so many a second until the test is stopped, then until they are done."""
        chance, mixture = random.Random(), Mixture()
        arriving: set[gevent.Greenlet] = set()
        due = time.monotonic()
        try:
            while not run.is_stopping:
                due += chance.expovariate(rate)
                gevent.sleep(max(0.0, due - time.monotonic()))
                one = gevent.spawn(self._one, run, mixture.somebody(chance), patience_s)
                arriving.add(one)
                one.link(arriving.discard)
            gevent.joinall(list(arriving))
        finally:
            gevent.killall(list(arriving))

    def _one(self, run: Run, character: Character, patience_s: float) -> None:
        run.buyers += 1
        until = time.monotonic() + patience_s
        chance = random.Random()
        name = f"{character.name}-{run.name}-{run.buyers}"
        person = Person(name, address(chance), character, chance, lambda: time.monotonic() > until)
        self._drive(life(person, run.sale), run)

    def _drive(self, steps: Generator[Any, Any, Any], run: Run) -> Any:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            match step:
                case Call():
                    answer = self._call(step, run)
                case Pause(seconds):
                    gevent.sleep(seconds)
                    answer = None
                case Together(several):
                    greenlets = [gevent.spawn(self._drive, each, run) for each in several]
                    try:
                        gevent.joinall(greenlets, raise_error=True)
                    finally:
                        gevent.killall(greenlets)
                    answer = [greenlet.value for greenlet in greenlets]

    def _call(self, call: Call, run: Run) -> Answer:
        """A line of the log, whatever becomes of it, also when Locust ends this user in the middle."""
        began_ms = now_ms()
        answer = Answer(0, {}, None, "the generator was stopped")
        try:
            with self.client.request(
                call.method, f"{API}{call.path}", name=f"{call.method} {call.name}", headers=dict(call.headers),
                json=call.body, catch_response=True,
            ) as response:  # fmt: skip
                answer = _answer(response)
                if answer.status and (answer.status < 500 or answer.status == 503):
                    response.success()  # a refusal is an answer; what is no answer, or a crash, is a failure
                else:
                    response.failure(answer.fault or f"status {answer.status}")
        finally:
            run.log.record(call, began_ms, answer)
        return answer


def _answer(response: Any) -> Answer:
    if not response.status_code:
        return Answer(0, {}, None, repr(response.error))
    try:
        body = json.loads(response.content or b"{}")
    except ValueError:
        body = {}
    after, poll_ms = response.headers.get("Retry-After"), response.headers.get("X-Poll-After-Ms")
    return Answer(
        response.status_code, body if isinstance(body, dict) else {}, float(after) if after else None, "",
        float(poll_ms) / 1000 if poll_ms else None,
    )  # fmt: skip


class Honest(Crowd):
    weight = 60
    character = HONEST


class Impatient(Crowd):
    weight = 20
    sort = shapes.IMPATIENT
    character = IMPATIENT


class Greedy(Crowd):
    weight = 10
    sort = shapes.IMPATIENT
    character = GREEDY


class RetryStorm(Crowd):
    weight = 8
    sort = shapes.IMPATIENT
    character = STORM


class Farm(Crowd):
    """Many accounts at one address."""

    weight = 1
    sort = shapes.BOTS
    character = FARM


class Flood(Crowd):
    """One account, a thousand requests."""

    weight = 1
    sort = shapes.BOTS
    character = FLOOD


# ── stories ──────────────────────────────────────────────────────────────────────────────────────


class Story(LoadTestShape):
    """A table of loadtest/shapes.py, told by the runner. Not this file's shape class unless --shape asks for one."""

    abstract = True
    use_common_options = True

    def __init__(self, shape: str, most: int) -> None:
        super().__init__()
        self._shape, self._most, self._scene = shape, most, ""

    def tick(self) -> tuple[int, float, list[type[User]] | None] | None:
        wanted = shapes.at(self._shape, self.get_run_time(), self._most)
        if wanted is None:
            return None
        if wanted.scene != self._scene:
            self._scene = wanted.scene
            log.info("%s: up to %s users", wanted.scene, wanted.users)
        return wanted.users, wanted.rate, [sort for sort in Crowd.__subclasses__() if sort.sort in wanted.who]


@events.init.add_listener
def _take_shape(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    if options is not None and options.shape and not options.worker:
        environment.shape_class = Story(options.shape, options.num_users or 100)
        environment.shape_class.runner = environment.runner
