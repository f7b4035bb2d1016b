"""Shell: `locust -f loadtest/locustfile.py`: the simulated buyers as Locust users, with a web page or headless.

Each Locust user runs one buyer after another, each with a new name. Each process writes its own log into --evidence and
lists it in the manifest there, so that `seckill report` can check it; the log of a killed worker is listed but
incomplete. With --arrival-rate, Locust users are sources that start new buyers at this rate, whether or not earlier
buyers have finished.

Locust patches the sockets of its whole process for gevent, so no service is imported here.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import gevent
from locust import FastHttpUser, LoadTestShape, User, between, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import MasterRunner

from loadtest import load_shapes
from loadtest.buyer_profiles import FARM, FLOOD, GREEDY, HONEST, IMPATIENT, STORM, Character, Mixture, random_address
from loadtest.buyers import API, Call, Pause, Person, Response, Together, run_person
from loadtest.client_log import now_ms
from loadtest.locust_page import DEFAULT_HOST, USERS, USERS_PER_SECOND, Proposal, host_of_stack, propose_sale
from loadtest.locust_run import LocustRun
from loadtest.locust_web import LOOPBACK, protect
from seckill.config.public_bind import check_bind

log = logging.getLogger(__name__)


_page_host: str | None = None
"""The target of Locust's page once it is served. Locust asks for the options again each time the page is opened."""


@events.init_command_line_parser.add_listener
def _add_options(parser: LocustArgumentParser) -> None:
    parser.set_defaults(web_host=LOOPBACK, master_bind_host=LOOPBACK)  # Locust's own default is every interface
    parser.add_argument(
        "--evidence",
        default="var/stack/evidence",
        help="folder for the logs and their manifest",
        include_in_web_ui=False,
    )
    sale = (
        Proposal(0, "number of the sale; 0 means the running one") if _page_host is None else propose_sale(_page_host)
    )
    # Not in a group of their own, because Locust's page shows only options that its own parser was given.
    parser.add_argument("--sale", type=int, default=sale.sale, help=sale.text)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a buyer gives up")
    parser.add_argument(
        "--shape",
        default="",
        choices=["", *load_shapes.SHAPES],
        help="vary the number of users over time, up to -u, instead of keeping it constant",
        include_in_web_ui=False,  # a shape is chosen before the page is served
    )
    parser.add_argument("--arrival-rate", type=float, default=0.0, help="open loop: start this many buyers per second")


