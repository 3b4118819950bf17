#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collects the paper's data of the arm on a CPU, again: what is there already is left as it is, so
# delete a folder to make it anew. Run it from the repository's root: sh datasets/collect.sh
set -eu
PUREWARD=${PUREWARD:-.venv/bin/pureward}

collect() { # TASK KIND EXPERT EPISODES MORE…
    task=$1 kind=$2 expert=$3 episodes=$4
    shift 4
    [ -e "datasets/$task/$kind" ] || "$PUREWARD" collect "$task" \
        --policy "results/jaco/experts/$expert" --out "datasets/$task/$kind" \
        --episodes "$episodes" --compact --device cpu "$@"
}

collect lift demonstrations lift 50 --seed 0
collect lift annotations lift-course 50 --seed 1 --stages
collect stack demonstrations stack 200 --seed 0
collect stack annotations stack 200 --seed 1 --stages

cd datasets
find lift stack walker -type f | LC_ALL=C sort | xargs sha256sum > SHA256SUMS
