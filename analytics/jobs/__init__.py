"""The two jobs: `live` counts new records as they arrive, `replay` counts all existing ones. Both use the same
measures."""
