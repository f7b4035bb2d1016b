"""Shell: the command lines of the stack's own broker, or of its three brokers, and the folders that three need.

`python -m seckill.stack.mqcore_brokers FOLDER` makes the folders of three.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from seckill.config.environment import BadEnvironment
from seckill.stack.broker_network import NetworkPorts

NETWORK_VARIABLE = "SECKILL_BROKER_NETWORK"
"""The first port of a relay between the brokers (`NetworkPorts`). Only fault cases set it."""
HOST = "127.0.0.1"
CLUSTER_SIZES = (1, 3)
IDENTITY_FILE = "meta.properties"


class CannotFormat(Exception):
    """The data folder of a broker could not be made; the text says why."""


def network_ports(variables: Mapping[str, str]) -> NetworkPorts | None:
    """The ports of the relay, if there is one."""
    first = variables.get(NETWORK_VARIABLE)
    if first and not first.isdecimal():
        raise BadEnvironment(f"{NETWORK_VARIABLE} must be a port, got {first!r}")
    return NetworkPorts(int(first)) if first else None


def address(port: int, number: int) -> str:
    """The first broker has this port, and the others have the next ones."""
    return f"{HOST}:{port + number - 1}"


def addresses(port: int, brokers: int) -> str:
    return ",".join(address(port, number) for number in range(1, brokers + 1))


def process_name(brokers: int, number: int) -> str:
    """A single broker is called `mqcore`, the second of three `mqcore.2`."""
    return "mqcore" if brokers == 1 else f"mqcore.{number}"


def number_of(process: str) -> int:
    """The number in the name of a process."""
    return int(process.rpartition(".")[2]) if "." in process else 1


def data_folder(folder: Path, brokers: int, number: int) -> Path:
    return folder if brokers == 1 else folder / str(number)


def command(
    folder: Path, port: int, controller_port: int, brokers: int, number: int, network: NetworkPorts | None = None
) -> list[str]:
    """`network`: three brokers reach one another only through a relay on these ports."""
    settings = {
        "auto.create.topics.enable": "false",
        "max.connections.per.ip": "1000",  # all processes of the stack connect from one address
        "listeners": f"PLAINTEXT://{address(port, number)}",
    }
    if brokers > 1:
        voters = (f"{node}@{address(controller_port, node)}" for node in range(1, brokers + 1))
        settings["listeners"] += f",CONTROLLER://{address(controller_port, number)}"
        settings |= {
            "node.id": str(number),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "controlled.shutdown.timeout.ms": "3000",  # the last broker to stop finds no controller to hand over to
        }
        if network is not None:
            settings |= network.settings(number, port + number - 1, controller_port + number - 1)
    words = [sys.executable, "-m", "mqcore", "serve", "--data", str(data_folder(folder, brokers, number))]
    return [*words, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))]


def format_folders(folder: Path, brokers: int) -> None:
    """Make the data folders of three brokers, and that of one whose disk was lost. One broker needs no such step.

    The database remembers offsets in the topics, so the folder of another number of brokers is refused."""
    other = 3 if brokers == 1 else 1
    if _cluster_id(data_folder(folder, other, 1)) is not None:
        raise CannotFormat(f"{folder} has the data of {other} broker(s), not of {brokers}: choose another --data")
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
    words = ["--data", str(folder), f"--cluster-id={cluster_id}", "--node-id", str(number)]  # an id may begin with "-"
    done = subprocess.run(
        [sys.executable, "-m", "mqcore", "format", *words, *(["--founder"] if founder else [])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise CannotFormat(f"the folder of broker {number} could not be made: {done.stderr.strip()}")


if __name__ == "__main__":
    format_folders(Path(sys.argv[1]), CLUSTER_SIZES[-1])
