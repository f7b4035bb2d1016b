"""Shell: one Spark session, quiet: all that Spark and Java have to say goes into a file.

`local[*]` unless another master is named; what a cluster sets itself (memory, cores) is left to it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import jars, staging
from analytics.faults import StatsFault, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
LEAST_JAVA = 17
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


def settings(master: str, folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """`folder`: where Spark may write: its log, and what does not fit into memory."""
    cores = os.cpu_count() or 2
    chosen = {
        "spark.app.name": "seckill stats",
        "spark.master": master,
        "spark.jars": ",".join(str(path) for path in jars.present()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.codegen.hugeMethodLimit": "8000",  # Java never compiles a method that is longer: ten times as slow
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # time alone only forgets, and the next batch does
        "spark.kafka.consumer.cache.capacity": "512",  # a batch looks several times at each of the 48 partitions
        "spark.ui.showConsoleProgress": "false",
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
            # Each shuffle partition costs a state store and a task in every batch: no more of them than cores.
            "spark.sql.shuffle.partitions": str(max(2, cores)),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log.as_uri()} -XX:+UseParallelGC",
        }
    return chosen | dict(more or {})


def has_java() -> bool:
    return bool(shutil.which("java") or os.environ.get("JAVA_HOME"))


def start(master: str, folder: Path, more: Mapping[str, str] | None = None) -> SparkSession:
    """The session; `StatsFault` where there is no Java, or it does not start."""
    if not has_java():
        raise StatsFault(f"Spark needs Java {LEAST_JAVA} or newer (Debian: apt-get install default-jre-headless)")
    folder = folder.absolute()
    (folder / "scratch").mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(_LOG.format(path=folder / "spark.log"))
    chosen = settings(master, folder, more)
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or tasks would run whichever is first on the PATH

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
        # The same settings once more, now that there is a Java to hold them.
        return SparkSession(SparkContext(gateway=gateway, conf=SparkConf().setAll(list(chosen.items()))))
    except PySparkRuntimeError as fault:
        end = output.read_text(errors="replace").strip().splitlines()[-3:]
        raise StatsFault(f"Java did not start Spark: {' '.join(end) or fault}; see {output}") from fault
    except Py4JError as fault:
        raise StatsFault(f"Spark did not start on {master}: {plain(fault)}; see {output}") from fault
