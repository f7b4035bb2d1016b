"""Shell: the four jars that let Spark read Kafka, fetched once by Spark's own resolver, verified and cached.

Jobs never fetch anything. A plain `--packages` call would not work everywhere, because some mirrors lack the token
provider of this version. An older one does the same (it only builds parameters for SASL), so the first call excludes it
and the second one fetches the older version.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from analytics.faults import StatsFault

SPARK: Final = "4.2.0"
_KAFKA: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"
_TOKENS: Final = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"

CALLS: Final = (
    ("--packages", _KAFKA, "--exclude-packages", _TOKENS),
    ("--packages", f"{_TOKENS}:4.0.0"),
)
_SUMS: Final = (
    ("f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f", "commons-pool2-2.13.1.jar"),
    ("014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8", "kafka-clients-3.9.2.jar"),
    ("64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705", f"spark-sql-kafka-0-10_2.13-{SPARK}.jar"),
    (
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ),
)
SUMS: Final = {name: sum for sum, name in _SUMS}
TIMEOUT_S: Final = 300


def jar_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "seckill" / f"spark-{SPARK}"


def checked_jars(where: Path | None = None) -> list[Path]:
    """The paths of all four jars. Raises `StatsFault` if one is missing or has a wrong checksum."""
    where = where or jar_folder()
    paths = [where / name for name in SUMS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise StatsFault(
            f"Spark's connector for Kafka is incomplete ({', '.join(missing)} missing in {where}); "
            "run `seckill stats fetch` once"
        )
    for path in paths:
        if _sum(path) != SUMS[path.name]:
            raise StatsFault(f"{path} is damaged (wrong checksum); delete it and run `seckill stats fetch`")
    return paths


def fetch_jars(tell: Callable[[str], None], where: Path | None = None) -> list[Path]:
    """Fetch the jars unless they are cached. This is the only step that needs the network."""
    where = where or jar_folder()
    try:
        return checked_jars(where)
    except StatsFault:
        pass
    where.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.parent, prefix="fetching-") as scratch:
        for number, call in enumerate(CALLS, 1):
            tell(f"fetching Spark's connector for Kafka, {number} of {len(CALLS)}")
            _resolve(Path(scratch), call)
        fetched = {_plain_name(path): path for path in (Path(scratch) / "ivy" / "jars").glob("*.jar")}
        absent = set(SUMS) - set(fetched)
        if absent:
            raise StatsFault(f"the resolver fetched {', '.join(fetched)}, but not {', '.join(sorted(absent))}")
        where.mkdir(exist_ok=True)
        for name in SUMS:
            fresh = where / f".{name}.{os.getpid()}"
            shutil.copyfile(fetched[name], fresh)
            fresh.replace(where / name)
    return checked_jars(where)


def _resolve(scratch: Path, call: tuple[str, ...]) -> None:
    import pyspark

    nothing = scratch / "nothing.py"
    nothing.write_text("")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--master", "local[1]", "--conf", f"spark.jars.ivy={scratch / 'ivy'}", *call, str(nothing)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise StatsFault(f"the resolver did not finish within {TIMEOUT_S} s; check the network") from late
    if done.returncode:
        reasons = [
            line for line in done.stderr.splitlines() if "rror" in line or "not found" in line or "UNRESOLVED" in line
        ]
        raise StatsFault("Spark's resolver failed: " + "; ".join(reasons[:5] or done.stderr.splitlines()[-5:]))


def _plain_name(path: Path) -> str:
    """Without the organisation that Spark puts in front: org.apache.kafka_kafka-clients-3.9.2.jar."""
    return path.name.partition("_")[2]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
