"""Shell: run one job."""

from __future__ import annotations

import gc
import importlib
import json
import sys

JOBS = {
    "librdkafka-produce": "librdkafka:produce",
    "librdkafka-consume": "librdkafka:consume",
    "kafka-python-produce": "kafka_python:produce",
    "kafka-python-consume": "kafka_python:consume",
    "raw-produce": "raw:produce",
    "raw-fetch": "raw:fetch",
    "redis-produce": "redis:produce",
    "redis-consume": "redis:consume",
    "redis-unbatched": "redis:unbatched",
    "latency": "latency:write",
    "latency-reader": "latency:read",
    "copy-in": "limit:copy_in",
    "copy-out": "limit:copy_out",
    "endless-source": "limit:source",
    "endless-sink": "limit:sink",
}


def main() -> None:
    name, spec = sys.argv[1:]
    module, _, function = JOBS[name].partition(":")
    job = getattr(importlib.import_module(f"loadtest.benchmarks.broker.jobs.{module}"), function)
    gc.freeze()
    print(json.dumps(job(json.loads(spec))), flush=True)


if __name__ == "__main__":
    main()
