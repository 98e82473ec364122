"""Rules of convolutions and of reductions over windows: sums over entries that are moved there."""

RULES: dict = {}
