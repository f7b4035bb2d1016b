"""Values: what each invariant means, in one sentence for readers who do not know the code.

The exact contract is the docstring of the check.
"""

from __future__ import annotations

MEANINGS = {
    "I1": "Two buyers can never be promised the same unit.",
    "I2": "No unit appears from nowhere, and none disappears.",
    "I3": "Every held unit belongs to an order, and every order has its units.",
    "I4": "The fast counter in Redis and the ledger in Postgres name the same holders.",
    "I5": "No unit is left over although a buyer was turned away who could have had it.",
    "I6": "“Sold out” was only said when it was true.",
    "I7": "A request that the gateway acknowledged is in the queue, even if something crashed right afterwards.",
    "I8": "Nothing in the queue was made up: a buyer sent every request.",
    "I9": "Each request gets one decision: none is forgotten, and none is decided twice.",
    "I10": "What a buyer saw on the page was true at that moment.",
    "I11": "No consumer has skipped a record, so nothing was lost between two services.",
    "I12": "A buyer cannot hold two purchases of one sale at the same time.",
    "I13": "A message that is delivered twice still has one effect.",
    "I14": "Buyers paid exactly for what they got, and got back what they did not owe.",
    "I15": "A cancelled purchase returns its units once, and a paid one returns none.",
    "I16": "A buyer's later request never overtakes an earlier one.",
    "I17": "An earlier request is served before a later one.",
    "I18": "No purchase was accepted before the sale opened or after it ended.",
    "I19": "No unit was reserved for a request that was already too old.",
    "I20": "Unpaid orders end in time, so their units go to other buyers.",
    "I21": "Each buyer gets each message once, and only about their own order.",
    "I22": "The statistics count what happened, no more and no less.",
    "I23": "When everything is idle, no work is left behind in a queue.",
    "I24": "This report could have failed: it read everything, and the planned faults did happen.",
    "I25": "Every buyer pays the declared price.",
    "I26": "What the services told each other is what their tables say.",
    "I27": "No purchase changes its owner on the way from the queue to the order.",
    "I28": "Each refusal by inventory states the reason that really applied.",
    "I29": "Each refusal by the gateway was true, and purchases were never refused for long without a cause.",
    "I30": "Messages say the right thing to the right buyer, in the right order.",
    "I31": "Times are plausible: nothing happens before what caused it.",
    "I32": "What operators did is what the tables show, and nothing else was changed.",
    "I33": "Orders and payments only take the steps that their state tables allow.",
}
