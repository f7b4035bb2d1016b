"""Shell: the limits of the machine: bytes from a socket into a file and back. The other end is a second job."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from loadtest.benchmarks.broker.jobs.spec import Result, Spec, Stopwatch

PIECE = 1 << 20
FILE_PIECES = 256


def copy_in(spec: Spec) -> Result:
    """Socket → file: the minimum cost of a produced byte."""
    with _other_end("endless-source") as opened, tempfile.TemporaryFile(dir=spec["folder"]) as file:
        buffer = memoryview(bytearray(PIECE))
        copied = 0
        watch = Stopwatch()
        while watch.seconds < spec["seconds"]:
            got = opened.recv_into(buffer)
            os.pwrite(file.fileno(), buffer[:got], copied % (FILE_PIECES * PIECE))
            copied += got
        return watch.result(copied, 1)


def copy_out(spec: Spec) -> Result:
    """File → memory → socket: the minimum cost of a consumed byte without sendfile."""
    with _other_end("endless-sink") as opened, tempfile.TemporaryFile(dir=spec["folder"]) as file:
        for _ in range(FILE_PIECES):
            file.write(bytes(PIECE))
        file.flush()
        copied = 0
        watch = Stopwatch()
        while watch.seconds < spec["seconds"]:
            opened.sendall(os.pread(file.fileno(), PIECE, copied % (FILE_PIECES * PIECE)))
            copied += PIECE
        return watch.result(copied, 1)


def source(spec: Spec) -> Result:
    piece = bytes(PIECE)
    with socket.create_connection(("127.0.0.1", spec["port"])) as opened, contextlib.suppress(OSError):
        while True:
            opened.sendall(piece)
    return {}


def sink(spec: Spec) -> Result:
    buffer = bytearray(PIECE)
    with socket.create_connection(("127.0.0.1", spec["port"])) as opened, contextlib.suppress(OSError):
        while opened.recv_into(buffer):
            pass
    return {}


@contextlib.contextmanager
def _other_end(job: str) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        spec = json.dumps({"port": server.getsockname()[1], "topic": ""})
        process = subprocess.Popen(
            [sys.executable, "-m", "loadtest.benchmarks.broker.jobs", job, spec], stdout=subprocess.DEVNULL
        )
        opened = server.accept()[0]
    try:
        with opened:
            yield opened
    finally:
        process.wait(10)
