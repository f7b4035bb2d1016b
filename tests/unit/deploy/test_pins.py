"""What goes into an image: the dependencies of the lock with everything they need, and no developer tools."""

from __future__ import annotations

import pytest

from deploy import pins

LOCK = """\
lib==1 \\
    --hash=sha256:11
    # via
    #   seckill (pyproject.toml)
    #   pytest
low.er==2 ; sys_platform == 'win32' \\
    --hash=sha256:22 \\
    --hash=sha256:23
    # via lib
pytest==3 \\
    --hash=sha256:33
    # via seckill (pyproject.toml)
pluggy==4 \\
    --hash=sha256:44
    # via pytest
"""


def names(wanted: set[str]) -> list[str]:
    return [pin.name for pin in pins.needed(pins.read_pins(LOCK), wanted)]


def test_a_dependency_brings_exactly_what_it_needs() -> None:
    assert names({"lib"}) == ["lib", "low-er"]
    assert names({"lib", "pytest"}) == ["lib", "low-er", "pytest", "pluggy"]


def test_an_entry_keeps_its_marker_and_all_its_hashes() -> None:
    [_, lower] = pins.needed(pins.read_pins(LOCK), {"lib"})
    assert lower.text.startswith("low.er==2 ; sys_platform == 'win32'")
    assert lower.text.count("--hash=") == 2


def test_a_package_that_the_lock_lacks_is_an_error() -> None:
    with pytest.raises(pins.NoSuchPin, match="flask"):
        names({"lib", "flask"})


def test_the_services_image_has_their_dependencies_and_no_developer_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["--without", "locust", "pyspark"]) == 0
    said = capsys.readouterr().out
    got = pins.read_pins(said)
    assert {"django", "psycopg", "psycopg-binary", "granian", "kafka-python", "kombu", "redis"} <= set(got)
    assert not {"pytest", "mypy", "ruff", "hypothesis", "schemathesis", "pyspark", "locust", "gevent"} & set(got)
    assert said.count("--hash=sha256:") > len(got)


def test_a_single_dependency_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["--only", "pyspark"]) == 0
    assert set(pins.read_pins(capsys.readouterr().out)) == {"pyspark", "py4j"}


def test_an_unknown_dependency_fails_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["--only", "no-such-package"]) == 1
    assert "make lock" in capsys.readouterr().err
