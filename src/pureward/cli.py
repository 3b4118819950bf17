# SPDX-License-Identifier: Apache-2.0
"""The command line: one function a verb."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from pureward.errors import InputError, SimulationError, TrainingError

Task = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]


def tasks() -> None:
    """List the tasks with their sizes."""
    from pureward.env import make
    from pureward.tasks import TASKS

    line = "{:8} {:>5} {:>7} {:>7} {:>12}  {:11} {}"
    print(line.format("task", "state", "actions", "episode", "control step", "frames", "to do"))
    for name, task in TASKS.items():
        env = make(name, 1, "cpu")
        frames = f"{3 * len(task.cameras)}x64x64"
        seconds = f"{task.control_step(env.engine.model):g} s"
        row = (name, env.state_size, env.action_size, task.horizon, seconds, frames, task.summary)
        print(line.format(*row))


def show(
    task: Task,
    out: Path = Path("show"),
    worlds: int = 16,
    steps: int = 200,
    policy: str = "random",
    device: str = "auto",
    seed: int = 0,
    shadows: bool = False,
    distractors: str | None = None,
) -> None:
    """Watch a task: write a contact sheet (PNG) and a video (MP4) of a batch of worlds.

    For example: pureward show walker --out show --worlds 25

    Args:
        task: a name that `pureward tasks` lists.
        out: folder for TASK.png and TASK.mp4.
        worlds: how many environments to simulate and to tile in the video.
        steps: control steps to run.
        policy: "random", "zero", "scripted" (lift and stack), a run directory, or
            MODULE:FUNCTION, a function of yours that turns states (worlds, state size) into
            actions (worlds, action size) in [-1, 1].
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the first states and the random policy.
        shadows: draw shadows.
        distractors: shape of the blocks that are not the task's: "cube" or "cuboid" (lift, stack).
    """
    from pureward.show import show as run

    _announce(device)
    shown = run(
        task,
        out,
        worlds=worlds,
        steps=steps,
        policy=policy,
        device=device,
        seed=seed,
        shadows=shadows,
        distractors=distractors,
    )
    print(
        f"{task}: mean return {shown.mean_return:.1f} over {steps} steps with the {policy} policy"
    )
    print(f"  {shown.sheet}\n  {shown.video}")


@dataclass(frozen=True)
class _Start:
    """What must be known of a run's arguments before their defaults are."""

    method: str
    preset: str = "fast"
    resume: bool = False
    out: str = ""
    demonstrations: str = ""
    annotations: str = ""


_EXPERT = """Train an expert: D4PG on the task's own reward, policies kept from beginning to end.

For example: pureward expert reach --out runs/reach
then: pureward evaluate runs/reach, and pureward show reach --policy runs/reach
"""

_TRAIN = """Train a policy on a reward learned from demonstrations or from annotated episodes.

For example: pureward train reach --demonstrations data/reach --out runs/imitated
or: pureward train reach --method nn-purl --annotations data/course --out runs/gated
then: pureward probe runs/imitated, and pureward plot runs/imitated runs/gated
"""

_RUN_ARGUMENTS = """
Args:
    task: a name that `pureward tasks` lists.
    config: all settings.
    preset: settings to start from: "fast" for one GPU or a laptop, "paper" to the letter of the
        paper's tables. Every other setting can be changed.
    resume: go on from the newest checkpoint of the run directory.
"""

# Verbs that start a run, and the method each begins with.
_RUNS = {"expert": (_EXPERT, "truth"), "train": (_TRAIN, "nn-pugail")}


def _run_by_name(text: str) -> Callable[[], None]:
    """A verb that starts a run, for the list of verbs only."""

    def verb() -> None: ...

    verb.__doc__ = text
    return verb


