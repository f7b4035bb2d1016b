"""report — how fast the consistency report checks a sale of any size in real servers."""
