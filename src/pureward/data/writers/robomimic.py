# SPDX-License-Identifier: Apache-2.0
"""Copies a robomimic HDF5 file with other rewards; the source does not change."""

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from pureward.data.guard import FETCH, check_disk, check_file, guarding
from pureward.data.hdf5 import check_heaps, own_member
from pureward.data.readers.robomimic import demos_in
from pureward.errors import InputError
from pureward.files import whole_file


def copy_robomimic(source: Path, out: Path, rewards: Callable[[int], NDArray]) -> None:
    """Write a copy of a file with the column `rewards` of each episode replaced, atomically.

    Args:
        source: the HDF5 file.
        out: file of the copy.
        rewards: returns the rewards of an episode, one for each of its steps.
    """
    with guarding(source):
        check_file(source, source)
        check_heaps(source)
        check_disk(out.parent, source.stat().st_size, out)
        with whole_file(out) as partial:
            shutil.copyfile(source, partial)
            with h5py.File(partial, "r+") as root:
                for number, demo in enumerate(demos_in(root)):
                    _replace(root[f"data/{demo}"], rewards(number))  # type: ignore[arg-type]


def _replace(group: h5py.Group, rewards: NDArray) -> None:
    old = own_member(group, "rewards")
    actions = own_member(group, "actions")
    for column in (old, actions):
        if column is not None and len(column) != len(rewards):
            raise InputError(
                f"{group.name} has {len(column)} steps, and {len(rewards)} rewards; {FETCH}"
            )
    if old is not None:
        del group["rewards"]
    group.create_dataset("rewards", data=rewards.astype(np.float64))
