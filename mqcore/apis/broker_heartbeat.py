"""BrokerHeartbeat: a broker is alive, wants to be fenced or unfenced, or wants to stop. KIP-631.

A connection that has carried heartbeats and breaks ends the broker's session soon. Versions: 1 names log directories
that are offline, which are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqcore.apis.broker_requests import submit
from mqcore.apis.call import Api, Call, Later
from mqcore.controller.broker_messages import decode_heartbeat, encode_heartbeat_answer
from mqcore.controller.cluster_commands import BrokerDisconnected

if TYPE_CHECKING:
    from mqcore.wire.requests.broker_heartbeat import BrokerHeartbeatRequest

API = Api(63, "BrokerHeartbeat", 1, 1)


def handle(request: BrokerHeartbeatRequest, call: Call) -> Later:
    heartbeat = decode_heartbeat(request)
    controller = call.services.controller
    disconnected = BrokerDisconnected(heartbeat.broker, heartbeat.broker_epoch)

    def lost() -> None:
        if controller.is_active:
            controller.submit(disconnected, lambda answer: None)

    call.when_disconnected(lost)
    return submit(call, heartbeat, encode_heartbeat_answer)
