"""The broker imports at its start only what a start needs."""

from __future__ import annotations

import subprocess
import sys

LATER = ("mqcore.wire.requests", "mqcore.wire.schemas", "mqcore.wire.schema_codecs", "mqcore.log.dump", "tomllib")
"""Needed by the first request, by a tool, or by a configuration file."""


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
