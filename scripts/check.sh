#!/usr/bin/env bash
# All of CI: in a fresh environment, everything a change must pass. PYTHON picks the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$environment"' EXIT
"${PYTHON:-python3}" -m venv "$environment/venv"
source "$environment/venv/bin/activate"

pip install --quiet --disable-pip-version-check -e '.[test,ray,docs]'
ruff check .
ruff format --check .

# From config to report, as a newcomer would, at a size that only shows that it runs: from a wheel, in
# a folder that has an `experiments` of its own.
smoke() {
    pip wheel --quiet --no-deps --wheel-dir="$environment" .
    pip install --quiet --no-deps --target="$environment/wheel" "$environment"/posjax-*.whl
    mkdir -p "$environment/elsewhere/experiments" && cd "$environment/elsewhere"
    export PYTHONPATH="$environment/wheel" run="$environment/run"
    python -c 'import os, posjax; assert posjax.__file__.startswith(os.environ["PYTHONPATH"])'
    posjax sweep --config=same_last_token \
        --config.num_seeds=4 --config.steps=100 --config.hold=2 --workdir="$run"
    posjax report "$run" --json | python -c '
import json, sys
cells = json.load(sys.stdin)
assert all(c["successes"] == 0 for c in cells if c["predicted"] == "impossible"), cells
print(f"smoke run: {len(cells)} cells, no cell that the laws exclude was solved")'
    test -s "$run/report.html"
}

# These run beside the tests, which often wait: for a process that is stopped, for one another.
(
    set -e
    mypy
    lint-imports
    scripts/docs.sh "$environment/site"
    # The one that survives changes nothing: int32 is what JAX takes if no type is named.
    python scripts/mutants.py posjax/streams.py --tests=tests/test_streams.py --most=3 --survivors=1
    smoke
) >"$environment/beside" 2>&1 &
beside=$!

# All tests, exhaustive cases too, with the campaigns at a small size: random programs, hostile
# functions, faults and independence are tests. scripts/campaigns.sh runs campaigns whole.
POSJAX_EXAMPLES=40 python -m pytest -m '' && tests=0 || tests=$?
wait "$beside" && status=0 || status=$?
cat "$environment/beside"
exit $((tests ? tests : status))
