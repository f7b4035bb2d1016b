"""The payment provider, as orders see it: a client that asks, and callbacks that tell. Both may come twice or late."""
