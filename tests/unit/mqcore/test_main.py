"""The broker imports at its start only what a start needs, and collects no garbage until it has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LATER = (
    *("mqcore.wire.requests", "mqcore.wire.schemas", "mqcore.wire.schema_codecs", "mqcore.log.dump", "tomllib"),
    *("mqcore.cli", "mqcore.apis.controller_table", "mqcore.controller.remote", "mqcore.controller.forwarder"),
)
"""Needed by the first request, by a tool, by a configuration file, or in a cluster."""


def _imported(statements: str) -> set[str]:
    """What of `LATER` a new interpreter has imported after the statements."""
    code = f"{statements}\nimport sys; print(*[name for name in {LATER} if name in sys.modules])"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_a_start_imports_neither_schemas_nor_request_types_nor_tools() -> None:
    assert _imported("import mqcore.__main__, mqcore.config, mqcore.broker") == set()


def test_a_module_that_is_imported_too_early_is_noticed() -> None:
    assert _imported("import mqcore.broker, mqcore.wire.requests.heartbeat, tomllib") == {
        "mqcore.wire.requests",
        "tomllib",
    }


def test_the_first_message_imports_its_schema() -> None:
    first = "from mqcore.wire.messages import encode_response; encode_response(12, 4, {})"
    assert _imported(first) == {"mqcore.wire.schemas", "mqcore.wire.schema_codecs"}


def test_garbage_is_collected_once_the_broker_has_started(tmp_path: Path) -> None:
    code = """
import gc, os, sys, threading
from mqcore.__main__ import main

def end_after_the_start() -> None:
    was_off = False
    while not gc.get_freeze_count():
        was_off = was_off or not gc.isenabled()
    print(was_off, gc.isenabled(), flush=True)
    os._exit(0)

threading.Thread(target=end_after_the_start).start()
sys.exit(main(["serve", "--listen", "127.0.0.1:0", "--data", sys.argv[1]]))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
