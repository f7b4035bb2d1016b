"""The profile `cluster` of docker-compose.yml: three brokers that are set up like those of `seckill up --brokers 3`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from mqcore.config import BrokerConfig, parse_config
from mqcore.host import SystemNetwork
from mqcore.server.listeners import refuse_public_listeners
from mqcore.topic_defaults import check_default
from seckill.stack import mqcore_brokers
from tests.architecture.compose_file import ROOT, SERVICES, compose, parse_bytes

BROKERS = ("mqcore-1", "mqcore-2", "mqcore-3")


def broker_config(name: str) -> BrokerConfig:
    """What a broker's command and the file that it names say together."""
    words = SERVICES[name]["command"]
    text = (ROOT / words[words.index("--config") + 1]).read_text()
    return parse_config(text, [after for word, after in pairwise(words) if word == "--set"], check_default)


def brokers_of_the_stack(folder: Path) -> dict[str, BrokerConfig]:
    commands = {name: mqcore_brokers.command(folder, 9092, 9093, 3, index + 1) for index, name in enumerate(BROKERS)}
    return {
        name: parse_config("", [after for word, after in pairwise(words) if word == "--set"], check_default)
        for name, words in commands.items()
    }


def test_the_three_brokers_are_set_up_like_those_of_the_stack(tmp_path: Path) -> None:
    for name, wanted in brokers_of_the_stack(tmp_path).items():
        config = broker_config(name)
        assert config.node_id == wanted.node_id
        assert config.topic_defaults == wanted.topic_defaults
        assert config.voters().keys() == wanted.voters().keys()
        same = ("default_replication_factor", "controller_listener_names", "auto_create_topics_enable")
        assert all(getattr(config, each) == getattr(wanted, each) for each in same)


def test_each_of_the_three_brokers_is_found_at_the_address_that_it_gives_to_others() -> None:
    for name in BROKERS:
        config = broker_config(name)
        listeners = {each.name: each for each in config.listener_list()}
        assert config.voters()[config.node_id] == (name, listeners["CONTROLLER"].port)
        assert config.advertised_listeners == f"INSIDE://{name}:{listeners['INSIDE'].port}"


def test_the_three_brokers_have_folders_of_their_own_which_one_container_prepares() -> None:
    volumes = [volume for name in BROKERS for volume in SERVICES[name]["volumes"]]
    assert len(set(volumes)) == 3 and volumes == SERVICES["format"]["volumes"]
    for number, name in enumerate(BROKERS, start=1):
        words = SERVICES[name]["command"]
        assert words[words.index("--data") + 1] == f"{SERVICES['format']['command'][-1]}/{number}"
        assert SERVICES[name]["depends_on"] == {"format": {"condition": "service_completed_successfully"}}


def test_the_listeners_of_three_brokers_are_allowed_and_their_limits_fit_into_their_memory() -> None:
    for name in BROKERS:
        config = broker_config(name)
        refuse_public_listeners(config, SystemNetwork())
        memory = config.socket_request_max_bytes + config.queued_max_request_bytes + config.queued_max_response_bytes
        assert memory <= parse_bytes(SERVICES[name]["mem_limit"]) // 3


def test_services_that_need_a_broker_wait_for_each_that_its_profile_starts() -> None:
    for name in ("migrate", "report"):
        for broker in (*BROKERS, "kafka"):
            assert SERVICES[name]["depends_on"][broker] == {"condition": "service_healthy", "required": False}


def test_the_page_shows_the_addresses_of_all_three_brokers() -> None:
    addresses = ",".join(f"{name}:9092" for name in BROKERS)
    assert f"KAFKA_BOOTSTRAP_SERVERS={addresses} docker compose --profile cluster up" in (
        ROOT / "docs/compose.md"
    ).read_text(encoding="utf-8")
    there = compose(KAFKA_BOOTSTRAP_SERVERS=addresses)["services"]
    assert there["gateway"]["environment"]["KAFKA_BOOTSTRAP_SERVERS"] == addresses
    assert SERVICES["gateway"]["environment"]["KAFKA_BOOTSTRAP_SERVERS"] == "mqcore:9092", "one broker is the default"
