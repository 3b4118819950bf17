# SPDX-License-Identifier: Apache-2.0
"""The verbs `fit` and `check`, which need data and no environment."""

from pathlib import Path
from typing import Annotated

import tyro

from pureward.cli.parsing import Text, Texts


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
        unlabeled: logs, good and bad episodes; their rewards are not used.
        out: folder for the reward, metrics.jsonl and fit.png.
        demonstrations: successful episodes; the discriminator's positives.
        annotations: episodes with rewards, for a reward model that the discriminator gates; its
            positives too, if there are no demonstrations.
        failures: episodes that are known to fail.
        method: nn-pugail (the default), nn-purl (with annotations), or to compare: gail, pugail,
            pnrl, purl, prl.
        prior: share of the logs that is like the positives; by default it is estimated.
        updates: minibatches that the discriminator learns from.
        images: names of the images to use, if the data has several.
        stack: consecutive images in a frame.
        held_out: share of the positives held out, if the data has no splits.
        device: "auto" (CUDA if available), "cpu" or "cuda".
        seed: of weights and sampling.
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
    print(f"{done.state} after {done.updates:,} updates: {done.path}")
    if done.verdict is None:
        print("call again to continue")
        return
    print(f"  {done.path / 'fit.png'}\n{done.verdict}")


def check(
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")],
    against: Text = "",
    images: Texts = (),
    held_out: float = 0.2,
    states: bool = False,
    out: Path = Path("check.png"),
    device: str = "auto",
    seed: int = 0,
) -> None:
    """Check whether data is fit to learn a reward from; exit with 1 if something is wrong.

    For example: pureward check demos.hdf5 --against logs/

    Or: pureward check data/demos --against gym:Pendulum-v1

    Checked are sizes, lengths, rewards, copies across splits, frozen and black frames, and whether
    there are enough episodes to estimate η. With --against, the first frames of both sides are
    compared. They show no behaviour yet: if they differ, D learns that difference instead of
    behaviour.

    Args:
        source: anything that pureward reads.
        against: the other side: logs, data of the agent, or the name of an environment.
        images: names of the images to use, if the data has several.
        held_out: share of the episodes held out, if the data has no splits.
        states: compare frames of nearly equal states instead of first frames, for data that does
            not begin from the same states.
        out: PNG file that shows where both sides differ, with --against.
        device: where frames are drawn or simulated: "auto", "cpu" or "cuda".
        seed: of the comparison.
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
