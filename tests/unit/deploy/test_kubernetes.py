"""deploy/kubernetes without a cluster: valid manifests, one set of rules for all pods, and what compose and
`seckill up` run."""

from __future__ import annotations

import copy
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from seckill.config import environment
from seckill.messaging.topics import PARTITIONS, TOPICS
from seckill.stack.services import Layout, services
from tests.architecture.compose_file import SERVICES, without_places
from tests.unit.deploy.kubernetes import FOLDER, Manifest, documents, in_base, pod_of

VERSION = "1.31"
NOT_KUBERNETES = {"Kustomization", "ScaledObject"}
OUTSIDE = {"postgres", "redis", "mqcore", "sandbox", "analytics"}
"""Rows of `seckill up` that a cluster has elsewhere, or does not need."""
TWICE = {"relay-inventory", "relay-orders", "inventory-settlement", "gateway-outcomes", "celery",
         "notify-sms", "notify-email", "notify-push"}  # fmt: skip
"""Deployments with a second pod, so that the loss of a node stops nothing; compose has one of each."""
ONLY_HERE = {f"SECKILL_{name}_REDIS_URL_FILE" for name in ("ADMISSION", "GATE", "CELERY")}
ONLY_IN_COMPOSE = {f"SECKILL_{name}_REDIS_URL" for name in ("ADMISSION", "GATE", "CELERY")}
SECRET_TEXT = "a secret of at least thirty-two bytes"
KUSTOMIZE = shutil.which("kustomize")


# ── each manifest ────────────────────────────────────────────────────────────────────────────────


def errors(manifest: Manifest) -> str:
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as wrong:
        return str(wrong)
    return ""


VALIDATED = [(file, each) for file, each in documents() if each["kind"] not in NOT_KUBERNETES]


@pytest.mark.parametrize(
    "manifest", [each for _, each in VALIDATED], ids=[f"{file}:{each['metadata']['name']}" for file, each in VALIDATED]
)
def test_a_manifest_is_valid(manifest: Manifest) -> None:
    assert errors(manifest) == ""


def test_a_misspelled_field_is_noticed() -> None:
    spoiled = copy.deepcopy(in_base("Deployment")["inventory"])
    spoiled["spec"]["replica"] = spoiled["spec"].pop("replicas")
    assert "replica" in errors(spoiled)


def test_every_file_of_the_base_is_built() -> None:
    chosen = yaml.safe_load((FOLDER / "base" / "kustomization.yaml").read_text())["resources"]
    assert {*chosen, "kustomization.yaml"} == {path.name for path in (FOLDER / "base").iterdir()}


# ── each pod ─────────────────────────────────────────────────────────────────────────────────────


def complaints(pod: Manifest) -> Iterator[str]:
    wanted = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    if any(pod.get("securityContext", {}).get(name) != value for name, value in wanted.items()):
        yield "may run as root, or without seccomp"
    if pod.get("automountServiceAccountToken") is not False:
        yield "has a token for the cluster"
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        context = container.get("securityContext", {})
        if context.get("readOnlyRootFilesystem") is not True:
            yield "its file system is writable"
        if context.get("allowPrivilegeEscalation") is not False or context.get("capabilities") != {"drop": ["ALL"]}:
            yield "has privileges"
        resources = container.get("resources", {})
        if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
            yield "does not say what it needs"
        if any(each["name"].endswith(("SECRET", "_KEY", "_URL")) for each in container.get("env", [])):
            yield "an address or a secret is written into the manifest"
    if pod.get("restartPolicy") != "OnFailure" and not pod["containers"][0].get("readinessProbe"):
        yield "has no readiness probe"


PODS = {name: pod_of(each) for kind in ("Deployment", "Job") for name, each in in_base(kind).items()}


@pytest.mark.parametrize("name", PODS)
def test_every_pod_follows_the_rules(name: str) -> None:
    assert list(complaints(PODS[name])) == []


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda pod: pod["securityContext"].update(runAsNonRoot=False), "as root"),
        (lambda pod: pod["securityContext"].pop("seccompProfile"), "seccomp"),
        (lambda pod: pod.pop("automountServiceAccountToken"), "token"),
        (lambda pod: pod["containers"][0]["securityContext"].pop("readOnlyRootFilesystem"), "writable"),
        (lambda pod: pod["initContainers"][0]["securityContext"].update(capabilities={}), "privileges"),
        (lambda pod: pod["containers"][0]["resources"].pop("limits"), "needs"),
        (lambda pod: pod["containers"][0].update(env=[{"name": "SECKILL_DATABASE_URL", "value": "x"}]), "secret"),
        (lambda pod: pod["containers"][0].pop("readinessProbe"), "readiness"),
    ],
)
def test_a_pod_that_breaks_a_rule_is_noticed(spoil: Callable[[Manifest], object], complaint: str) -> None:
    pod = copy.deepcopy(PODS["gateway"])
    spoil(pod)
    assert any(complaint in each for each in complaints(pod))


