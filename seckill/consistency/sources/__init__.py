"""Readers, one for each kind of source. Each says how much it has read, and why that may not be all."""
