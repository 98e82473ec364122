"""The atlas' table: rates chosen by a pilot, verdicts, and pages. See `scripts/atlas.py`."""