def test_no_node_that_is_drained_takes_all_pods_of_a_service() -> None:
    """With a budget of one, and only where a second pod goes on."""
    guarded = {each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]: each["spec"]["maxUnavailable"]
               for each in in_base("PodDisruptionBudget").values()}  # fmt: skip
    several = {name for name, each in in_base("Deployment").items() if each["spec"].get("replicas", 2) > 1}
    assert set(guarded) == several - {"notify-sms", "notify-email", "notify-push"}
    assert set(guarded.values()) == {1}


# ── the same as compose and `seckill up` ─────────────────────────────────────────────────────────


def differences(deployments: dict[str, Manifest], folder: Path) -> Iterator[str]:
    """What a cluster would run otherwise than the stack and compose do."""
    rows = {row.name.replace(".", "-"): row for row in services(Layout(folder)) if row.name not in OUTSIDE}
    if set(rows) != set(deployments):
        yield f"services: {set(rows) ^ set(deployments)}"
    for name in set(rows) & set(deployments):
        container, compose = pod_of(deployments[name])["containers"][0], SERVICES[name]
        command, _ = rows[name].command(Layout(folder), 1)
        if without_places(container["command"]) != without_places(["python", *command[1:]]):
            yield f"{name}: another command than `seckill up`"
        if container["command"] != compose["command"]:
            yield f"{name}: another command than compose"
        if container["image"] != compose["image"]:
            yield f"{name}: another image than compose"
        if container["resources"]["limits"]["memory"] != compose["mem_limit"].upper() + "i":
            yield f"{name}: another memory limit than compose"
        replicas = deployments[name]["spec"].get("replicas")
        if replicas not in (None, 2 if name in TWICE else compose.get("scale", 1)):
            yield f"{name}: {replicas} pods"
        own = {each["name"]: each["value"] for each in container.get("env", [])}
        common = SERVICES["inventory"]["environment"]
        if own != {key: str(value) for key, value in compose["environment"].items() if common.get(key) != value}:
            yield f"{name}: other variables than compose"


def test_a_cluster_runs_what_compose_and_the_stack_run(tmp_path: Path) -> None:
    assert list(differences(in_base("Deployment"), tmp_path)) == []


@pytest.mark.parametrize(
    ("spoil", "difference"),
    [
        (lambda found: found.pop("celery"), "services"),
        (lambda found: pod_of(found["orders"])["containers"][0]["command"].append("--once"), "command"),
        (lambda found: pod_of(found["gateway"])["containers"][0]["command"].remove("--no-ws"), "command"),
        (lambda found: pod_of(found["orders"])["containers"][0].update(image="seckill:crowd"), "image"),
        (lambda found: pod_of(found["orders"])["containers"][0]["resources"].update(limits={"memory": "1Gi"}), "limit"),
        (lambda found: found["orders"]["spec"].update(replicas=1), "pods"),
        (lambda found: pod_of(found["gateway"])["containers"][0].pop("env"), "variables"),
    ],
)
def test_a_difference_to_compose_is_noticed(
    tmp_path: Path, spoil: Callable[[dict[str, Manifest]], object], difference: str
) -> None:
    deployments = copy.deepcopy(in_base("Deployment"))
    spoil(deployments)
    assert any(difference in each for each in differences(deployments, tmp_path))


def test_the_migrations_run_as_in_compose() -> None:
    [job] = in_base("Job").values()
    assert pod_of(job)["containers"][0]["command"] == SERVICES["migrate"]["command"]


def test_every_process_gets_the_variables_that_compose_sets() -> None:
    settings = set(in_base("ConfigMap")["seckill-settings"]["data"])
    compose = set(SERVICES["inventory"]["environment"])
    assert settings - compose == ONLY_HERE
    assert compose - settings == ONLY_IN_COMPOSE


def test_the_services_accept_the_settings_and_the_secret_has_every_file(tmp_path: Path) -> None:
    secret = yaml.safe_load((FOLDER / "secrets.example.yaml").read_text())["stringData"]
    overlay = yaml.safe_load((FOLDER / "overlays" / "example" / "settings.yaml").read_text())["data"]
    variables = in_base("ConfigMap")["seckill-settings"]["data"] | overlay
    for name in [name for name in variables if name.endswith("_FILE") and name != "SECKILL_READY_FILE"]:
        path = Path(variables[name])
        assert str(path.parent) == "/run/seckill"
        copied = tmp_path / path.name
        copied.write_text(secret.pop(path.name) if "url" in path.name else secret.pop(path.name) and SECRET_TEXT)
        variables[name] = str(copied)
    assert secret == {}, "a key that no process reads"
    read = environment.read(variables)
    assert not read.development and read.admission_redis_url.startswith("rediss://")


