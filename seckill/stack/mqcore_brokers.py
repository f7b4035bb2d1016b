"""Shell: the command lines of the stack's own broker, or of its three brokers."""

from __future__ import annotations

import base64
import subprocess
import sys
import uuid
from pathlib import Path

HOST = "127.0.0.1"
CLUSTER_SIZES = (1, 3)
IDENTITY_FILE = "meta.properties"


class CannotFormat(Exception):
    """The data folder of a broker could not be made; the text says why."""


def addresses(port: int, brokers: int) -> str:
    return ",".join(f"{HOST}:{port + index}" for index in range(brokers))


def number_of(process: str) -> int:
    """The number in `mqcore.2`; a single broker is called `mqcore`."""
    return int(process.rpartition(".")[2]) if "." in process else 1


def data_folder(folder: Path, brokers: int, number: int) -> Path:
    return folder if brokers == 1 else folder / str(number)


def command(folder: Path, port: int, controller_port: int, brokers: int, number: int) -> list[str]:
    settings = {
        "auto.create.topics.enable": "false",
        "max.connections.per.ip": "1000",  # all processes of the stack connect from one address
        "listeners": f"PLAINTEXT://{HOST}:{port + number - 1}",
    }
    if brokers > 1:
        voters = (f"{node}@{HOST}:{controller_port + node - 1}" for node in range(1, brokers + 1))
        settings["listeners"] += f",CONTROLLER://{HOST}:{controller_port + number - 1}"
        settings |= {
            "node.id": str(number),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
        }
    words = [sys.executable, "-m", "mqcore", "serve", "--data", str(data_folder(folder, brokers, number))]
    return [*words, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))]


def format_folders(folder: Path, brokers: int) -> None:
    """Make the data folders of three brokers, and that of one whose disk was lost. One broker needs no such step."""
    if brokers == 1:
        return
    folders = {number: data_folder(folder, brokers, number) for number in range(1, brokers + 1)}
    known = [found for each in folders.values() if (found := _cluster_id(each))]
    cluster_id = known[0] if known else base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    for number, each in folders.items():
        if _cluster_id(each) is None:
            _format(each, cluster_id, number, founder=not known and number == 1)


def _cluster_id(folder: Path) -> str | None:
    try:
        lines = (folder / IDENTITY_FILE).read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), None)


def _format(folder: Path, cluster_id: str, number: int, *, founder: bool) -> None:
    words = ["--data", str(folder), "--cluster-id", cluster_id, "--node-id", str(number)]
    done = subprocess.run(
        [sys.executable, "-m", "mqcore", "format", *words, *(["--founder"] if founder else [])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise CannotFormat(f"the folder of broker {number} could not be made: {done.stderr.strip()}")
