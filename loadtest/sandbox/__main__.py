"""Provider and sinks in one process: `python -m loadtest.sandbox --data DIR --provider-port P --sinks-port Q`."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path

from loadtest.sandbox.http_server import start_server
from loadtest.sandbox.provider import Provider
from loadtest.sandbox.sinks import Sinks

DEVELOPMENT_SECRET = "for development only, never for a real sale"  # pragma: allowlist secret


def _configured_secret() -> str:
    """From SECKILL_PROVIDER_SECRET or the file that SECKILL_PROVIDER_SECRET_FILE names, as in the services."""
    path = os.environ.get("SECKILL_PROVIDER_SECRET_FILE")
    return Path(path).read_text().strip() if path else os.environ.get("SECKILL_PROVIDER_SECRET", DEVELOPMENT_SECRET)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.sandbox", description="The outside world of the sale.")
    parser.add_argument("--data", type=Path, required=True, help="folder for storage and logs")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--provider-port", type=int, default=8100)
    parser.add_argument("--sinks-port", type=int, default=8101)
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument(
        "--secret", default=_configured_secret(), help="signs callbacks (default: from the environment)"
    )
    secret.add_argument("--secret-file", type=Path, metavar="FILE", help="read the secret from this file")
    parser.add_argument(
        "--callback-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host to which signed callbacks may go, besides this machine; may be repeated",
    )
    chosen = parser.parse_args()
    if chosen.secret_file is not None:
        chosen.secret = chosen.secret_file.read_text().strip()
    chosen.data.mkdir(parents=True, exist_ok=True)
    provider = Provider(chosen.data, chosen.secret, chosen.callback_host)
    sinks = Sinks(chosen.data)
    servers = [
        start_server(chosen.provider_port, provider.handle, chosen.host),
        start_server(chosen.sinks_port, sinks.handle, chosen.host),
    ]
    provider.start()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    for server in servers:
        server.shutdown()
    provider.stop()
    sinks.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
