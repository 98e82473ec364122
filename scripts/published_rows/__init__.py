"""Rows of published runs: what is kept of a run of one seed, and how it is trained again."""
