"""How fast the consistency report is, over a sale of any size in real servers."""
