"""`seckill up` and the words for a running stack, as seen from a terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from seckill.environment import BadEnvironment, read
from seckill.stack.control import StackFault, ask
from seckill.stack.servers import NoServer
from seckill.stack.services import Layout, Ports
from seckill.stack.supervisor import Supervisor

STYLES = {"up": "green", "starting": "yellow", "waiting": "dim", "died": "red", "down": "dim"}


def up(data: Path, ports: dict[str, int], scale: dict[str, int], kafka: str | None) -> int:
    console = Console()
    try:
        layout = Layout(data.absolute(), Ports(**ports), kafka or os.environ.get("KAFKA_BOOTSTRAP_SERVERS"))
    except TypeError:
        known = ", ".join(Ports().all())
        print(f"seckill: --port knows {known}", file=sys.stderr)
        return 2
    except ValueError as fault:
        print(f"seckill: --port {fault}", file=sys.stderr)
        return 2
    try:
        read(layout.environment())
    except BadEnvironment as bad:
        print(f"seckill: {bad}", file=sys.stderr)
        return 2
    try:
        supervisor = Supervisor(
            layout, scale, lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True)
        )
    except StackFault as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        return 2
    os.umask(0o077)  # data, logs and addresses are for this user only
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.request_stop())
    try:
        supervisor.start()
        where = f"http://127.0.0.1:{layout.ports.gateway}/"
        console.print(f"up: {where} · data and logs in {layout.folder}", markup=False, soft_wrap=True)
        _watch(supervisor, console)
    except (StackFault, NoServer, OSError) as fault:
        print(f"seckill: {fault}", file=sys.stderr)
        supervisor.stop()
        return 1
    console.print("stopping, in reverse order …")
    supervisor.stop()
    console.print("stopped")
    return 0


def _watch(supervisor: Supervisor, console: Console) -> None:
    if not console.is_terminal:
        supervisor.watch(lambda: None)
        return
    with Live(console=console, refresh_per_second=4) as live:
        supervisor.watch(lambda: live.update(_table(supervisor.obey({"word": "status"})["instances"])))


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("service", "state", "pid", "restarts", "", box=None)
    for row in rows:
        state = f"[{STYLES.get(row['state'], 'red')}]{row['state']}[/]"
        table.add_row(row["name"], state, str(row["pid"] or ""), str(row["restarts"] or ""), row["missing"])
    return table


def tell(data: Path, order: dict[str, Any], *, as_json: bool) -> int:
    try:
        answer = ask(Layout(data.absolute()), order)
    except OSError:
        print(f"seckill: no stack is running in {data}; `seckill up` starts one", file=sys.stderr)
        return 1
    if "error" in answer:
        print(f"seckill: {answer['error']}", file=sys.stderr)
        return 1
    show: Callable[[object], None] = Console().print
    if as_json:
        print(json.dumps(answer))
    elif "instances" in answer:
        show(_table(answer["instances"]))
    else:
        print(answer["done"] if isinstance(answer["done"], str | int) else ", ".join(answer["done"]))
    return 0
