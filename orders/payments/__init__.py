"""The payment provider as orders see it: a client for our calls, and signed callbacks. Both may be late or repeated."""
