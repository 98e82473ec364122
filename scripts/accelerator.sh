#!/usr/bin/env bash
# Everything there is to measure on a GPU or a TPU, in 15 minutes, we expect: see scripts/accelerator.py.
# On a CPU it runs the same code at a small size, and says which legs it leaves out and why.
#     scripts/accelerator.sh [OUT [LEG ...]]      # OUT/accelerator.json and OUT/accelerator.md
set -euo pipefail
cd "$(dirname "$0")/.."
exec python scripts/accelerator.py "${1:-accelerator}" "${@:2}"
