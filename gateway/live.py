"""Shell: the process that streams what becomes of a request, as server-sent events (an ASGI application of its own).

GET /api/v1/purchases/{id}/events: the bodies of the status address, each as it becomes true; while in the queue the
place in it, once a second if it has moved. An event's id is the version of what is shown, so a reader that comes back
with Last-Event-ID is told only what is newer. The signed place in the address is the permission, because a browser's
EventSource sends no headers of ours; with a user's token it goes without.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import django

from seckill.binding import check_granian
from seckill.database import WEB_STATEMENT_MS

check_granian("the live streams")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "seckill.settings")
os.environ.setdefault("SECKILL_DATABASE_POOL", "4")
os.environ.setdefault("SECKILL_STATEMENT_TIMEOUT_MS", str(WEB_STATEMENT_MS))
django.setup()

from django.conf import settings  # noqa: E402  # Django had to be set up
from django.db import Error as DatabaseError  # noqa: E402
from django.db import close_old_connections  # noqa: E402

from gateway import following, places  # noqa: E402
from gateway.addresses import client_address  # noqa: E402
from gateway.following import Followed  # noqa: E402
from gateway.places import Standing  # noqa: E402
from gateway.streaming import Newsroom, Watcher  # noqa: E402
from seckill import tokens  # noqa: E402
from seckill.descriptors import raise_limit  # noqa: E402
from seckill.problems import PROBLEM, Problem, content  # noqa: E402
from seckill.request_limits import header_problem  # noqa: E402

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

ADDRESS = re.compile(r"/api/v1/purchases/([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})/events")
MOST_STREAMS = 5_000
QUERY_BYTES_MAX, QUERY_FIELDS_MAX = 2048, 8
LOOKERS = 8
MOVED_S = 1.0  # between two looks at a place in the queue
BEAT_S = 15.0
LONGEST_S = 30 * 60.0
ADDRESS_S = 3600
"""A signed address is a permission for so long after the deadline of its request."""
EVENTS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"access-control-allow-origin", b"*"),  # the address itself is the permission
]


class Live:
    def __init__(self, most_streams: int = MOST_STREAMS) -> None:
        self.newsroom = Newsroom(most_streams)
        self._lookers = ThreadPoolExecutor(LOOKERS, thread_name_prefix="look")
        self._stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})

    async def _live(self, receive: Receive, send: Send) -> None:
        news: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                news = asyncio.create_task(self.newsroom.run())
                await send({"type": "lifespan.startup.complete"})
            else:
                self._stopping.set()
                if news is not None:
                    news.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = _headers(scope)
            if scope["path"] in ("/livez", "/readyz"):
                await _say(send, 200, b"text/plain", b"ok\n")
                return
            request_id, standing, user_id, last = _parse(scope, headers)
            address = _address(scope, headers)
            if not self.newsroom.has_room(request_id, address):
                raise Problem(503, "too-many-streams", "Poll the status address instead.", retry_after_s=5)
            with self.newsroom.watching(
                request_id, address
            ) as watcher:  # first listen, then look: nothing falls in between
                followed = await self._look(request_id, standing)
                if followed is None or followed.user_id != user_id:
                    raise Problem(404, "no-such-purchase", "You have no such request.")
                if followed.shown is not None and followed.shown.is_final and followed.shown.version <= last:
                    await _say(send, 204, b"text/plain", b"")  # tells an EventSource to come no more
                    return
                await self._stream(watcher, followed, standing, last, receive, send)
        except Problem as problem:
            more = [(b"access-control-allow-origin", b"*")]
            if problem.retry_after_s is not None:
                more.append((b"retry-after", str(max(1, round(problem.retry_after_s))).encode()))
            await _say(send, problem.status, PROBLEM.encode(), json.dumps(content(problem)).encode(), more)

    async def _stream(
        self, watcher: Watcher, followed: Followed, standing: Standing | None, last: int, receive: Receive, send: Send
    ) -> None:
        """Until it is over, the reader has gone, or this process ends."""
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        await _write(send, f"retry: {random.randrange(1000, 3000)}\n\n")
        ends = [
            asyncio.create_task(self._tell(watcher, followed, standing, last, send)),
            asyncio.create_task(_gone(receive)),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(ends, timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})

    async def _tell(
        self, watcher: Watcher, followed: Followed, standing: Standing | None, last: int, send: Send
    ) -> None:
        told, quiet_s = "", 0.0
        while True:
            text = _event(followed, last)
            if text and text != told:
                told, quiet_s = text, 0.0
                await _write(send, text)
            if followed.shown is not None:
                last = max(last, followed.shown.version)
                if followed.shown.is_final:
                    return
            wait_s = BEAT_S if followed.shown is not None else MOVED_S
            heard = await watcher.listen(wait_s)
            if heard is not None:
                followed = followed._replace(shown=heard)
                continue
            quiet_s += wait_s
            if quiet_s >= BEAT_S:
                quiet_s = 0.0
                await _write(send, ": still here\n\n")
            if followed.shown is not None or not following.is_queued(followed):
                looked = await self._look(watcher.request_id, standing)
                if looked is not None and (looked.shown is not None or followed.shown is None):
                    followed = looked  # what he has been shown is not taken back

    async def _look(self, request_id: UUID, standing: Standing | None) -> Followed | None:
        """On a thread: it may have to ask the database."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._lookers, _follow, request_id, standing)
        except DatabaseError as fault:
            raise Problem(503, "database-unavailable", "Try again in a moment.", retry_after_s=2) from fault


