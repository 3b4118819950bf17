# SPDX-License-Identifier: Apache-2.0
"""The verbs `tasks`, `show`, `collect`, `evaluate`, `probe`, `plot`, `studio` and `demo`.

Docstrings are the help texts. Imports are inside the functions, so that `--help` is fast.
"""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from pureward.cli.parsing import OPTIONAL, Text, Texts
from pureward.errors import InputError, counted

Task = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
_REQUIRED = tyro.conf.arg(help_behavior_hint="(required)")
Paths = Annotated[tuple[Path, ...], tyro.conf.Positional, _REQUIRED]


def print_compile_note(device: str) -> None:
    """On CUDA, print that kernels may be compiled first."""
    from pureward.types import find_device

    if find_device(device).type == "cuda":
        print("On a new machine the simulator's kernels are compiled first: up to a minute.")


def evaluation_text(evaluation: dict[str, float]) -> str:
    """Return the summary of a greedy evaluation as text."""
    from pureward.training.evaluate import HOLD

    interval = f" ± {evaluation['return_ci95']:.1f} (95%)" if evaluation["episodes"] > 1 else ""
    episodes = f"{evaluation['episodes']:.0f} episodes"
    solved = f"solved {evaluation['success']:.0%} of"
    if not evaluation["success"]:  # many environments do not report it
        solved = f"no success that lasts {HOLD} steps or ends the episode in"
    return (
        f"greedy return {evaluation['return']:.1f}{interval}, from "
        f"{evaluation['return_min']:.1f} to {evaluation['return_max']:.1f}; {solved} {episodes}"
    )


def tasks() -> None:
    """List the tasks with their sizes, and the environments of plugins."""
    from pureward.envs import ENVIRONMENTS, make
    from pureward.envs.tasks import TASKS

    line = "{:8} {:>5} {:>7} {:>7} {:>12}  {:11} {}"
    print(line.format("task", "state", "actions", "episode", "control step", "frames", "to do"))
    for name, task in TASKS.items():
        env = make(name, 1, "cpu")
        frames = f"{3 * len(task.cameras)}x64x64"
        seconds = f"{env.control_step:g} s"
        row = (name, env.state_size, env.action_size, task.horizon, seconds, frames, task.summary)
        print(line.format(*row))
    for name in ENVIRONMENTS:
        print(f"{name:8} an environment of a plugin")


def show(
    task: Task,
    out: Path = Path("show"),
    worlds: int = 16,
    steps: int = 200,
    policy: str = "random",
    device: str = "auto",
    seed: int = 0,
    shadows: bool = False,
    distractors: Text = "",
    frames: Text = "",
) -> None:
    """Write a contact sheet (PNG) and a video (MP4) of a task, or of a run's policy.

    For example: pureward show walker --out show --worlds 25

    Args:
        task: a name that `pureward tasks` lists, gym:ID, MODULE:FUNCTION, or a run directory,
            whose policy then acts.
        out: folder for TASK.png and TASK.mp4.
        worlds: number of environments, all tiled in the video.
        steps: control steps to run.
        policy: "random", "zero", "scripted" (lift and stack), a run directory, or
            MODULE:FUNCTION, your function from states (worlds, state size) to actions
            (worlds, action size) in [-1, 1].
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: seed of the first states and the random policy.
        shadows: draw shadows.
        distractors: shape of the other blocks: "cube" or "cuboid" (lift, stack).
        frames: of a Gymnasium environment: keys of a dict observation, KEY,KEY; otherwise rendered.
    """
    from pureward.diagnostics.show import show as run

    print_compile_note(device)
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
        frames=frames,
    )
    count, kind = (shown.ended, "") if shown.ended else (worlds, "unfinished ")
    mean = f"mean return {shown.mean_return:.1f} of {counted(count, f'{kind}episode')}"
    print(f"{task}: {mean} over {steps} steps, policy {shown.policy}")
    print(f"  {shown.sheet}\n  {shown.video}")


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
    """Collect a dataset: demonstrations of a run's policy, or annotated episodes of its training.

    For example: pureward collect reach --policy runs/reach --out data/demos

    Or: pureward collect reach --policy runs/reach --out data/rated --stages

    Args:
        task: a name that `pureward tasks` lists, gym:ID, or MODULE:FUNCTION.
        policy: the run directory whose policy acts.
        out: folder of the dataset; it must not exist.
        episodes: episodes to train on; held-out and failed ones are extra.
        stages: use policies of all stages of the run, not only the last one.
        held_out: episodes that are not trained on, for the probes and the estimate of η.
        failures: episodes without success, for the probes; fewer are written if the run and
            random actions do not fail often enough, and none if an environment of your own
            reports no success at all.
        frames: store frames too, which takes several times the space; otherwise they are drawn
            on load.
        compact: leave out the policy's states and round the simulator's, for a smaller dataset.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: seed of the first states and the random actions.
    """
    from pureward.runs.collect import collect as run

    print_compile_note(device)
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
    for name, facts in made.splits.items():
        print(
            f"{name:8} {facts['episodes']:4} episodes, return {facts['return_mean']:.1f} "
            f"({facts['return_min']:.1f} to {facts['return_max']:.1f}), "
            f"success in {facts['with_success']}"
        )
    print(f"  {made.path / 'card.json'}\n  {made.path / 'sheet.png'}")


