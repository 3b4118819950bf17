# SPDX-License-Identifier: Apache-2.0
"""The verbs `import`, `score`, `fit` and `check`, which need data and no environment.

Docstrings are the help texts. Imports are inside the functions, so that `--help` is fast.
"""

from pathlib import Path
from typing import Annotated

import tyro

from pureward.cli.parsing import OPTIONAL, Text, Texts
from pureward.errors import counted

Source = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
Sources = Annotated[
    tuple[str, ...],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="SOURCE [SOURCE ...]", help_behavior_hint="(required)"),
]
Data = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
Reward = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REWARD")]


def import_(
    source: Sources,
    out: Path,
    images: Texts = (),
    size: tuple[int, int] | None = (64, 64),
    held_out: float = 0.2,
) -> None:
    """Convert videos, images, arrays, robomimic or LeRobot data to a dataset of pureward.

    For example: pureward import videos/ --out data/demos

    Or: pureward import lerobot/pusht --images observation.image --out data/pusht --size None

    Or: pureward import data/rated data/hacked --out data/more

    Then: pureward train gym:my/Env-v0 --demonstrations data/demos --out runs/mine

    Splits, rewards, successes, states, actions and the frame rate are kept where the source has
    them. Frames are stored without further loss. The folder is written completely or not at all.

    Args:
        source: a folder or file of any format that `pureward.read_episodes` opens, or the id of a
            Minari dataset in the local cache; several become one dataset.
        out: folder of the new dataset; it must not exist.
        images: names of the images to stack as channels, if the source has several.
        size: height and width of the frames; None keeps those that are stored.
        held_out: share of the episodes to hold out if the source has no splits.
    """
    from collections import Counter

    from pureward.data.writers.own import import_episodes

    made = import_episodes(source, out, images=images, size=size, held_out=held_out)
    for split, count in Counter(made.splits).items():
        print(f"{split:8} {count:4} episodes")
    if made.lossy:
        print("The source was compressed with loss: a discriminator may tell it from your frames.")
    print(f"  {out}")


def score(
    reward: Reward,
    source: Source,
    out: Path,
    images: Texts = (),
    copy: bool = False,
    films: Annotated[tuple[int, ...], OPTIONAL] = (),
    discount: Annotated[float | None, OPTIONAL] = None,
    device: str = "auto",
) -> None:
    """Write the learned reward of every frame of a dataset, as a table, a copy and films.

    For example: pureward score runs/imitated data/logs --out scores/logs

    Or: pureward score runs/gated lerobot/pusht --images observation.image --out scores/pusht --copy

    OUT/rewards.parquet has the columns episode, frame and reward. If the reward has a
    discriminator, the column D is its probability of success; if it is gated, r_phi is the reward
    before the gate. The reward of step t is that of frame t + 1. Call again to resume, or to add a
    copy or films.

    Args:
        reward: a run directory, or the folder of a saved reward.
        source: a folder or file of any format that `pureward.read_episodes` opens, or the id of a
            Minari dataset in the local cache.
        out: folder for the table; new, or that of an earlier call.
        images: names of the images in the source, in the order of the reward's cameras; by default
            those that the reward was trained on.
        copy: also copy the dataset with these rewards: a LeRobot dataset to OUT/relabelled, a
            robomimic file to OUT/relabelled.hdf5, others to OUT/relabelled in our own format.
        films: numbers of episodes to write as OUT/episode-N.mp4, above the curves of their values.
        discount: discount factor of the RL library that will use the copy; needed only for rewards
            with an absorbing state, whose value is added to terminal steps.
        device: "auto" (CUDA if available), "cpu" or "cuda".
    """
    from pureward.scoring.score import score as run

    made = run(
        reward, source, out, images=images, copy=copy, films=films, discount=discount, device=device
    )
    if made.continued:
        print(f"{counted(made.continued, 'episode')} had been scored before")
    print(made.summary())
    if made.agreement:
        print(made.agreement)
    print("\n".join(f"  {path}" for path in made.files))


