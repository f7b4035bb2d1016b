"""Shell: words to a running stack: one JSON object a line over a Unix socket, one answer a line."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from seckill.stack.services import Layout

PATIENCE_S = 60.0
WORD_S = 5.0

log = logging.getLogger(__name__)

Answer = dict[str, Any]


class StackFault(Exception):
    """The stack cannot start or obey; the text says what happened and what to do."""


def listen(layout: Layout, obey: Callable[[dict[str, Any]], Answer]) -> None:
    """Take the folder for this stack, and its words from now on; `StackFault` if a living one has it."""
    path = layout.socket
    if path.exists():
        try:
            ask(layout, {"word": "status"})
        except OSError:
            path.unlink()
        else:
            raise StackFault(f"a stack is running in {layout.folder} already; `seckill down` stops it")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(8)
    threading.Thread(target=_serve, args=(listener, obey), daemon=True).start()


def _serve(listener: socket.socket, obey: Callable[[dict[str, Any]], Answer]) -> None:
    while True:
        caller, _ = listener.accept()
        with caller:
            caller.settimeout(WORD_S)
            try:
                with caller.makefile("rw") as lines:
                    lines.write(json.dumps(_answer(lines.readline(), obey)) + "\n")
            except OSError as gone:
                log.info("caller gone", extra={"reason": str(gone)})


def _answer(line: str, obey: Callable[[dict[str, Any]], Answer]) -> Answer:
    try:
        return obey(json.loads(line))
    except (ValueError, KeyError, TypeError, StackFault) as error:
        return {"error": str(error)}


def ask(layout: Layout, order: dict[str, Any]) -> Answer:
    """One word to a running stack; `OSError` if there is none."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(PATIENCE_S)
        caller.connect(str(layout.socket))
        with caller.makefile("rw") as lines:
            lines.write(json.dumps(order) + "\n")
            lines.flush()
            line = lines.readline()
    if not line:
        raise ConnectionError("the stack has gone away")
    answer: Answer = json.loads(line)
    return answer
