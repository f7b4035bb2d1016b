"""Codec: where the settings of a topic come from: its own, the changed default of all brokers, this broker's file.

Kafka has several names for some defaults (`log.retention.hours` …); they are brought to the one in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqcore.config import whole_number
from mqcore.log.config import TOPIC_SETTINGS, LogConfig, validate

BY_SYNONYM = {setting.synonym: name for name, setting in TOPIC_SETTINGS.items() if setting.synonym}

COARSER = {  # finer ones first
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}
"""Kafka's older names: → the finer one, which wins if both are set."""


def check_default(name: str, value: str) -> str | None:
    """What is wrong with a topic default of a broker; KeyError if there is none of the name."""
    if name in COARSER:
        fine, factor = COARSER[name]
        try:
            return validate(BY_SYNONYM[fine], _in_ms(value, factor))
        except ValueError as error:
            return str(error)
    return validate(BY_SYNONYM[name], value)


def _in_ms(value: str, factor: int) -> str:
    """A negative amount means no limit, in any unit."""
    amount = whole_number(value)
    return str(amount if amount < 0 else amount * factor)


class TopicSettings:
    def __init__(self, broker_file: Mapping[str, str]) -> None:
        values = dict(broker_file)
        for coarse, (fine, factor) in COARSER.items():
            if coarse in values:
                values.setdefault(fine, _in_ms(values.pop(coarse), factor))
        self.defaults = {BY_SYNONYM[name]: value for name, value in values.items()}
        self._changed: dict[str, str] = {}

    @staticmethod
    def check_broker_default(name: str, value: str) -> str | None:
        """For settings changed while the broker runs: topic defaults only; KeyError for any other."""
        return validate(BY_SYNONYM[name], value)

    def change_broker_defaults(self, configs: Mapping[str, str]) -> None:
        """The settings of all brokers that were changed at run time, by their broker names."""
        self._changed = {BY_SYNONYM[name]: value for name, value in configs.items() if name in BY_SYNONYM}

    def of(self, configs: Mapping[str, str]) -> dict[str, str]:
        return self.defaults | self._changed | dict(configs)

    def config_of(self, configs: Mapping[str, str]) -> LogConfig:
        return LogConfig.from_settings(self.of(configs))
