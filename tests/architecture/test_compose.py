"""docker-compose.yml without Docker: every container follows the same rules and runs what `seckill up` runs.

test_observe.py checks Prometheus and Grafana; tests/journeys/test_compose.py starts the containers.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mqcore.config import parse_config as parse_broker_config
from mqcore.host import SystemNetwork
from mqcore.server.listeners import refuse_public_listeners
from seckill.config import environment
from seckill.stack import services
from seckill.stack.services import Layout
from tests.architecture.commands import usage_error
from tests.architecture.compose_file import PROJECT, ROOT, SERVICES, Service, compose, parse_bytes, without_places

OPEN = {"front", "locust", "grafana", "mqcore"}
"""The services with a published port, which only this machine can reach."""
ENDS_BY_ITSELF = {"secrets", "migrate", "report", "reports-folder", "crowd", "format"}
OWNS_A_FOLDER_OF_ROOT = {"reports-folder"}
"""Docker makes a missing folder of the host for root; without a capability only its owner can open it for others."""
MADE_BY_DOCKER = {"./reports"}
MEMORY_MAX = 5 << 30
SECRET_TEXT = "a secret of at least thirty-two bytes"
SECRET = re.compile(r"(PASSWORD|SECRET|_KEY)")


# ── each container ───────────────────────────────────────────────────────────────────────────────


def complaints(name: str, service: Service) -> Iterator[str]:
    if service.get("read_only") is not True:
        yield "its file system is writable"
    is_root = str(service.get("user", "root")).partition(":")[0] in ("root", "0")
    if is_root and name not in OWNS_A_FOLDER_OF_ROOT:
        yield "runs as root"
    if service.get("cap_drop") != ["ALL"] or "cap_add" in service or service.get("privileged"):
        yield "has capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", ()):
        yield "may gain privileges"
    if not service.get("mem_limit") or not service.get("pids_limit"):
        yield "has no limits"
    if service.get("init") is not True or not service.get("stop_grace_period"):
        yield "does not end well"
    if "logging" not in service:
        yield "its log grows for ever"
    if name in ENDS_BY_ITSELF:
        if service.get("restart") != "no":
            yield "is restarted although it has finished"
    elif service.get("restart") != "unless-stopped" or not service.get("healthcheck", {}).get("test"):
        yield "is not restarted, or has no health check"
    ports = service.get("ports", [])
    if any(not str(port).startswith("127.0.0.1:") for port in ports):
        yield "strangers can connect"
    if bool(ports) is not (name in OPEN) or service.get("network_mode", "none") != "none":
        yield "publishes a port, or does not and should"
    open_networks = {network for network in service.get("networks", ()) if network.endswith("-port")}
    if len(ports) != len(open_networks):
        yield "has outside access that it does not need"
    for variable, value in service.get("environment", {}).items():
        if SECRET.search(variable) and not variable.endswith("_FILE") and value:
            yield f"{variable} is written into the file"


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_follows_the_rules(name: str) -> None:
    assert list(complaints(name, SERVICES[name])) == []


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda service: service.pop("read_only"), "is writable"),
        (lambda service: service.update(user="0:0"), "as root"),
        (lambda service: service.pop("user"), "as root"),
        (lambda service: service.update(cap_add=["NET_ADMIN"]), "capabilities"),
        (lambda service: service.update(security_opt=[]), "privileges"),
        (lambda service: service.pop("mem_limit"), "no limits"),
        (lambda service: service.pop("init"), "end well"),
        (lambda service: service.pop("logging"), "log grows"),
        (lambda service: service.update(healthcheck={"disable": True}), "health"),
        (lambda service: service.update(restart="no"), "is not restarted"),
        (lambda service: service.update(ports=["8000:8080"]), "strangers"),
        (lambda service: service.pop("ports"), "does not and should"),
        (lambda service: service.update(networks=["inside"]), "outside access"),
        (lambda service: service.update(environment={"SECKILL_SECRET_KEY": "x"}), "written into the file"),
    ],
)
def test_a_container_that_breaks_a_rule_is_noticed(spoil: Callable[[Service], object], complaint: str) -> None:
    service = copy.deepcopy(SERVICES["front"])
    spoil(service)
    assert any(complaint in each for each in complaints("front", service))


def test_a_container_that_is_opened_to_the_outside_is_noticed() -> None:
    service = copy.deepcopy(SERVICES["postgres"])
    service["ports"] = ["127.0.0.1:5432:5432"]
    assert "publishes a port, or does not and should" in list(complaints("postgres", service))


def test_the_default_containers_need_at_most_five_gigabytes() -> None:
    default = [service for service in SERVICES.values() if "profiles" not in service]
    assert (
        2 << 30 < sum(parse_bytes(service["mem_limit"]) * service.get("scale", 1) for service in default) <= MEMORY_MAX
    )


def test_all_profiles_are_known() -> None:
    profiles = {profile for service in SERVICES.values() for profile in service.get("profiles", ())}
    assert profiles == {"words", "stats", "observe", "cluster", "kafka"}


def test_volumes_and_networks_are_declared_and_used() -> None:
    named = {volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert {name for name in named if not name.startswith(".")} == set(PROJECT["volumes"])
    assert all((ROOT / name).exists() for name in named - MADE_BY_DOCKER if name.startswith("."))
    assert {network for service in SERVICES.values() for network in service.get("networks", ())} == set(
        PROJECT["networks"]
    )
    for name, network in PROJECT["networks"].items():
        assert (network or {}).get("internal", False) is not name.endswith("-port"), name


def test_containers_with_outside_access_reach_neither_each_other_nor_the_servers() -> None:
    """Locust and Grafana are reachable from this machine, so neither may reach the servers."""
    for name in ("locust", "grafana", "crowd"):
        assert "inside" not in SERVICES[name]["networks"], name
    used = [network for service in SERVICES.values() for network in service.get("networks", ())]
    published = [network for network in used if "-port" in network]
    assert len(published) == len(set(published)) == len(OPEN)


def test_the_only_container_of_root_reaches_one_folder_and_no_server() -> None:
    for name in OWNS_A_FOLDER_OF_ROOT:
        service = SERVICES[name]
        assert service["volumes"] == ["./reports:/reports"]
        assert service["network_mode"] == "none" and "environment" not in service
        assert service["command"][-1].startswith("chmod ")


def test_the_report_has_the_same_path_inside_and_outside() -> None:
    """Its last line names the path, which users then open on their machine."""
    words = SERVICES["report"]["entrypoint"]
    assert words[words.index("--html") + 1] == "reports/report.html"
    assert "./reports:/app/reports" in SERVICES["report"]["volumes"]
    assert "WORKDIR /app\n" in (ROOT / "Dockerfile").read_text()
    assert "/reports/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_payment_provider_sees_only_its_own_secret() -> None:
    assert {volume.partition(":")[0] for volume in SERVICES["sandbox"]["volumes"]} == {"sandbox", "sandbox-secrets"}


def test_a_container_of_an_image_that_is_built_here_is_never_pulled() -> None:
    for name, service in SERVICES.items():
        if service["image"].startswith("seckill:") and "build" not in service:
            assert service.get("pull_policy") == "never", name


def test_dockers_message_about_a_taken_port_names_our_variable() -> None:
    """Docker's message contains the container's name, which is the only part that we choose."""
    text = (ROOT / "docker-compose.yml").read_text()
    for name in OPEN:
        variable = SERVICES[name]["container_name"].rpartition("-")[2]
        assert f"127.0.0.1:${{{variable}:-" in text, name


def test_each_of_our_images_is_built_by_one_service() -> None:
    assert "image: seckill:" not in (ROOT / "docker-compose.yml").read_text(), "IMAGE_NAME must rename each of them"
    ours = [service for service in SERVICES.values() if service["image"].startswith("seckill:")]
    built = {service["image"]: service["build"]["target"] for service in ours if "build" in service}
    assert {service["image"] for service in ours} == set(built)
    assert all(image == f"seckill:{target}" for image, target in built.items())
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(built.values()) <= set(stages)


def has_docker_compose() -> bool:
    """Docker's client alone, without the plugin, is not enough."""
    if shutil.which("docker") is None:
        return False
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60, check=False)
    return asked.returncode == 0


