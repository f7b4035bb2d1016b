"""AlterPartition: the leader of partitions proposes their in-sync replicas. KIP-497.

Versions: 3 names the epochs of the brokers (KIP-903); a tagged field of ours names the controller that is meant.
Brokers of this program send no other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mqcore.apis.broker_requests import submit
from mqcore.apis.call import Api, Call, Later
from mqcore.controller.broker_messages import decode_alter_partition, encode_altered

if TYPE_CHECKING:
    from mqcore.wire.requests.alter_partition import AlterPartitionRequest

API = Api(56, "AlterPartition", 3, 3)


def handle(request: AlterPartitionRequest, call: Call) -> Later:
    command = decode_alter_partition(request)
    return submit(call, command, partial(encode_altered, command))
