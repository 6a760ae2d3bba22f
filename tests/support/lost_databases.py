"""A pipeline whose database, one in memory, is lost while its checkpoint storage stays."""

import json

from memory_store import MemoryCheckpointStore
from pasts import Past

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.recovery.lost_database import AcceptedLosses


class Lost(Past):
    """A pipeline whose database can be lost."""

    def __init__(self, **config):
        super().__init__(MemoryCheckpointStore(), **{"retained": 9} | config)

    def lose(self, store):
        self.before, self.store = self.store, store
        self.reopen(store)

    @property
    def recovering(self):
        return Recovering(context_of(self.coordinator.graph, self.store, self.storage, self.clock))

    def recover(self, *include, **accepted):
        plan = self.recovering.plan(include)
        self.recovering.recover(plan, AcceptedLosses(**accepted))
        return plan

    def ids(self):
        with self.store.transaction("p") as tx:
            return [r.checkpoint_id for r in tx.retained()], [r.checkpoint_id for r in tx.abandoned()]

    def change(self, path, **changes):
        self.storage.files[path] = json.dumps(json.loads(self.storage.files[path]) | changes).encode()


def check_nothing_is_recorded(world):
    assert world.store.history("p", 9) == []
    with world.store.transaction("p") as tx:
        assert (tx.last_checkpoint_id(), tx.endpoints(), tx.pipeline().status) == (0, [], PipelineStatus.CREATED)
