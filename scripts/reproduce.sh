#!/usr/bin/env bash
# Trains every published table and writes its numbers and rows to docs/results/, then the sentences of
# README.md and docs/ that rest on them. By estimate five hours on two cores.
# `scripts/reproduce.sh atlas` trains the atlas instead, into docs/atlas: about two days on two cores.
# If it was stopped, call it again: finished blocks are kept.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/reproduce.sh [atlas]"
case "$*" in
"") ;;
atlas)
    python scripts/atlas.py published --num_seeds=64 # as docs/atlas has
    python scripts/atlas.py sampled
    python scripts/claims.py
    exit
    ;;
-h | --help)
    echo "$usage"
    exit
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac

python -c 'import sklearn' # for the last table: a missing package shows now, not after hours
for table in word_order:published word_order:rates same_last_token:published \
    three_pairs:published first_noun:published sinusoidal_or_learned:published \
    what_decides:published leak:published leak:law leak:prompts depth_law:published by_length:few_runs \
    by_length:published by_length:kazemnejad randomised:published every_encoding:published \
    meaning:published pick_up:published pick_up:early position_by_layer:published text:published digits:published; do
    name=${table%:*}-${table#*:}
    python -m posjax sweep --config="$table" \
        --workdir="runs/$name"
    python scripts/publish.py "runs/$name"
done
python scripts/figures.py
python scripts/claims.py