def fit(
    unlabeled: str,
    out: Path,
    demonstrations: Text = "",
    annotations: Text = "",
    failures: Text = "",
    method: Text = "",
    prior: Text = "",
    updates: int = 1000,
    images: Texts = (),
    stack: int = 1,
    held_out: float = 0.2,
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Fit a reward to demonstrations and logs, without an environment.

    For example: pureward fit --demonstrations demos.hdf5 --unlabeled logs/ --out rewards/mine

    Or, with rewards: pureward fit --annotations data/rated --unlabeled logs/ --out rewards/gated

    Then: pureward score rewards/mine logs/ --out scores/logs

    Each source is anything that pureward reads: a Minari or LeRobot dataset, a robomimic file,
    videos, folders of images, arrays. Call again to continue a fit that was stopped.

    Args:
        unlabeled: logs, good and bad episodes; their rewards are not used, and successes only for
            the verdict.
        out: folder for the reward, metrics.jsonl and fit.png.
        demonstrations: successful episodes; the discriminator's positives.
        annotations: episodes with rewards, for a reward model that the discriminator gates; its
            positives too, if there are no demonstrations.
        failures: episodes that are known to fail.
        method: nn-pugail (the default), nn-purl (with annotations), or to compare: gail, pugail,
            pnrl, purl, prl.
        prior: η, the share of the logs that is like the positives; by default it is estimated
            without annotations, and 0.7 with them.
        updates: minibatches that the discriminator learns from.
        images: names of the images to use, if the data has several.
        stack: consecutive images in a frame.
        held_out: share of the positives held out, if the data has no splits.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: seed of weights and sampling.
    """
    from pureward.offline.fit import fit as run

    done = run(
        unlabeled,
        demonstrations=demonstrations or None,
        annotations=annotations or None,
        failures=failures or None,
        out=out,
        method=method,
        prior=prior or None,
        updates=updates,
        images=images,
        stack=stack,
        held_out=held_out,
        device=device,
        seed=seed,
    )
    print(f"{done.state} after {counted(done.updates, 'update')}: {done.path}")
    if done.verdict is None:
        print("call again to continue")
        return
    print(f"  {done.path / 'fit.png'}\n{done.verdict}")


def check(
    source: Data,
    against: Text = "",
    images: Texts = (),
    held_out: float = 0.2,
    states: bool = False,
    out: Path = Path("check.png"),
    frames: str = "render",
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Check whether data is fit to learn a reward from; exit with 1 if something is wrong.

    For example: pureward check demos.hdf5 --against logs/

    Or: pureward check data/demos --against gym:Pendulum-v1

    It checks sizes, lengths, rewards, copies across splits, frozen and black frames, and whether
    there are enough episodes to estimate the class prior η. With --against, it compares the first
    frames of both sides. They show no behaviour yet: if they differ, a discriminator learns that
    difference instead of behaviour.

    Args:
        source: anything that pureward reads.
        against: the other side: logs, data of the agent, or the name of an environment.
        images: names of the images to use, if the data has several.
        held_out: share of the episodes held out, if the data has no splits.
        states: compare frames of nearly equal states instead of first frames, for data that does
            not begin from the same states.
        out: PNG file that shows where both sides differ, with --against.
        frames: of a Gymnasium environment: "render", or keys of a dict observation: KEY,KEY.
        device: where frames are drawn or simulated: "auto", "cpu" or "cuda".
        seed: seed of the comparison.
    """
    from pureward.offline.check import check as run
    from pureward.types import find_device

    found = run(
        source,
        against=against or None,
        images=images,
        held_out=held_out,
        states=states,
        out=out,
        frames=frames,
        device=str(find_device(device)),
        seed=seed,
    )
    for fact in found.facts:
        print(fact)
    for problem in found.problems:
        print(f"problem: {problem}")
    if found.picture is not None:
        print(f"  {found.picture}")
    if found.problems:
        raise SystemExit(1)
    print("no problem found")
