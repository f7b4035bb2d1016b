"""Shell: franz-go's own integration tests, against one broker or three, also while brokers stop or die.

    python -m tests.conformance.franz_go                     three brokers, three replicas
    python -m tests.conformance.franz_go --brokers 1
    python -m tests.conformance.franz_go --trouble stop      a broker stops and comes back every 8 s
    python -m tests.conformance.franz_go --kafka             Apache Kafka instead of mqcore

Go fetches the module when this runs and checks its hash; we do not copy it. Tests that need what mqcore does not have
are left out, and listed with the reason in `LEFT_OUT`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest.kafka_cluster import ApacheKafkaCluster
from loadtest.kafka_jars import cache_folder
from seckill.stack.broker_cluster import BrokerCluster
from seckill.stack.broker_process import BrokerProcess
from tests.conformance.peer import ApacheKafka

MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
LEFT_OUT = {
    "TestTxnEtl": "transactions are not built",
    "TestShareGroup": "share groups (KIP-932) are not built",
}
"""By the beginning of the name. The suite skips by itself what the advertised versions rule out."""

LONG = "TestGroupETL"
"""Three groups in a chain, with members that come and go; the test counts every record at each level."""

OUTCOME = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
PERIOD_S, AWAY_S = 8.0, 2.0


def suite() -> Path:
    """The compiled tests; the package is run in its own folder, because some tests read files there."""
    if shutil.which("go") is None:
        sys.exit("franz_go: this needs Go (Debian: apt-get install golang, or go.dev)")
    program = cache_folder() / f"franz-go-{VERSION}.test"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        compiled = program.with_suffix(f".{os.getpid()}")
        command = ["go", "test", "-C", str(package()), "-c", "-o", str(compiled), "."]
        subprocess.run(command, check=True, timeout=900)
        compiled.rename(program)
    return program


def package() -> Path:
    command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    done = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"franz_go: {MODULE} {VERSION} cannot be fetched: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"]) / "pkg/kgo"


def run(seeds: str, replicas: int, records: int, only: str | None, minutes: float) -> tuple[str, int]:
    """The output of the suite and its exit code."""
    environment = {
        **os.environ,
        "KGO_SEEDS": seeds,
        "KGO_TEST_RF": str(replicas),
        "KGO_TEST_RECORDS": str(records),
        "KGO_LOG_LEVEL": "none",
    }
    command = [str(suite()), "-test.v", f"-test.timeout={minutes:g}m"]
    command += [f"-test.skip=^({'|'.join(LEFT_OUT)})", *([f"-test.run={only}"] if only else [])]
    done = subprocess.run(command, cwd=package(), env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr, done.returncode


def outcomes(output: str) -> dict[str, str]:
    """PASS, FAIL or SKIP of each test, without the cases of a table."""
    return {name: outcome for outcome, name in OUTCOME.findall(output) if "/" not in name or name.startswith(LONG)}


@contextmanager
def trouble(cluster: BrokerCluster, kind: str | None, rng: random.Random) -> Iterator[Counter[int]]:
    """While this runs, one broker at a time goes away and comes back. Counts by node."""
    ended, away = threading.Event(), Counter[int]()

    def go_on() -> None:
        while not ended.wait(PERIOD_S):
            node = cluster.nodes[rng.choice(list(cluster.nodes))]
            node.stop() if kind == "stop" else node.kill()
            away[node.number] += 1
            time.sleep(AWAY_S)
            node.start()

    thread = threading.Thread(target=go_on, name="trouble")
    if kind is not None:
        thread.start()
    try:
        yield away
    finally:
        ended.set()
        if kind is not None:
            thread.join()


def broker_of(options: argparse.Namespace, folder: Path) -> BrokerCluster | BrokerProcess:
    if options.brokers == 3:
        return (ApacheKafkaCluster if options.kafka else BrokerCluster)(folder)
    return (ApacheKafka if options.kafka else BrokerProcess)(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.franz_go", description=__doc__.split("\n")[0])
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=3, help="the default is 3")
    parser.add_argument("--trouble", choices=["stop", "kill"], help=f"while {LONG} runs, on three brokers")
    parser.add_argument("--records", type=int, default=50_000, help=f"of {LONG} (50000)")
    parser.add_argument("--run", metavar="REGEX", help="only these tests, as for `go test -run`")
    parser.add_argument("--minutes", type=float, default=10.0, help="a run that takes longer fails (10)")
    parser.add_argument("--seed", type=int, default=1, help="which broker goes away when (1)")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka instead of mqcore")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.trouble and options.brokers == 1:
        parser.error("--trouble needs --brokers 3")
    suite()
    with tempfile.TemporaryDirectory(prefix="franz-go-") as name:
        broker = broker_of(options, Path(name))
        with broker as running:
            only = options.run or (LONG if options.trouble else None)
            if isinstance(running, BrokerCluster):
                with trouble(running, options.trouble, random.Random(options.seed)) as away:
                    output, code = run(running.address, 3, options.records, only, options.minutes)
                running.kill()  # the last node of Kafka would wait for a controller that is gone
            else:
                output, code = run(running.address, 1, options.records, only, options.minutes)
                away = Counter()
    found = outcomes(output)
    for test, outcome in found.items():
        if outcome != "PASS":
            print(f"{outcome} {test}")
    if code:
        print(output[-6000:])
    counts = Counter(found.values())
    print(f"{MODULE} {VERSION}: {dict(counts)}; brokers that went away: {dict(away) or 'none'}")
    for beginning, reason in LEFT_OUT.items():
        print(f"left out: {beginning}…, because {reason}")
    return 0 if code == 0 and counts["PASS"] else 1


if __name__ == "__main__":
    sys.exit(main())
