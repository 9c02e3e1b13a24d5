#!/usr/bin/env bash
# What needs a CUDA device: kernels compared with the loop over documents, and batches in page-locked memory. At most a
# few minutes, no data needed.
#
#   tests/gpu/run.sh                 with the python of .venv, or of PYTHON=...
#   TORCH="2.11.0 2.13.0" tests/gpu/run.sh    in an environment of its own for each of these releases of torch
set -euo pipefail
cd "$(dirname "$0")/../.."

tests() {
    "$1" -m pytest -m gpu tests/gpu -q -p no:cacheprovider
}

if [ -z "${TORCH:-}" ]; then
    python=${PYTHON:-.venv/bin/python}
    [ -x "$(command -v "$python")" ] || python=python3
    tests "$python"
    exit
fi
for release in $TORCH; do
    folder=$(mktemp -d)
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "torch==$release" numpy pytest hypothesis omegaconf
    PYTHONPATH=$PWD tests "$folder/bin/python"
    rm -rf "$folder"
done