@events.init.add_listener
def _prepare_page(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    if options is None or options.worker:
        return
    environment.host = environment.host or host_of_stack(Path(options.evidence))
    if not options.headless:
        check_bind(options.web_host, "Locust's page")
    if options.master:
        check_bind(options.master_bind_host.replace("*", ""), "Locust's master")
    if environment.web_ui is not None:
        protect(environment.web_ui.app, environment)
        _propose(environment.host, options)


def _propose(host: str, options: Any) -> None:
    global _page_host
    _page_host = host
    options.num_users = options.num_users or USERS
    options.spawn_rate = options.spawn_rate or USERS_PER_SECOND


# ── the log of a process ─────────────────────────────────────────────────────────────────────────


_run: LocustRun | None = None


@events.test_start.add_listener
def _start_run(environment: Environment, **_: Any) -> None:
    global _run
    if not isinstance(environment.runner, MasterRunner):  # the master has no users
        _run = LocustRun(environment)


@events.test_stopping.add_listener
def _mark_stopping(environment: Environment, **_: Any) -> None:
    if _run is not None:
        _run.is_stopping = True


@events.test_stop.add_listener
def _close_run(environment: Environment, **_: Any) -> None:
    """All users have stopped, so the log can be closed."""
    global _run
    if _run is not None:
        _run.close()
        _run = None


# ── users ────────────────────────────────────────────────────────────────────────────────────────


class SaleUser(FastHttpUser):
    """The base class of all users. A scene of a shape selects users by their `group`."""

    abstract = True
    host = DEFAULT_HOST
    wait_time = between(0.5, 2.0)
    concurrency = 100
    connection_timeout = network_timeout = 15.0
    group = load_shapes.PEOPLE
    character: Character = HONEST

    @task
    def visit_sale(self) -> None:
        run, options = _run, self.environment.parsed_options
        assert run is not None and options is not None
        if options.arrival_rate > 0:
            self._start_buyers(run, options.arrival_rate / max(1, options.num_users or 1), options.patience)
        else:
            self._run_buyer(run, self.character, options.patience)

    def _start_buyers(self, run: LocustRun, rate: float, patience_s: float) -> None:
        """Start buyers at this rate until the test is stopped, then wait until they have finished."""
        chance, mixture = random.Random(), Mixture()
        active: set[gevent.Greenlet] = set()
        due = time.monotonic()
        try:
            while not run.is_stopping:
                due += chance.expovariate(rate)
                gevent.sleep(max(0.0, due - time.monotonic()))
                buyer = gevent.spawn(self._run_buyer, run, mixture.pick_character(chance), patience_s)
                active.add(buyer)
                buyer.link(active.discard)
            gevent.joinall(list(active))
        finally:
            gevent.killall(list(active))

    def _run_buyer(self, run: LocustRun, character: Character, patience_s: float) -> None:
        run.buyers += 1
        until = time.monotonic() + patience_s
        chance = random.Random()
        name = f"{character.name}-{run.name}-{run.buyers}"
        person = Person(name, random_address(chance), character, chance, lambda: time.monotonic() > until)
        self._run_steps(run_person(person, run.sale), run)

    def _run_steps(self, steps: Generator[Any, Any, Any], run: LocustRun) -> Any:
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                return end.value
            match step:
                case Call():
                    result = self._call(step, run)
                case Pause(seconds):
                    gevent.sleep(seconds)
                    result = None
                case Together(several):
                    greenlets = [gevent.spawn(self._run_steps, each, run) for each in several]
                    try:
                        gevent.joinall(greenlets, raise_error=True)
                    finally:
                        gevent.killall(greenlets)
                    result = [greenlet.value for greenlet in greenlets]

    def _call(self, call: Call, run: LocustRun) -> Response:
        """Every request becomes a line of the log, even if Locust stops this user before the response."""
        began_ms = now_ms()
        response = Response(0, {}, None, "the generator was stopped")
        try:
            with self.client.request(
                call.method, f"{API}{call.path}", name=f"{call.method} {call.name}", headers=dict(call.headers),
                json=call.body, catch_response=True,
            ) as received:  # fmt: skip
                response = _parse_response(received)
                if response.status and (response.status < 500 or response.status == 503):
                    received.success()  # a refusal is a valid response; only server errors and silence are failures
                else:
                    received.failure(response.fault or f"status {response.status}")
        finally:
            run.log.record(call, began_ms, response)
        return response


def _parse_response(received: Any) -> Response:
    if not received.status_code:
        return Response(0, {}, None, repr(received.error))
    try:
        body = json.loads(received.content or b"{}")
    except ValueError:
        body = {}
    after, poll_ms = received.headers.get("Retry-After"), received.headers.get("X-Poll-After-Ms")
    return Response(
        received.status_code, body if isinstance(body, dict) else {}, float(after) if after else None, "",
        float(poll_ms) / 1000 if poll_ms else None,
    )  # fmt: skip


class HonestBuyer(SaleUser):
    """Clicks once and respects Retry-After."""

    weight = 60
    character = HONEST


class DoubleClicker(SaleUser):
    """Clicks twice at once with the same key."""

    weight = 20
    group = load_shapes.IMPATIENT
    character = IMPATIENT


class TwoKeyBuyer(SaleUser):
    """Tries a second purchase with another key."""

    weight = 10
    group = load_shapes.IMPATIENT
    character = GREEDY


class RetryStorm(SaleUser):
    """Clicks four times at once and ignores Retry-After."""

    weight = 8
    group = load_shapes.IMPATIENT
    character = STORM


class AccountFarm(SaleUser):
    """A bot with many accounts at one IP address."""

    weight = 1
    group = load_shapes.BOTS
    character = FARM


class RequestFlood(SaleUser):
    """A bot with one account and a thousand requests."""

    weight = 1
    group = load_shapes.BOTS
    character = FLOOD


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────


class SceneShape(LoadTestShape):
    """A shape of loadtest/load_shapes.py. It is abstract, because Locust would otherwise use it without --shape."""

    abstract = True
    use_common_options = True

    def __init__(self, shape: str, users_max: int) -> None:
        super().__init__()
        self._shape, self._users_max, self._scene = shape, users_max, ""

    def tick(self) -> tuple[int, float, list[type[User]] | None] | None:
        target = load_shapes.target_at(self._shape, self.get_run_time(), self._users_max)
        if target is None:
            return None
        if target.scene != self._scene:
            self._scene = target.scene
            log.info("%s: up to %s users", target.scene, target.users)
        return target.users, target.rate, [user for user in SaleUser.__subclasses__() if user.group in target.groups]


@events.init.add_listener
def _use_shape(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    if options is not None and options.shape and not options.worker:
        environment.shape_class = SceneShape(options.shape, options.num_users or 100)
        environment.shape_class.runner = environment.runner
