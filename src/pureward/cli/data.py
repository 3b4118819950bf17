# SPDX-License-Identifier: Apache-2.0
"""The verbs `import` and `score`, for data of one's own.

Docstrings are the help texts. Imports are inside the functions, so that `--help` is fast.
"""

from pathlib import Path
from typing import Annotated

import tyro

from pureward.cli.parsing import OPTIONAL, Texts

Source = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
Reward = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REWARD")]


def import_(
    source: Source,
    out: Path,
    images: Texts = (),
    size: tuple[int, int] | None = (64, 64),
    held_out: float = 0.2,
) -> None:
    """Convert videos, images, arrays, robomimic or LeRobot data to a dataset of ours.

    For example: pureward import videos/ --out data/demos

    Or: pureward import lerobot/pusht --images observation.image --out data/pusht --size None

    Then: pureward train gym:my/Env-v0 --demonstrations data/demos --out runs/mine

    Splits, rewards, successes, states, actions and the frame rate are kept where the source has
    them. Frames are stored without further loss. The folder is written completely or not at all.

    Args:
        source: a folder or file of any format that `pureward.read_episodes` opens, or the id of a
            Minari dataset in the local cache.
        out: folder of the new dataset; it must not exist.
        images: names of the images to stack as channels, if the source has several.
        size: height and width of the frames; None keeps those that are stored.
        held_out: share of the episodes to hold out if the source has no splits.
    """
    from collections import Counter

    from pureward.data.lazy import LazyEpisodes
    from pureward.data.writers.own import import_episodes

    made = import_episodes(source, out, images=images, size=size, held_out=held_out)
    assert isinstance(made.episodes, LazyEpisodes)
    for split, count in Counter(made.episodes.splits).items():
        print(f"{split:8} {count:4} episodes")
    if made.lossy:
        print("The source was compressed with loss: a discriminator may tell it from your frames.")
    print(f"  {out}")


import_.__name__ = "import"


def score(
    reward: Reward,
    source: Source,
    out: Path,
    images: Texts = (),
    copy: bool = False,
    films: Annotated[tuple[int, ...], OPTIONAL] = (),
    discount: float | None = None,
    device: str = "auto",
) -> None:
    """Write the learned reward of every frame of a dataset, as a table, a copy and films.

    For example: pureward score runs/imitated data/logs --out scores/logs

    Or: pureward score runs/gated lerobot/pusht --images observation.image --out scores/pusht --copy

    OUT/rewards.parquet has the columns episode, frame and reward, D if the reward has a
    discriminator, and r_phi if it is gated. The reward of step t is that of frame t + 1. Call again
    to resume, or to add a copy or films.

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
        reward,
        source,
        out,
        images=images,
        copy=copy,
        films=films,
        discount=discount,
        device=device,
    )
    if made.continued:
        print(f"{made.continued:,} episodes had been scored before")
    print(made.summary())
    print("\n".join(f"  {path}" for path in made.files))
