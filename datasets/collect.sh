#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collects the paper's data of the arm on a CPU, again: what is there already is left as it is, so
# delete a folder to make it anew. Run it from the repository's root: sh datasets/collect.sh
set -eu
PUREWARD=${PUREWARD:-.venv/bin/pureward}

collect() { # TASK KIND EPISODES MORE…
    task=$1 kind=$2 episodes=$3
    shift 3
    [ -e "datasets/$task/$kind" ] || "$PUREWARD" collect "$task" \
        --policy "results/jaco/experts/$task" --out "datasets/$task/$kind" \
        --episodes "$episodes" --compact --device cpu "$@"
}

collect lift demonstrations 50 --seed 0
collect lift annotated 50 --seed 1 --stages
collect stack demonstrations 200 --seed 0
collect stack annotated 200 --seed 1 --stages

cd datasets
find lift stack -type f | LC_ALL=C sort | xargs sha256sum > SHA256SUMS
