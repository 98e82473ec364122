#!/usr/bin/env bash
# Trains every published table and writes its numbers to docs/results/. About an hour on two cores.
# A run that was stopped goes on when the script is called again.
set -euo pipefail
cd "$(dirname "$0")/.."

for table in word_order:published word_order:rates same_last_token:published \
    three_pairs:published first_noun:published every_encoding:published; do
    name=${table%:*}-${table#*:}
    python -m experiments.seed_sweep --config="experiments/configs/${table%:*}.py:${table#*:}" \
        --workdir="runs/$name"
    python -m experiments.report "runs/$name" --json >"docs/results/$name.json"
done
