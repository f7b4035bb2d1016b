"""What goes into an image: of the lock, the dependencies and theirs, and no tool of a developer."""

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
    return [pin.name for pin in pins.needed(pins.read(LOCK), wanted)]


def test_what_a_dependency_wants_comes_with_it_and_nothing_else() -> None:
    assert names({"lib"}) == ["lib", "low-er"]
    assert names({"lib", "pytest"}) == ["lib", "low-er", "pytest", "pluggy"]


def test_an_entry_keeps_its_marker_and_all_its_hashes() -> None:
    [_, lower] = pins.needed(pins.read(LOCK), {"lib"})
    assert lower.text.startswith("low.er==2 ; sys_platform == 'win32'")
    assert lower.text.count("--hash=") == 2


def test_what_the_lock_does_not_have_is_an_error() -> None:
    with pytest.raises(pins.NoSuchPin, match="flask"):
        names({"lib", "flask"})


def test_the_image_of_the_services_has_what_they_need_and_no_tool_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["--without", "locust", "pyspark"]) == 0
    said = capsys.readouterr().out
    got = pins.read(said)
    assert {"django", "psycopg", "psycopg-binary", "granian", "kafka-python", "kombu", "redis"} <= set(got)
    assert not {"pytest", "mypy", "ruff", "hypothesis", "schemathesis", "pyspark", "locust", "gevent"} & set(got)
    assert said.count("--hash=sha256:") > len(got)


def test_one_dependency_alone_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["--only", "pyspark"]) == 0
    assert set(pins.read(capsys.readouterr().out)) == {"pyspark", "py4j"}


def test_a_dependency_that_is_not_there_ends_it_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["--only", "no-such-package"]) == 1
    assert "make lock" in capsys.readouterr().err
