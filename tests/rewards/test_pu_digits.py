# SPDX-License-Identifier: Apache-2.0
"""On real digits nnPU ends above uPU and PN."""

import importlib.util
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


def benchmark():
    spec = importlib.util.spec_from_file_location("pu_digits", ROOT / "benchmarks/pu_digits.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_resampled_sets_do_not_overlap_and_have_the_stated_prior():
    digits = benchmark()
    split = digits.resample("scikit-learn digits", 0)
    images, is_positive = digits.digits("scikit-learn digits")
    label_of = {
        bytes(i.numpy().tobytes()): bool(p) for i, p in zip(images, is_positive, strict=True)
    }

    def keys(rows: torch.Tensor) -> list[bytes]:
        return [row.numpy().tobytes() for row in rows]

    assert all(label_of[k] for k in keys(split.positive))
    shares = [label_of[k] for k in keys(split.unlabeled)]
    assert sum(shares) / len(shares) == digits.PRIOR
    assert [label_of[k] for k in keys(split.test)] == split.labels.tolist()
    sets = [set(keys(x)) for x in (split.positive, split.unlabeled, split.test)]
    assert len(set.union(*sets)) == sum(map(len, sets))


@pytest.mark.slow
def test_nnpu_ends_above_upu_and_pn():
    digits = benchmark()
    args = digits.Args(epochs=100)
    final = {}
    for name, risk in digits.RISKS.items():
        curves = [
            digits.train(digits.resample("scikit-learn digits", seed), risk, args, seed)
            for seed in range(3)
        ]
        final[name] = sum(curve[-1] for curve in curves) / len(curves)
    assert final["nnPU"] > final["uPU"]
    assert final["nnPU"] > final["PN on unlabeled"]
