"""kafka-python's own integration suite, against our broker.

Its tests are not part of the wheel and we do not copy them. The source distribution of the pinned version is
downloaded when the tests run and cached in the user's cache folder. A known failure is a row of
kafka_python_findings.md; a row whose test passes is out of date and fails here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Set
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loadtest.kafka_jars import cache_folder
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.peer import IS_CLUSTER

FINDINGS = Path(__file__).with_name("kafka_python_findings.md")
ROW = re.compile(r"^\| `(?P<test>[^`]+)` \| (?P<reason>[^|]+) \|$", re.MULTILINE)
ON_THREE = "## On three brokers"
SOMETIMES = "## On three brokers, sometimes"
MINUTES = 12

# Replaces the module that starts brokers, because an external broker needs no start.
_SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass

    dump_logs = stop


class SpawnedService:
    def __init__(self, *_, **__):
        raise NotImplementedError("only an external broker is tested")
"""

# The TLS tests start their own broker, so they do not test ours; the SASL tests skip themselves.
SUITE = ("test/integration", "--ignore=test/integration/test_ssl_integration.py")

# Its own timeout would end the whole run; here a hanging test is one failure.
PATIENCE = ("-o", "addopts=", "--timeout=60", "--timeout-method=signal")


def source_distribution() -> Path:
    """The unpacked sources of the installed version of kafka-python."""
    name = f"kafka_python-{version('kafka-python')}"
    folder = cache_folder() / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
            requirement = f"kafka-python=={version('kafka-python')}"
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            subprocess.run([*command, "--dest", scratch, requirement], check=True, timeout=300)
            (archive,) = Path(scratch).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
                    tar.extraction_filter = tarfile.data_filter
                tar.extractall(scratch)  # nosec B202  # our own dependency, whose hash pip knows
            _complete(Path(scratch) / name / "test")
            (Path(scratch) / name).rename(folder)
    return folder


def _complete(package: Path) -> None:
    """Add two files that the suite imports but the distribution lacks."""
    (package / "__init__.py").touch()  # otherwise `import test` finds Python's own package
    (package / "service.py").write_text(_SERVICE)


def run_suite(broker: BrokerProcess, scratch: Path) -> dict[str, str]:
    """The outcome of every test (passed, failed, skipped) by name."""
    report = scratch / "report.xml"
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://127.0.0.1:{broker.port}",
        "KAFKA_VERSION": "4.2",
        "KAFKA_ROOT": str(scratch),  # must exist but is never read
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--log-level=WARNING", "--tb=short"]
    command += [f"--basetemp={scratch / 'tmp'}", f"--junit-xml={report}", *PATIENCE, *SUITE]
    result = subprocess.run(
        command, cwd=source_distribution(), env=environment, capture_output=True, text=True, timeout=MINUTES * 60
    )
    (scratch / "output.txt").write_text(result.stdout + result.stderr)
    assert report.exists(), result.stdout[-3000:] + result.stderr[-3000:]
    return outcomes(report)


def outcomes(report: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        failed = case.find("failure") is not None or case.find("error") is not None
        outcome = "failed" if failed else "skipped" if case.find("skipped") is not None else "passed"
        if found.get(name) != "failed":  # a failed teardown is reported as a second entry of the test
            found[name] = outcome
    return found


def findings() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Tests with their reasons: those that fail always, also on three brokers, and there sometimes."""
    rest, _, sometimes = FINDINGS.read_text().partition(SOMETIMES)
    always, _, on_three = rest.partition(ON_THREE)
    always_rows, on_three_rows, sometimes_rows = (
        {row["test"]: row["reason"].strip() for row in ROW.finditer(part)} for part in (always, on_three, sometimes)
    )
    return always_rows, on_three_rows, sometimes_rows


def compare(found: dict[str, str], expected: Set[str], tolerated: Set[str] = frozenset()) -> list[str]:
    """One line for each problem. `tolerated` tests may pass or fail."""
    known = expected | tolerated
    wrong = [f"{name} failed" for name, outcome in found.items() if outcome == "failed" and name not in known]
    wrong += [f"{name} passes: take it out of the findings" for name in expected if found.get(name) == "passed"]
    wrong += [f"{name} is not a test of the suite" for name in known if name not in found]
    return sorted(wrong)


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 300)
def test_kafka_pythons_own_suite_passes_except_for_the_findings(broker: BrokerProcess, tmp_path: Path) -> None:
    found = run_suite(broker, tmp_path)
    counts = {outcome: list(found.values()).count(outcome) for outcome in ("passed", "failed", "skipped")}
    assert counts["passed"] >= 50, counts
    always, on_three, sometimes = findings()
    wrong = compare(found, {*always, *on_three}, {*sometimes}) if IS_CLUSTER else compare(found, {*always})
    assert not wrong, "\n".join([*wrong, f"{counts}; output in {tmp_path / 'output.txt'}"])


def test_every_finding_has_a_reason() -> None:
    for rows in findings():
        assert rows
        for test, reason in rows.items():
            assert len(reason.split()) >= 4, test


def test_a_new_failure_a_stale_row_and_an_unknown_row_are_each_reported() -> None:
    found = {"a": "failed", "b": "passed", "c": "failed", "d": "passed", "e": "skipped"}
    assert compare(found, {"c", "e"}) == ["a failed"]
    assert compare(found, {"a", "b", "c"}) == ["b passes: take it out of the findings"]
    assert compare(found, {"a", "c", "z"}) == ["z is not a test of the suite"]


def test_a_tolerated_test_may_pass_or_fail_but_must_exist() -> None:
    for outcome in ("passed", "failed"):
        assert compare({"a": outcome}, set(), {"a"}) == []
    assert compare({"b": "passed"}, set(), {"a"}) == ["a is not a test of the suite"]