def _follow(request_id: UUID, standing: Standing | None) -> Followed | None:
    try:
        return following.follow(request_id, standing)
    finally:
        close_old_connections()


def _headers(scope: Scope) -> dict[str, str]:
    """By their names in lower case; what is repeated is joined. `Problem` if they are too many or unreadable."""
    pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    if (problem := header_problem(pairs)) is not None:
        raise problem
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in pairs:
        values[name].append(value)
    return {name: ",".join(all_of_it) for name, all_of_it in values.items()}


def _address(scope: Scope, headers: Mapping[str, str]) -> str:
    peer = (scope.get("client") or ("",))[0]
    return client_address({"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": headers.get("x-forwarded-for", "")})


def _parse(scope: Scope, headers: Mapping[str, str]) -> tuple[UUID, Standing | None, str, int]:
    """Which request, what its address says of it, who asks, and what he has seen."""
    found = ADDRESS.fullmatch(scope["path"])
    if found is None:
        raise Problem(404, "no-such-address", "Nothing is here.")
    if scope["method"] != "GET":
        raise Problem(405, "wrong-method", "This address does not know this method.")
    request_id = UUID(found[1])
    try:
        query = parse_qs(
            scope["query_string"][: QUERY_BYTES_MAX + 1].decode("latin-1"), max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError as error:
        raise Problem(400, "bad-request", f"A query has at most {QUERY_FIELDS_MAX} fields.") from error
    if len(scope["query_string"]) > QUERY_BYTES_MAX:
        raise Problem(400, "bad-request", f"A query has at most {QUERY_BYTES_MAX} bytes.")
    place = query.get("place", [""])[0]
    standing = places.opened(request_id, place)
    if standing is not None and not _is_permission(standing):
        standing = None  # whoever has kept it, or was given it, has to be the user by now
    kind, _, token = headers.get("authorization", "").partition(" ")
    user_id = standing.user_id if standing is not None else tokens.read(token) if kind.lower() == "bearer" else None
    if user_id is None:
        raise Problem(401, "not-signed-in", "Use the events_url of your purchase, or send your token.")
    last = headers.get("last-event-id", "")
    return request_id, standing, user_id, int(last) if last.isdecimal() and len(last) < 10 else -1


def _is_permission(standing: Standing) -> bool:
    deadline_s = standing.deadline_ms / 1000
    if time.time() > deadline_s + ADDRESS_S:
        return False
    return not tokens.is_revoked(deadline_s - settings.ENVIRONMENT.purchase_deadline_s)


def _event(followed: Followed, last: int) -> str:
    """Empty: he knows that."""
    data = json.dumps(followed.body(followed.estimate), separators=(",", ":"))
    if followed.shown is None:
        return f"event: purchase\ndata: {data}\n\n"
    version = followed.shown.version
    return f"id: {version}\nevent: purchase\ndata: {data}\n\n" if version > last else ""


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _say(
    send: Send, status: int, kind: bytes, body: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    head = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


raise_limit()
application = Live()
