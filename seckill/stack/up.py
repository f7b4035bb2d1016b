"""`seckill up`, and commands to a running stack, as a terminal shows them."""

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

from seckill.config.environment import BadEnvironment, read
from seckill.config.kafka_properties import read_kafka_config
from seckill.stack import control
from seckill.stack.control import StackFault
from seckill.stack.mqcore_brokers import CannotFormat
from seckill.stack.servers import NoServer
from seckill.stack.services import Layout, Ports
from seckill.stack.supervisor import Supervisor

PLAIN = "PLAINTEXT"
STYLES = {"up": "green", "starting": "yellow", "waiting": "dim", "died": "red", "down": "dim"}


def up(
    data: Path,
    ports: dict[str, int],
    scale: dict[str, int],
    kafka: str | None,
    *,
    brokers: int = 1,
    empty: bool = False,
    kafka_config: Path | None = None,
) -> int:
    """Start the stack, print where everything is, and supervise it until Ctrl-C. `empty`: without a first sale."""
    console = Console()
    try:
        config = None if kafka_config is None else read_kafka_config(kafka_config)
        external = kafka or (config and config.bootstrap_servers) or os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or None
        layout = Layout(data.absolute(), Ports(**ports), external, brokers, config)
        _check_kafka(layout)
    except BadEnvironment as fault:
        return _fail(str(fault), 2)
    except TypeError:
        return _fail(f"--port knows {', '.join(Ports().all())}", 2)
    except ValueError as fault:
        return _fail(f"--port {fault}", 2)

    def announce(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    try:
        read(layout.environment())
        supervisor = Supervisor(layout, scale, announce, empty=empty)
    except (BadEnvironment, StackFault) as fault:
        return _fail(str(fault), 2)
    os.umask(0o077)  # data, logs and addresses are readable by this user only
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.request_stop())
    try:
        supervisor.start()
        for line in summary(supervisor):
            announce(line)
        _watch(supervisor, console)
    except (StackFault, NoServer, CannotFormat, OSError) as fault:
        _fail(str(fault), 1)
        supervisor.stop()
        return 1
    except BaseException:  # even a bug leaves no server behind
        supervisor.stop()
        raise
    announce("stopping, in reverse order …")
    supervisor.stop()
    announce("stopped")
    return 0


def _check_kafka(layout: Layout) -> None:
    """Our own broker speaks plain text only, so a login for Kafka without a cluster is a mistake."""
    has_login = layout.kafka_config is not None or read().kafka_security_protocol != PLAIN
    if layout.bootstrap_servers is None and has_login:
        raise BadEnvironment("a login for Kafka needs the cluster's address: --kafka HOST:PORT; mqcore has no logins")
    if layout.bootstrap_servers is not None and layout.brokers > 1:
        raise BadEnvironment("--brokers is the number of mqcore's brokers; with --kafka there are none")


def summary(supervisor: Supervisor) -> list[str]:
    """Where everything is and how to sign in; the last line is the verdict."""
    layout, first_run = supervisor.layout, supervisor.first_run
    shop = f"http://127.0.0.1:{layout.ports.gateway}"
    lines = []
    if first_run.sale:
        lines += [f"shop      {shop}/", f"          {first_run.sale}", "          sign in with any name, e.g. ann"]
        lines += [f"console   {shop}/console", f"          {first_run.operator or _OPERATOR_HELP}"]
        lines += [f"API       {shop}/api/docs", f"metrics   {shop}/metrics"]
    return [*lines, f"up: {shop}/ · data and logs in {layout.folder}"]


_OPERATOR_HELP = "sign in as an operator; `seckill manage operator NAME` creates one or sets a new password"


def _watch(supervisor: Supervisor, console: Console) -> None:
    if not console.is_terminal:
        supervisor.watch(lambda: None)
        return
    with Live(console=console, refresh_per_second=4) as live:
        supervisor.watch(lambda: live.update(_table(supervisor.execute({"command": "status"})["instances"])))


def _table(instances: list[dict[str, Any]]) -> Table:
    table = Table("service", "state", "pid", "restarts", "", box=None)
    for each in instances:
        state = f"[{STYLES.get(each['state'], 'red')}]{each['state']}[/]"
        table.add_row(each["name"], state, str(each["pid"] or ""), str(each["restarts"] or ""), each["missing"])
    return table


def send_command(data: Path, command: control.Command, *, as_json: bool) -> int:
    """Send a command to the running stack and print its reply; the exit code."""
    try:
        reply = control.send_command(Layout(data.absolute()), command)
    except OSError:
        return _fail(f"no stack is running in {data}; `seckill up` starts one", 1)
    if "error" in reply:
        return _fail(str(reply["error"]), 1)
    show: Callable[[object], None] = Console().print
    if as_json:
        print(json.dumps(reply))
    elif "instances" in reply:
        show(_table(reply["instances"]))
    else:
        print(reply["done"] if isinstance(reply["done"], str | int) else ", ".join(reply["done"]))
    return 0


def _fail(text: str, code: int) -> int:
    print(f"seckill: {text}", file=sys.stderr)
    return code
