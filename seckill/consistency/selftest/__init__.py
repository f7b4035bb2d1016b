"""A checker that cannot fail proves nothing: a good run, spoilt in one way at a time, must flip the invariant meant."""
