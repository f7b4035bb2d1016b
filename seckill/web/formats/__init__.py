"""Formats of numbers that differ from Django's own."""
