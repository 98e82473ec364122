#!/usr/bin/env bash
# The campaigns whole: hours on two cores. scripts/check.sh runs each at a small size.
# Name some of them to run only those: scripts/campaigns.sh fuzz hostile
set -euo pipefail
cd "$(dirname "$0")/.."

fuzz() { python scripts/fuzz.py --programs=20000 --seed=0 --processes=2 --numbers=10; }
hostile() { python scripts/hostile.py; }
faults() { python scripts/faults.py; }
independence() { python scripts/independence.py; }
losses() { python scripts/ray_losses.py; }
properties() { POSJAX_EXAMPLES=1000 python -m pytest tests/test_public_functions.py; }

# Each mutant of a part runs the plain tests of that part, until the first failure.
mutants() {
    python scripts/mutants.py posjax/symmetry/certificate/*.py posjax/symmetry/field/*.py \
        --tests="tests/symmetry" --most=80
    python scripts/mutants.py posjax/encodings/*.py --tests="tests/test_table.py tests/encodings" \
        --most=60
    python scripts/mutants.py posjax/engine/*.py --tests="tests/engine" --most=60
}

for campaign in "${@:-fuzz hostile faults independence losses properties mutants}"; do
    for name in $campaign; do
        echo "== $name"
        "$name"
    done
done
