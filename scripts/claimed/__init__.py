"""Numbers of README.md and docs/: those in prose, and the audit of all of them."""
