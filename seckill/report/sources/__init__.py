"""Readers, one for each kind of source. Each reports how much it read and why the source may be incomplete."""
