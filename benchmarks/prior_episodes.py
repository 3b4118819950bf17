# SPDX-License-Identifier: Apache-2.0
"""V2, V3 and V5: shares of success episodes in an agent's buffer, known and estimated online."""

from itertools import product

import torch
from torch import Tensor

from prior_course import DEMONSTRATIONS, SCALES, Phase, Pool, course


def mixtures(pool: Pool, device: str, seeds: range) -> list[dict]:
    """V2: one phase for each share, number of demonstrations and resampling."""
    rows = []
    for demonstrations in DEMONSTRATIONS:
        for tenths in range(11):
            for seed in seeds:
                phase = Phase(tenths / 10, SCALES[device].updates)
                told = course(
                    pool, [phase], demonstrations=demonstrations, device=device, seed=seed
                )
                rows.append({"demonstrations": demonstrations, "seed": seed} | told[-1])
            print(rows[-1], flush=True)
    return rows


#: V3: a policy that learns, is good for a while, is lost, and recovers.
DRIFT = (0.0, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.3, 0.3, 0.3, 0.5, 0.7)


def drift(pool: Pool, device: str, seeds: range) -> list[list[dict]]:
    """V3: one course through all shares for each resampling."""
    length = SCALES[device].updates // 2
    phases = [Phase(share, length) for share in DRIFT]
    return [course(pool, phases, device=device, seed=seed) for seed in seeds]


def tinted(frames: Tensor) -> Tensor:
    """The same scene under a redder light."""
    shift = torch.zeros(frames.shape[-3], dtype=torch.int16)
    shift[::3] = 30
    return (frames.short() + shift.view(-1, 1, 1)).clamp(0, 255).to(torch.uint8)


def gap(pool: Pool, device: str, seeds: range) -> dict[str, list[list[dict]]]:
    """V5: half of the buffer are successes, but demonstrations were seen under another light."""
    phases = [Phase(0.5, 2 * SCALES[device].updates)]
    looks = {"same light": lambda frames: frames, "redder demonstrations": tinted}
    return {
        name: [course(pool, phases, device=device, seed=seed, look=look) for seed in seeds]
        for name, look in looks.items()
    }


#: What else can be chosen: (prior, λ of vpu). Known failures leave too few for lower shares.
OTHERS = (("bbe", 0.03), ("acc", 0.03), ("vpu", 0.03), ("vpu", 0.1), ("vpu", 0.3))
OTHERS_SHARES = (0.3, 0.7)


def others(pool: Pool, device: str, seeds: range) -> list[dict]:
    """Prior-free learning and known failures beside bbe, on the same mixtures."""
    rows = []
    for (name, weight), share in product(OTHERS, OTHERS_SHARES):
        for seed in seeds:
            # Longer than for bbe alone: here D itself must settle, not only its order.
            phase = Phase(share, 2 * SCALES[device].updates)
            options = {"prior_name": name, "mixup_weight": weight}
            told = course(pool, [phase], device=device, seed=seed, **options)
            rows.append(options | {"seed": seed} | told[-1])
        print(rows[-1], flush=True)
    return rows
