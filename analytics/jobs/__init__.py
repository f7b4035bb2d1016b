"""The two jobs: `live` adds up what comes, `replay` counts what is there. The measures are the same."""
