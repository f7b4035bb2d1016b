"""The report as one HTML file: opens from disk, needs no network, prints well."""
