"""Codec: the topic defaults in a broker's file → topic settings, by the names that topics use.

Kafka has several names for some defaults, for example `log.retention.hours` and `log.retention.ms`. Here the one in
milliseconds is used, as in Kafka's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqcore.config_values import whole_number
from mqcore.controller.setting_layers import BROKER_SYNONYMS
from mqcore.log.topic_config import setting_error

COARSER = {  # finer ones first
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", 3_600_000),
}
"""Kafka's older names, with the finer name and the factor. If a file has both, the finer one wins."""


def check_default(name: str, value: str) -> str | None:
    """What is wrong with a topic default in a broker's file. Raises KeyError for an unknown name."""
    if name in COARSER:
        fine, factor = COARSER[name]
        try:
            return setting_error(BROKER_SYNONYMS[fine].name, _in_ms(value, factor))
        except ValueError as error:
            return str(error)
    return setting_error(BROKER_SYNONYMS[name].name, value)


def topic_settings(broker_file: Mapping[str, str]) -> dict[str, str]:
    """The topic defaults of a file that `check_default` has accepted."""
    values = dict(broker_file)
    for coarse, (fine, factor) in COARSER.items():
        if coarse in values:
            values.setdefault(fine, _in_ms(values.pop(coarse), factor))
    return {BROKER_SYNONYMS[name].name: value for name, value in values.items()}


def _in_ms(value: str, factor: int) -> str:
    """A negative amount means no limit, in any unit."""
    amount = whole_number(value)
    return str(amount if amount < 0 else amount * factor)
