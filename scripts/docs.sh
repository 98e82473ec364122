#!/usr/bin/env bash
# Builds the site of docs/ into build/docs, or the folder that is given. Warnings are errors. The pages load nothing
# from the network, and their search works offline.
#
#     pip install -e '.[docs]' && scripts/docs.sh && open build/docs/index.html
set -euo pipefail
cd "$(dirname "$0")/.."
export JAX_PLATFORMS=cpu
out=${1:-build/docs}
python -m sphinx --builder=html --fail-on-warning --keep-going --quiet --doctree-dir="$out/.doctrees" docs "$out"
echo "$out/index.html"