def evaluate(
    run: Run,
    episodes: int = 100,
    distractors: Text = "",
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Evaluate the policy of a run greedily over whole episodes.

    For example: pureward evaluate runs/reach --episodes 100

    Args:
        run: a run directory.
        episodes: number of episodes, simulated in parallel.
        distractors: shape of the other blocks: "cube" or "cuboid"; by default the run's.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: seed of the first states.
    """
    from pureward.training.evaluate import evaluate_run

    found = evaluate_run(run, episodes=episodes, distractors=distractors, device=device, seed=seed)
    print(f"{run} at {found['env_steps']:,} env steps: {evaluation_text(found)}")


def probe(
    run: Run,
    episodes: int = 16,
    out: Annotated[Path | None, OPTIONAL] = None,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Print a verdict on a run's learned reward and show where it differs most from the true one.

    For example: pureward probe runs/imitated

    Args:
        run: the directory of a run on a learned reward.
        episodes: episodes to search, of the policy without exploration noise.
        out: folder for evidence.png, evidence.mp4 and probe.json; by default RUN/probe.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: seed of the first states.
    """
    from pureward.diagnostics.evidence import probe as find

    found = find(run, out, episodes=episodes, device=device, seed=seed)
    print(f"{run} at {found.env_steps:,} env steps, {episodes} greedy episodes: {found.summary()}")
    print(found.verdict)
    if found.eta is not None:
        print(f"class prior: {found.eta.sentence}")
    print("\n".join(f"  {path}" for path in found.files))


def plot(
    runs: Annotated[Paths, tyro.conf.arg(metavar="RUN…")],
    metric: str = "return",
    by: Literal["steps", "seconds"] = "steps",
    out: Path = Path("plot.png"),
) -> None:
    """Plot a metric of runs: a panel per task, a line per method with its 95% interval over seeds.

    For example: pureward plot runs/gail-* runs/nn-pugail-* --by seconds --out curves.pdf

    Args:
        runs: run directories; runs that differ only in their seed become one line.
        metric: a name in metrics.jsonl, such as "return", "reward_error" or "risk/violated";
            KIND/NAME, such as "eval/success" or "train/return", if several kinds of line have it;
            "success" for P(success) of every source; "prior" for all estimates of η, a panel per
            method.
        by: x axis: env steps, or seconds of training.
        out: PNG, PDF or SVG file.
    """
    from pureward.diagnostics.history import read_histories
    from pureward.diagnostics.plot import curves
    from pureward.picture import check_figure, save_figure

    check_figure(out)
    save_figure(curves(read_histories(runs), metric=metric, by=by), out)
    print(f"  {out}")


def studio(
    sources: Annotated[Paths, tyro.conf.arg(metavar="PATH…")],
    images: Texts = (),
    port: int = 8417,
    host: str = "127.0.0.1",
    browser: bool = True,
) -> None:
    """Draw rewards for episodes, and look at learned ones, on a page in your browser.

    For example: pureward studio data/rated, or pureward studio runs/gated-*

    Then: pureward train reach --method nn-purl --annotations data/rated.sketches

    The page saves each stroke in DATASET.sketches, beside the data. The data does not change. Of
    runs it shows curves, verdicts, and the episodes where the reward differs most from the truth.

    Args:
        sources: datasets of any format, and run directories, also of runs that still train.
        images: names of the images to show, if a dataset has several.
        port: port of the server; 0 for any that is free.
        host: address to listen on. With any other than 127.0.0.1, people on other machines can use
            the page, if they have the printed address with its token. It is not encrypted.
        browser: open the page in a browser, if there is a display.
    """
    from pureward.studio.server import serve

    serve(sources, images=images, host=host, port=port, browser=browser)


def demo(out: Path = Path("demo")) -> None:
    """Train an expert and four learned rewards on two cores in minutes, and write a report.

    Args:
        out: folder for all files; call again to resume.
    """
    from pureward.demo import demo as run
    from pureward.runs.directory import RunDirectory

    if RunDirectory(out).config.exists():
        raise InputError(
            f"the demo needs a folder of its own, and {out} holds a run; choose another"
        )
    done = run(out)
    print("\nVerdicts:")
    for history in done.runs:
        print(f"  {history.path.name}: {history.verdict()}")
    print(f"\n{done.seconds:.0f} s. Open {done.report.resolve()}")
