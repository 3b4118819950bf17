#!/bin/sh
# All figures and experiments on a GPU of results/protocol.md, from an empty folder:
#     sh results/reproduce.sh [FOLDER [RUNS AT ONCE]]
# A stopped script continues where it was, on any machine that has the folder. It starts in the clone,
# with pureward on the PATH. `DRY=--dry-run sh results/reproduce.sh` lists the runs.
set -eu
out=${1:-runs/paper} at_once=${2:-6}
mkdir -p "$out"
for task in walker lift stack; do
    [ -d "$out/$task" ] || cp -r "datasets/$task" "$out/$task"
done
figure() { pureward reproduce "$@" --out "$out" --at-once "$at_once" ${DRY:-}; }

figure imitation --task lift --seeds 3
figure supervised --task lift --seeds 3
figure imitation --task walker --seeds 5
figure supervised --task walker --seeds 5
figure imitation --task stack --methods gail nn-pugail --seeds 3
figure supervised --task stack --methods pnrl nn-purl prl --seeds 3
figure domain-gap --seeds 5
figure imitation-prior --seeds 3
figure supervised-prior --seeds 3
figure imitation --task lift --seeds 5
figure supervised --task lift --seeds 5
figure overfitting --task lift --seeds 5
figure overfitting --task stack --seeds 3
figure hacking --task walker --seeds 5
figure hacking --task lift --seeds 5
figure hacking --task stack --seeds 3

# The controlled experiments, and lift without the script.
[ -n "${DRY:-}" ] || [ -d runs/demonstrations-200 ] || \
    pureward collect lift --policy results/jaco/experts/lift \
        --episodes 200 --held-out 50 --seed 77 --compact --out runs/demonstrations-200
for name in true-reward true-reward-stack more-updates more-demonstrations higher-ceiling \
    fixed-prior-gap without-script; do
    pureward sweep "results/$name.toml" --out "$out/$name" --at-once "$at_once" ${DRY:-} ||
        [ -n "${DRY:-}" ] # data that is collected above may be missing
done