def _run(text: str, method: str, arguments: list[str]) -> Callable[..., None]:
    """A verb that starts a run, its defaults those of the preset or of the run to be resumed."""
    from pureward.run.config import RunConfig, read_config
    from pureward.run.directory import RunDirectory
    from pureward.run.presets import preset

    named = arguments[0] if arguments and not arguments[0].startswith("-") else "walker"
    start, _ = tyro.cli(
        _Start, args=arguments, default=_Start(method), return_unknown_args=True, add_help=False
    )
    saved = RunDirectory(Path(start.out or RunConfig.out))
    data = {"demonstrations": start.demonstrations, "annotations": start.annotations}
    if "--help" in arguments or "-h" in arguments:
        data = _any_data(start.method)
    defaults = (
        read_config(saved)
        if start.resume
        else preset(named, start.preset, method=start.method, **data)
    )

    def run(
        task: Task,
        config: Annotated[RunConfig, tyro.conf.arg(name="")] = defaults,
        preset: Literal["fast", "paper"] = "fast",
        resume: bool = False,
    ) -> None:
        from pureward.run.loop import train

        _announce(config.device)
        result = train(replace(config, task=task), resume=resume)
        print(f"{result.state} after {result.env_steps:,} env steps: {result.path}")
        if result.evaluation:
            print(_told(result.evaluation))

    run.__doc__ = text + _RUN_ARGUMENTS
    return run


def _any_data(method: str) -> dict[str, str]:
    """What a method needs, by a name that stands for it: help must not ask for real data."""
    from pureward.reward.methods import method_named

    needs = method_named(method).positives
    return {needs: "FOLDER"} if needs else {}


def _announce(device: str) -> None:
    """Say why nothing seems to happen at first."""
    from pureward.env import find_device

    if find_device(device).type == "cuda":
        print("On a new machine the simulator's kernels are compiled first: up to a minute.")


def _told(evaluation: dict[str, float]) -> str:
    return (
        f"greedy return {evaluation['return']:.1f} ± {evaluation['return_ci95']:.1f} (95%), from "
        f"{evaluation['return_min']:.1f} to {evaluation['return_max']:.1f}; solved "
        f"{evaluation['success']:.0%} of {evaluation['episodes']:.0f} episodes"
    )


