"""Machine: the in-sync replicas of one partition, as its leader may count on them (KIP-497).

A proposal is in force from the moment it is sent, because the controller may apply it at any time and then elect one of
its members. So the high watermark waits for the *maximal* ISR: the committed members and those of every proposal that
may still be applied.

Own rule: each proposal is sent once. Only two things prove that it will never be applied: the controller refuses that
very request, or a newer partition epoch is committed, which fails its comparison.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqcore.identity import BrokerId
from mqcore.partitions.terms import AlterOutcome, Applied, NotApplied, Proposal, Term, Unknown


class Isr:
    def __init__(self, term: Term) -> None:
        self.committed = term.isr
        self.partition_epoch = term.partition_epoch
        self.proposed: Proposal | None = None
        self._leader_epoch = term.leader_epoch
        self._unproven: frozenset[BrokerId] = frozenset()  # members of proposals whose outcome is unknown

    def maximal(self) -> frozenset[BrokerId]:
        """All replicas that the controller may count as in sync."""
        proposed = self.proposed.isr if self.proposed is not None else frozenset()
        return self.committed | self._unproven | proposed

    @property
    def is_certain(self) -> bool:
        """Whether every proposal so far is known to be applied or refused."""
        return self.proposed is None and not self._unproven

    def propose(self, isr: frozenset[BrokerId], broker_epochs: Mapping[BrokerId, int]) -> Proposal | None:
        """None while another proposal is open, or if there is nothing to change.

        After an unknown outcome the committed ISR itself may be proposed: once applied, it raises the partition epoch,
        and the older proposal can no longer be."""
        if self.proposed is not None or (isr == self.committed and not self._unproven):
            return None
        epochs = {broker: broker_epochs[broker] for broker in sorted(isr)}
        self.proposed = Proposal(self._leader_epoch, self.partition_epoch, isr, epochs)
        return self.proposed

    def settle(self, proposal: Proposal, outcome: AlterOutcome) -> bool:
        """The controller has answered, or it will not. False if the metadata were faster and closed the proposal."""
        if proposal is not self.proposed:
            return False
        match outcome:
            case Applied(isr, partition_epoch):
                self._commit(isr, partition_epoch)
            case NotApplied():
                self.proposed = None
            case Unknown():
                self._unproven |= proposal.isr
                self.proposed = None
        return True

    def learn(self, term: Term) -> bool:
        """Adopt what the metadata say. False if it is not newer."""
        if term.partition_epoch <= self.partition_epoch:
            return False
        self._commit(term.isr, term.partition_epoch)
        return True

    def _commit(self, isr: frozenset[BrokerId], partition_epoch: int) -> None:
        self.committed, self.partition_epoch = isr, partition_epoch
        self.proposed, self._unproven = None, frozenset()

    def check(self) -> None:
        if self.proposed is not None:
            assert self.proposed.partition_epoch == self.partition_epoch
            assert self.proposed.isr <= self.maximal()
        assert self.committed and self.committed <= self.maximal()
