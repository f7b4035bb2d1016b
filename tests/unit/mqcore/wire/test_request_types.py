"""The generated types of requests are fresh, are what the decoder returns, and let mypy check the handlers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from mypy import api as mypy

from mqcore.apis.call import Api
from mqcore.apis.controller_table import CONTROLLER_TABLE
from mqcore.apis.table import TABLE
from mqcore.wire.messages import decode_request, encode_request
from mqcore.wire.requests import generate
from mqcore.wire.schemas import snake_case

ROOT = Path(__file__).parents[4]
OWN_CODECS = {"Produce", "Fetch"}
APIS = [entry.api for entry in (*TABLE.values(), *CONTROLLER_TABLE.values()) if entry.api.name not in OWN_CODECS]


def test_no_generated_module_is_stale() -> None:
    assert generate.stale_modules() == [], "run python -m mqcore.wire.requests.generate"


def test_a_module_that_differs_is_stale(tmp_path: Path) -> None:
    generate.write_modules(tmp_path)
    assert generate.stale_modules(tmp_path) == []
    path = tmp_path / "heartbeat.py"
    path.write_text(path.read_text().replace("generation_id: int", "generation: int"))
    (tmp_path / "metadata.py").unlink()
    assert generate.stale_modules(tmp_path) == ["heartbeat.py", "metadata.py"]


def test_every_served_api_has_a_request_type() -> None:
    assert set(generate.REQUESTS) == {api.name for api in APIS}
    modules = {path.stem for path in generate.FOLDER.glob("*.py")} - {"__init__", "generate"}
    assert modules == {snake_case(name) for name in generate.REQUESTS}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_decoded_request_has_the_generated_type_in_every_version(api: Api) -> None:
    expected = getattr(import_module(f"mqcore.wire.requests.{snake_case(api.name)}"), f"{api.name}Request")
    for version in range(api.first_version, api.last_version + 1):
        assert type(decode_request(api.key, version, encode_request(api.key, version, {}))) is expected


@pytest.mark.parametrize(("field", "is_error"), [("member_id", False), ("memberid", True)])
def test_a_misspelt_field_is_a_type_error(tmp_path: Path, field: str, is_error: bool) -> None:
    handler = tmp_path / "handler.py"
    handler.write_text(
        "from mqcore.wire.requests.heartbeat import HeartbeatRequest\n\n\n"
        f"def handle(request: HeartbeatRequest) -> str:\n    return request.{field}\n"
    )
    config = str(ROOT / "pyproject.toml")
    output, _, status = mypy.run(["--config-file", config, "--cache-dir", str(tmp_path / "cache"), str(handler)])
    assert (status != 0) == is_error, output
    assert ("memberid" in output) == is_error


def test_every_handler_is_annotated_with_its_request_type() -> None:
    for entry in (*TABLE.values(), *CONTROLLER_TABLE.values()):
        annotations = entry.handle.__annotations__
        assert annotations["request"] == f"{entry.api.name}Request"
        assert "Any" not in annotations.values()