def test_the_example_has_no_real_secret() -> None:
    for name, value in yaml.safe_load((FOLDER / "secrets.example.yaml").read_text())["stringData"].items():
        assert "PLACEHOLDER" in value, name


# ── what is reached, and what scales ─────────────────────────────────────────────────────────────


def test_probes_and_policies_name_existing_ports_and_pods() -> None:
    gateway = PODS["gateway"]["containers"][0]
    assert gateway["ports"] == [{"name": "http", "containerPort": 8000}]
    assert gateway["command"][gateway["command"].index("--port") + 1] == "8000"
    assert gateway["readinessProbe"]["httpGet"]["path"] in SERVICES["gateway"]["healthcheck"]["test"][-1]
    hosts = in_base("ConfigMap")["seckill-settings"]["data"]["SECKILL_ALLOWED_HOSTS"].split(",")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        [header] = gateway[probe]["httpGet"]["httpHeaders"]
        assert header["name"] == "Host" and header["value"] in hosts, "Django refuses other hosts"
    metrics = in_base("NetworkPolicy")["reach-metrics"]["spec"]
    scraped = {name for name, pod in PODS.items() if pod["containers"][0].get("ports") and name != "reports"}
    assert set(metrics["podSelector"]["matchExpressions"][0]["values"]) == scraped
    open_ports = {each["port"] for each in metrics["ingress"][0]["ports"]}
    assert open_ports == {PODS[name]["containers"][0]["ports"][0]["containerPort"] for name in scraped}


def test_every_pod_may_send_its_signs_of_life_to_the_report_service() -> None:
    host, _, port = in_base("ConfigMap")["seckill-settings"]["data"]["SECKILL_SIGNS_TO"].partition(":")
    assert (host, port) == ("reports", PODS["reports"]["containers"][0]["command"][-1].partition(":")[2])
    service = in_base("Service")[host]["spec"]
    assert service["selector"] == {"app.kubernetes.io/name": "reports"}
    for policy, direction in (("send-signs-of-life", "egress"), ("hear-signs-of-life", "ingress")):
        [rule] = in_base("NetworkPolicy")[policy]["spec"][direction]
        assert rule["ports"] == [{"protocol": "UDP", "port": int(port)}]
    assert [each["port"] for each in service["ports"]] == [int(port)]


def test_everything_is_closed_by_default() -> None:
    deny = in_base("NetworkPolicy")["deny-all"]["spec"]
    assert deny["podSelector"] == {} and set(deny["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in deny and "egress" not in deny


def test_lag_scales_existing_groups_on_their_topics_and_never_past_the_partitions() -> None:
    scaled = {each["metadata"]["name"]: each["spec"] for _, each in documents() if each["kind"] == "ScaledObject"}
    readers = {(topic.name, reader) for topic in TOPICS.values() for reader in topic.readers if reader != "analytics"}
    named = set()
    for name, spec in scaled.items():
        command = PODS[name]["containers"][0]["command"]
        assert spec["scaleTargetRef"] == {"name": name}
        assert 1 <= spec["minReplicaCount"] <= spec["maxReplicaCount"] <= PARTITIONS
        for trigger in spec["triggers"]:
            metadata = trigger["metadata"]
            assert command[-2:] == ["consume", metadata["consumerGroup"]]
            assert int(metadata["lagThreshold"]) > 0
            named.add((metadata["topic"], metadata["consumerGroup"]))
    assert named == readers


def test_an_overlay_leaves_the_number_of_pods_to_its_autoscaler() -> None:
    [keda] = [each for file, each in documents() if file == "overlays/keda/kustomization.yaml"]
    scaled = {each["metadata"]["name"] for _, each in documents() if each["kind"] == "ScaledObject"}
    assert {patch["target"]["name"] for patch in keda["patches"]} == scaled
    assert "replicas" not in in_base("Deployment")["gateway"]["spec"]


@pytest.mark.skipif(KUSTOMIZE is None, reason="needs kustomize on the PATH")
@pytest.mark.parametrize("folder", ["base", "overlays/example", "overlays/keda"])
def test_kustomize_builds_valid_manifests(folder: str) -> None:
    command = [str(KUSTOMIZE), "build", str(FOLDER / folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert [errors(each) for each in built if each["kind"] not in NOT_KUBERNETES and errors(each)] == []
    assert all(each["kind"] == "Namespace" or each["metadata"]["namespace"] == "seckill" for each in built)
    deployments = {each["metadata"]["name"]: each for each in built if each["kind"] == "Deployment"}
    assert set(deployments) == set(in_base("Deployment"))
    image = "seckill:app" if folder == "base" else "registry.example/seckill:1"
    for each in deployments.values():
        assert {container["image"] for container in pod_of(each)["containers"]} == {image}
