"""Apache Kafka's jars: its Java clients, its command-line tools, and the broker to compare with.

Maven downloads them once from Maven Central into the user's cache folder. The repository contains none of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
LOG4J_VERSION: Final = "2.24.3"

_COORDINATES: Final = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
)

# Java logs only warnings and errors, and to stderr, because tests read the tools' output on stdout.
_LOG4J = """\
<Configuration status="ERROR">
  <Appenders><Console name="stderr" target="SYSTEM_ERR"><PatternLayout pattern="%p %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="stderr"/></Root></Loggers>
</Configuration>
"""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "seckill"


def jars() -> Path:
    """The folder with all jars; Maven fills it the first time."""
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
            fetched = _fetch(Path(scratch))
            (fetched / "log4j2.xml").write_text(_LOG4J)
            try:
                fetched.rename(folder)
            except OSError:
                if not folder.is_dir():  # else a concurrent run created it first
                    raise
    return folder


def classpath() -> str:
    folder = jars()
    return f"{folder}:{folder}/*"


def java(*arguments: str | Path, heap: str = "256m") -> list[str]:
    """The command line that runs `arguments` (a class and its options, or a source file) with the jars.

    The options speed up short-lived tools: only the first compiler tier, and the simplest garbage collector.
    """
    return [
        "java",
        f"-Xmx{heap}",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-cp",
        classpath(),
        *map(str, arguments),
    ]


def _fetch(scratch: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise FileNotFoundError("mvn is needed to fetch Apache Kafka's jars (Debian: apt-get install maven)")
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in _COORDINATES
    )
    pom = scratch / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>conformance</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    target = scratch / "jars"
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if result.returncode != 0:
        raise RuntimeError(
            f"Maven could not fetch Apache Kafka's jars:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
        )
    return target
