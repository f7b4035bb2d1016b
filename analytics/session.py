"""Shell: start one Spark session. The output of Spark and Java goes into files instead of the terminal.

The master is `local[*]` unless another one is named. A cluster keeps its own settings for memory and cores.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import spark_jars, staging
from analytics.faults import StatsFault, error_summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
JAVA_VERSION_MIN = 17
_LOG = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


def spark_settings(master: str, folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Spark writes its log, and data that does not fit into memory, to `folder`."""
    cores = os.cpu_count() or 2
    chosen = {
        "spark.app.name": "seckill stats",
        "spark.master": master,
        "spark.jars": ",".join(str(path) for path in spark_jars.checked_jars()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        # Java does not compile methods that are longer than this; they would be ten times slower.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Batches without data would only expire state, which the next batch does anyway.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.kafka.consumer.cache.capacity": "512",  # a batch reads each of the 48 partitions several times
        "spark.ui.showConsoleProgress": "false",
        # Plans and pages of Spark show the options of a source; these hold the password of a Kafka cluster.
        "spark.sql.redaction.options.regex": "(?i)url|secret|password|jaas|keystore",
    }
    if master.startswith("local"):
        log = folder / "log4j2.properties"
        chosen |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.local.dir": str(folder / "scratch"),
            "spark.sql.warehouse.dir": str(folder / "scratch" / "warehouse"),
            # Each shuffle partition costs a state store and a task per batch, so there are only as many as cores.
            "spark.sql.shuffle.partitions": str(max(2, cores)),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()} -XX:+UseParallelGC",
        }
    return chosen | dict(more or {})


def has_java() -> bool:
    return bool(shutil.which("java") or os.environ.get("JAVA_HOME"))


def start_session(master: str, folder: Path, more: Mapping[str, str] | None = None) -> SparkSession:
    """Raises `StatsFault` if Java is missing or Spark does not start."""
    if not has_java():
        raise StatsFault(f"Spark needs Java {JAVA_VERSION_MIN} or newer (Debian: apt-get install default-jre-headless)")
    folder = folder.absolute()
    (folder / "scratch").mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(_LOG.format(path=folder / "spark.log"))
    chosen = spark_settings(master, folder, more)
    if master.startswith("local"):
        os.environ.setdefault(
            "PYSPARK_PYTHON", sys.executable
        )  # otherwise tasks would run the first Python on the PATH

    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext, cloudpickle
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    cloudpickle.register_pickle_by_value(staging)  # type: ignore[no-untyped-call]
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    output = folder / "java.log"
    try:
        with output.open("ab") as file:
            streams = {"stdout": file, "stderr": file}
            gateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
        # The same settings again, now as an object in the Java process.
        return SparkSession(SparkContext(gateway=gateway, conf=SparkConf().setAll(list(chosen.items()))))
    except PySparkRuntimeError as fault:
        end = output.read_text(errors="replace").strip().splitlines()[-3:]
        raise StatsFault(f"Java could not start Spark: {' '.join(end) or fault}; see {output}") from fault
    except Py4JError as fault:
        raise StatsFault(f"Spark did not start on {master}: {error_summary(fault)}; see {output}") from fault
