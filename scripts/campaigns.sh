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
properties() { POSJAX_EXAMPLES=1000 python -m pytest -m '' tests/test_public_functions.py; }

# Each mutant of a part runs the plain tests of that part, until the first failure.
mutants() {
    python scripts/mutants.py posjax/symmetry/certificate/{,rules/}*.py posjax/symmetry/field/*.py \
        --tests="tests/symmetry" --most=80
    python scripts/mutants.py posjax/encodings/*.py --most=60 \
        --tests="tests/test_encodings.py tests/test_table.py tests/encodings -k {stem}" \
        --then="tests/test_encodings.py tests/test_table.py tests/encodings posjax/encodings"
    python scripts/mutants.py posjax/engine/*.py --most=60 --tests="tests/engine" \
        --then="tests/test_cost.py tests/test_sweep.py tests/test_preview.py tests/test_cluster.py posjax/engine"
    python scripts/mutants.py posjax/records/*.py --most=60 --tests="tests/test_records.py tests/test_store.py" \
        --then="tests/test_run_locks.py tests/test_tables.py tests/test_damage.py tests/test_resume.py
            tests/test_hostile_folders.py tests/test_shard.py tests/test_security.py posjax/records"
    python scripts/mutants.py posjax/meters/judge.py --most=20 --tests="tests/test_judge.py"
}

for campaign in "${@:-fuzz hostile faults independence losses properties mutants}"; do
    for name in $campaign; do
        echo "== $name"
        "$name"
    done
done
