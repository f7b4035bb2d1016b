"""Table: what the controller's listener serves: requests of other nodes. A cluster of one does not import it."""

from __future__ import annotations

from types import ModuleType

from mqcore.apis import api_versions, begin_quorum_epoch, end_quorum_epoch, fetch_snapshot, quorum_fetch, vote
from mqcore.apis.table import ApiTable, entry_of

CONTROLLER_MODULES: tuple[ModuleType, ...] = (
    quorum_fetch,
    api_versions,
    vote,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch_snapshot,
)

CONTROLLER_TABLE: ApiTable = {module.API.key: entry_of(module) for module in CONTROLLER_MODULES}
