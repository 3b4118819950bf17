# SPDX-License-Identifier: Apache-2.0
"""Verbs about a run's policy: collect its episodes, evaluate it."""

from pathlib import Path

from pureward.cli.arguments import Run, Task, announce, told_evaluation


def collect(
    task: Task,
    policy: Path,
    out: Path,
    episodes: int = 50,
    stages: bool = False,
    held_out: int = 10,
    failures: int = 10,
    frames: bool = False,
    compact: bool = False,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Collect a dataset: demonstrations of a run's policy, or annotated episodes of its learning.

    For example: pureward collect reach --policy runs/reach --out data/demos

    Or: pureward collect reach --policy runs/reach --out data/rated --stages

    Args:
        task: a name that `pureward tasks` lists.
        policy: the run directory whose policy acts.
        out: folder of the dataset; it must not exist.
        episodes: training episodes; held-out and failed ones come on top.
        stages: take the policies from the whole course of the run instead of the last one.
        held_out: episodes kept from training, for the probes.
        failures: episodes that never succeed, for the probes; fewer are written if the run and
            random actions do not fail often enough.
        frames: store frames too, which takes several times the space; without them they are drawn
            on load.
        compact: leave out the policy's states and round what frames are drawn from, for a
            smaller dataset.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states and the random actions.
    """
    from pureward.runs.collect import collect as run

    announce(device)
    made = run(
        task,
        policy,
        out,
        episodes=episodes,
        stages=stages,
        held_out=held_out,
        failures=failures,
        frames=frames,
        compact=compact,
        device=device,
        seed=seed,
    )
    for name, told in made.splits.items():
        print(
            f"{name:8} {told['episodes']:4} episodes, return {told['return_mean']:.1f} "
            f"({told['return_min']:.1f} to {told['return_max']:.1f}), "
            f"success in {told['with_success']}"
        )
    print(f"  {made.path / 'card.json'}\n  {made.path / 'sheet.png'}")


def evaluate(
    run: Run,
    episodes: int = 100,
    distractors: str = "",
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Evaluate the policy of a run greedily over whole episodes.

    For example: pureward evaluate runs/reach --episodes 100

    Args:
        run: a run directory.
        episodes: how many episodes, all at once.
        distractors: shape of what is not the task's, "cube" or "cuboid"; the run's own if left out.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    from pureward.training.evaluate import evaluate_run

    told = evaluate_run(run, episodes=episodes, distractors=distractors, device=device, seed=seed)
    print(f"{run} at {told['env_steps']:,} env steps: {told_evaluation(told)}")
