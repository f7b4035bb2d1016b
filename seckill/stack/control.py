"""Shell: commands to a running stack over a Unix socket: one JSON object per line, one JSON reply per line."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from seckill.stack.services import Layout

REPLY_SECONDS_MAX = 60.0
REQUEST_SECONDS_MAX = 5.0

log = logging.getLogger(__name__)

Command = dict[str, Any]
"""`{"command": "stop", "name": "inventory"}`; the supervisor defines the commands."""
Reply = dict[str, Any]


class StackFault(Exception):
    """The stack cannot start or cannot execute a command; the text says what happened and what to do."""


class CommandRefused(StackFault):
    """The stack is running but does not execute a command. Its template and facts go to the client, which may translate
    the text (the console) or not (the command line)."""

    def __init__(self, template: str, **facts: object) -> None:
        super().__init__(template.format(**facts))
        self.template = template
        self.facts = {name: str(fact) for name, fact in facts.items()}


def serve_commands(layout: Layout, execute: Callable[[Command], Reply]) -> None:
    """Claim the stack's folder and answer commands in a thread; `StackFault` if another stack runs in this folder."""
    path = layout.socket
    if path.exists():
        try:
            send_command(layout, {"command": "status"})
        except OSError:
            path.unlink()
        else:
            raise StackFault(f"a stack is running in {layout.folder} already; `seckill down` stops it")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(8)
    threading.Thread(target=_accept_forever, args=(listener, execute), daemon=True).start()


def _accept_forever(listener: socket.socket, execute: Callable[[Command], Reply]) -> None:
    while True:
        client, _ = listener.accept()
        with client:
            client.settimeout(REQUEST_SECONDS_MAX)
            try:
                with client.makefile("rw") as lines:
                    lines.write(json.dumps(_execute_line(lines.readline(), execute)) + "\n")
            except OSError as fault:
                log.info("a client closed the control connection", extra={"reason": str(fault)})


def _execute_line(line: str, execute: Callable[[Command], Reply]) -> Reply:
    try:
        return execute(json.loads(line))
    except CommandRefused as refusal:
        return {"error": str(refusal), "template": refusal.template, "facts": refusal.facts}
    except (ValueError, KeyError, TypeError, StackFault) as error:
        return {"error": str(error)}


def send_command(layout: Layout, command: Command) -> Reply:
    """The reply of the running stack; `OSError` if no stack runs in this folder."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(REPLY_SECONDS_MAX)
        client.connect(str(layout.socket))
        with client.makefile("rw") as lines:
            lines.write(json.dumps(command) + "\n")
            lines.flush()
            line = lines.readline()
    if not line:
        raise ConnectionError("the stack ended before it replied")
    reply: Reply = json.loads(line)
    return reply