@pytest.mark.skipif(not has_docker_compose(), reason="needs docker compose")
@pytest.mark.parametrize("profile", ["words", "stats", "observe", "cluster", "kafka"])
def test_docker_compose_accepts_the_file_with_each_profile(profile: str) -> None:
    command = ["docker", "compose", "--profile", profile, "config", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# ── what runs ────────────────────────────────────────────────────────────────────────────────────


def test_compose_runs_what_the_stack_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listen addresses and folders may differ; any other change in seckill/stack/services.py must be made here too."""
    monkeypatch.delenv("SECKILL_DATABASE_URL", raising=False)
    monkeypatch.delenv("SECKILL_GATE_REDIS_URL", raising=False)
    rows = {row.name: row for row in services.services(Layout(tmp_path)) if row.name not in ("postgres", "redis")}
    there = {"analytics": "stats"}
    for name, row in rows.items():
        service = SERVICES[there.get(name, name.replace(".", "-"))]
        wanted, _ = row.command(Layout(tmp_path), 1)
        here = [*service.get("entrypoint", []), *service["command"]]
        assert without_places(here) == without_places(["python", *wanted[1:]]), name
        assert service.get("scale", 1) == max(1, row.count), name


def test_every_seckill_command_in_it_exists() -> None:
    found = 0
    for service in SERVICES.values():
        said = [*service.get("entrypoint", []), *service.get("command", [])]
        if said[:3] == ["python", "-m", "seckill.cli"]:
            found += 1
            assert usage_error(said[3:]) == ""
    assert found > 10


def test_an_unknown_command_is_noticed() -> None:
    assert "inventory.everything" in usage_error(["consume", "inventory.everything"])
    assert "--metrics" in usage_error(["report", "--metrics", "9100"])


def test_the_services_accept_the_environment_that_it_sets(tmp_path: Path) -> None:
    for service in SERVICES.values():
        variables = {name: str(value) for name, value in service.get("environment", {}).items()}
        for name in [name for name in variables if name.startswith("SECKILL_") and name.endswith("_FILE")]:
            if name != "SECKILL_READY_FILE":
                path = tmp_path / name
                path.write_text(SECRET_TEXT + "\n")
                variables[name] = str(path)
        read = environment.read(variables)
        if "KAFKA_BOOTSTRAP_SERVERS" in variables:
            assert read.secret_key == SECRET_TEXT and read.kafka_bootstrap_servers == "mqcore:9092"


def test_another_broker_needs_one_variable() -> None:
    there = compose(KAFKA_BOOTSTRAP_SERVERS="kafka:9092")["services"]
    ours = [service for service in there.values() if "KAFKA_BOOTSTRAP_SERVERS" in service.get("environment", {})]
    assert len(ours) > 10
    assert {service["environment"]["KAFKA_BOOTSTRAP_SERVERS"] for service in ours} == {"kafka:9092"}


def test_the_brokers_listeners_are_allowed_and_its_limits_fit_into_its_memory() -> None:
    command = SERVICES["mqcore"]["command"]
    config = parse_broker_config("", [after for word, after in pairwise(command) if word == "--set"])
    refuse_public_listeners(config, SystemNetwork())
    memory = config.socket_request_max_bytes + config.queued_max_request_bytes + config.queued_max_response_bytes
    assert memory <= parse_bytes(SERVICES["mqcore"]["mem_limit"]) // 3


def test_every_package_is_in_the_images() -> None:
    """A new package that the images lack would be noticed only by the first import in a container."""
    taken = {
        line[1:].partition("/")[0] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages and packages <= taken
    assert os.path.exists(ROOT / "deploy" / "front" / "start.html")
