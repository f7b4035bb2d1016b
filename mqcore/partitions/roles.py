"""Values: what a broker brings along when it takes a role in a partition."""

from __future__ import annotations

from typing import NamedTuple

from mqcore.identity import BrokerId
from mqcore.partitions.leader import IsEligible, LeaderRules
from mqcore.partitions.terms import NO_BROKER_EPOCH


def no_broker_is_eligible(broker: BrokerId, broker_epoch: int) -> bool:
    return False


class Membership(NamedTuple):
    """This broker as a member of the cluster. `rules` hold for all its partitions but for `durable_only`."""

    me: BrokerId
    broker_epoch: int = NO_BROKER_EPOCH
    is_eligible: IsEligible = no_broker_is_eligible
    rules: LeaderRules = LeaderRules()