def collect(
    task: Task,
    policy: Path,
    out: Path,
    episodes: int = 50,
    stages: bool = False,
    held_out: int = 10,
    failures: int = 10,
    frames: bool = False,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Collect a dataset: demonstrations of a run's policy, or annotated episodes of its learning.

    For example: pureward collect reach --policy runs/reach --out data/reach

    Args:
        task: a name that `pureward tasks` lists.
        policy: the run directory whose policy acts.
        out: folder of the dataset; it must not exist.
        episodes: training episodes; held-out and failed ones come on top.
        stages: take the policies from the whole course of the run instead of the last one.
        held_out: episodes kept from training, for the probes.
        failures: episodes that never succeed, for the probes.
        frames: store frames too; without them they are drawn on load, which takes 40 times
            less space.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    from pureward.run.collect import collect as run

    _announce(device)
    made = run(
        task,
        policy,
        out,
        episodes=episodes,
        stages=stages,
        held_out=held_out,
        failures=failures,
        frames=frames,
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
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    episodes: int = 100,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Evaluate the policy of a run greedily over whole episodes.

    Args:
        run: a run directory.
        episodes: how many episodes, all at once.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    from pureward.env import find_device, make
    from pureward.run.evaluate import evaluate as judge
    from pureward.run.policy import load_policy

    place = find_device(device)
    policy = load_policy(run, device=str(place))
    env = make(policy.config.task, episodes, str(place))
    told = judge(env, policy.act, seed=seed).summary()
    print(f"{run} at {policy.env_steps:,} env steps: {_told(told)}")


def probe(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    episodes: int = 16,
    out: Path | None = None,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Say what became of a run's learned reward, and show where it and the truth part most.

    Args:
        run: the directory of a run on a learned reward.
        episodes: greedy episodes to look among.
        out: folder for evidence.png, evidence.mp4 and probe.json; RUN/probe if left out.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
        seed: of the episodes' first states.
    """
    from pureward.evidence import probe as look

    found = look(run, out, episodes=episodes, device=device, seed=seed)
    print(f"{run} at {found.env_steps:,} env steps, {episodes} greedy episodes: {found.told()}")
    print(found.verdict)
    print(f"  {found.strip}\n  {found.film}\n  {found.table}")


Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…")]


def plot(
    runs: Runs,
    metric: str = "return",
    by: Literal["steps", "seconds"] = "steps",
    out: Path = Path("plot.png"),
) -> None:
    """Draw curves of runs: a panel a task, a line a method with its 95% interval over seeds.

    For example: pureward plot runs/gail-* runs/nn-pugail-* --by seconds --out curves.pdf

    Args:
        runs: run directories; those that differ in nothing but their seed become one line.
        metric: a name in metrics.jsonl, such as "return", "reward_error" or "risk/violated";
            "success" draws P(success) of every source, a panel a method.
        by: env steps or seconds of training.
        out: PNG, PDF or SVG file.
    """
    from pureward.history import read_histories
    from pureward.picture import save_figure
    from pureward.plot import curves

    save_figure(curves(read_histories(runs), metric=metric, by=by), out)
    print(f"  {out}")


def demo(out: Path = Path("demo")) -> None:
    """See it at work, on two cores in minutes: four learned rewards side by side, and a report.

    Args:
        out: folder for everything; a demo that was stopped goes on.
    """
    from pureward.demo import demo as run

    done = run(out)
    print("\nVerdicts:")
    for history in done.runs:
        print(f"  {history.path.name}: {history.verdict()}")
    print(f"\n{done.seconds:.0f} s. Open {done.report.resolve()}")


def reproduce(
    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FIGURE")],
    task: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    seeds: int = 5,
    budget: float = 0.0,
    dry_run: bool = False,
    out: Path = Path("runs/paper"),
    at_once: int = 0,
    device: str = "auto",
) -> None:
    """Reproduce a figure of the paper: runs, picture, table, and whether its claims hold.

    What is finished is not run again, what was interrupted goes on, what fails is told and the
    rest is done. For example: pureward reproduce imitation --task walker --seeds 3 --dry-run

    Args:
        figure: imitation, imitation-prior, overfitting, supervised, supervised-prior, hacking or
            domain-gap.
        task: tasks to draw it for, if not the paper's.
        methods: of the figure's, if not all.
        seeds: runs of each line.
        budget: minutes for everything; runs that are then stopped go on at the next call.
        dry_run: list the runs with time and memory, and run nothing.
        out: folder for runs, picture and table.
        at_once: runs that share a GPU, or the cores; by default one a GPU, or one a core.
        device: "auto" (CUDA where there is one), "cpu" or "cuda".
    """
    from pureward.paper.estimate import estimate, told
    from pureward.paper.figures import find_figure
    from pureward.paper.plan import make_plan
    from pureward.paper.reproduce import reproduce as run
    from pureward.paper.sweep import local_executor

    plan = make_plan(
        find_figure(figure), out=out, tasks=task, seeds=seeds, methods=methods, device=device
    )
    executor = local_executor(device, at_once)
    if dry_run:
        print(told(plan, estimate(plan, device), executor.at_once, device))
        return
    done = run(plan, executor, budget_minutes=budget, device=device)
    for row in done.claims:
        print(f"{row['outcome']}: {row['claim']} [{row['task']}: {row['numbers']}]")
    print("\n".join(f"  {path}" for path in done.files))
    waiting = len(done.ended("stopped")) + len(done.ended("blocked"))
    if waiting:
        print(f"{waiting} steps were out of time or wait for others; call again to go on")
    failed = done.ended("failed")
    if failed:
        told = "; ".join(f"{one.job.out}: {one.said}" for one in failed)
        raise TrainingError(f"{len(failed)} steps failed ({told}); log.txt there tells more")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends in one sentence and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        verbs = {
            "tasks": tasks,
            "show": show,
            # Their settings bring in the learning libraries: only who asks for one waits.
            **{
                name: _run(*row, arguments[1:]) if arguments[:1] == [name] else _run_by_name(row[0])
                for name, row in _RUNS.items()
            },
            "collect": collect,
            "evaluate": evaluate,
            "probe": probe,
            "plot": plot,
            "reproduce": reproduce,
            "demo": demo,
        }
        tyro.extras.subcommand_cli_from_dict(
            verbs,
            prog="pureward",
            description="Positive-Unlabeled Reward Learning: rewards from demonstrations or "
            "annotated episodes that stay alive and stay honest.",
            args=arguments,
        )
    except InputError as error:
        sys.exit(_complain(error, 2))
    except (SimulationError, TrainingError, OSError) as error:
        sys.exit(_complain(error, 1))


def _complain(error: Exception, code: int) -> int:
    print(f"pureward: {error}", file=sys.stderr)
    return code
