# SPDX-License-Identifier: Apache-2.0
"""Damages HDF5 files that stay HDF5 files, and lets them point to other files."""

import random
from pathlib import Path

import h5py
import numpy as np


def change_hdf5(path: Path, outside: Path, chance: random.Random) -> str:
    """Change an object of an HDF5 file: its shape, type, values, attributes, or where it lies."""
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        arrays = [name for name in names if isinstance(file[name], h5py.Dataset)]
        name = chance.choice(arrays if chance.random() < 0.8 else names)
        how = chance.choice(sorted(_HDF5))
        try:
            told = _HDF5[how](file, name, outside, chance)
        except (ValueError, TypeError) as error:  # HDF5 has no such thing; the old one is deleted
            told = f"refused by HDF5 ({error})"
    return f"{name}: {how} {told}"


def _shape(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    old = file[name]
    array = old[()] if isinstance(old, h5py.Dataset) else np.zeros(3)
    shape = np.shape(array)
    new = chance.choice(((), (0,), (1,), (*shape, 1), shape[1:], (len(shape) * 7,), (2,) * 32))
    del file[name]
    file.create_dataset(name, shape=new, dtype="f4" if len(new) < 32 else "u1")
    return str(new)


def _huge(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    """Declare far more than the file holds: chunks that were never written take no space."""
    old = file[name]
    shape = old.shape if isinstance(old, h5py.Dataset) else (4,)
    length = chance.choice((10**5, 10**7, 10**9, 2**40))
    kind = chance.choice((getattr(old, "dtype", np.dtype("u1")), np.dtype("u1"), np.dtype("f8")))
    del file[name]
    new = (length, *shape[1:])
    file.create_dataset(name, shape=new, dtype=kind, chunks=(1, *(shape[1:] or ())))
    return f"{kind} {new}"


def _type(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    old = file[name]
    shape = old.shape if isinstance(old, h5py.Dataset) else (4,)
    kinds = ("c16", "f2", "i8", "u1", "S5", "bool", ">f4", "V9", h5py.string_dtype())
    kind = chance.choice((*kinds, h5py.ref_dtype, np.dtype([("a", "i4"), ("b", "f4")])))
    del file[name]
    file.create_dataset(name, shape=shape, dtype=kind)
    return str(kind)


def _values(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    old = file[name]
    if not isinstance(old, h5py.Dataset) or not np.issubdtype(old.dtype, np.number):
        return "left as they were"
    number = chance.choice((np.nan, np.inf, -np.inf, 1e30, -1, 3e38, 0))
    with np.errstate(all="ignore"):
        old[...] = np.full(old.shape, np.array(number).astype(old.dtype))
    return f"all {number}"


def _external(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    """Storage in a file outside."""
    old = file[name]
    shape = old.shape if isinstance(old, h5py.Dataset) else (4,)
    kind = old.dtype if isinstance(old, h5py.Dataset) else np.dtype("u1")
    size = max(1, int(np.prod(shape)) * kind.itemsize)
    del file[name]
    place = [(str(outside / "secret"), 0, size)]
    file.create_dataset(name, shape=shape, dtype=kind, external=place)
    return "storage in another file"


def _link(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    """A link to an object of a file outside, to another object, to a group above, or to nothing."""
    del file[name]
    target = chance.choice(("external", "soft", "above", "dangling"))
    if target == "external":
        file[name] = h5py.ExternalLink(str(outside / "foreign.hdf5"), "/frames")
    elif target == "above":
        file[name] = file["/"]  # a hard link: the tree has a cycle
    else:
        file[name] = h5py.SoftLink("/" if target == "soft" else "/no/such/thing")
    return target


def _virtual(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    """A dataset put together from one in a file outside."""
    old = file[name]
    shape = old.shape if isinstance(old, h5py.Dataset) and old.shape else (4,)
    del file[name]
    layout = h5py.VirtualLayout(shape=shape, dtype="u1")
    source = h5py.VirtualSource(str(outside / "foreign.hdf5"), "frames", shape=shape)
    layout[...] = source[...]
    file.create_virtual_dataset(name, layout)
    return "put together from another file"


def _attribute(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    place = file[name] if chance.random() < 0.5 else file[name].parent
    names = [*place.attrs, "split", "policy", "seed", "id", "total_steps"]
    which = chance.choice(names)
    value = chance.choice((0, -1, 2**62, "", "x" * 60_000, "no-such-split", np.zeros((5, 5)), 1.5))
    place.attrs[which] = value
    return f"{which} = {value!r:.40}"


def _moved(file: h5py.File, name: str, outside: Path, chance: random.Random) -> str:
    file.move(name, f"{name}-elsewhere")
    return "renamed"


_HDF5 = {
    "attribute": _attribute,
    "external": _external,
    "huge": _huge,
    "link": _link,
    "moved": _moved,
    "shape": _shape,
    "type": _type,
    "values": _values,
    "virtual": _virtual,
}
