# SPDX-License-Identifier: Apache-2.0
"""Damages a file: bytes, JSON values, safetensors headers, HDF5 objects, and what a name is.

Every function takes the path of a file in a folder, a folder outside it, and a random generator.
It changes the file in place and returns what it did in a few words.
"""

import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

Mutation = Callable[[Path, Path, random.Random], str]

#: What the file outside holds; it must never appear in what is read.
SECRET = b"PUREWARD-SECRET-"
_STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, -4, 7, 99_999, 10_000_000, 2**31, 2**63, -(2**63), 10**400),
    *(0.0, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 3e38),
    *("", "0", "nan", "\0", "é" * 50, "../../outside/secret", "a" * 100_000, "truth", "\ud800"),
    *([], {}, [[]], [None], [1] * 1000, {"a": {"b": []}}, ["x"], {"": 0}, [1e9, 1e9]),
)


def flip_bits(path: Path, outside: Path, chance: random.Random) -> str:
    """Flip one to 32 bits, often near the beginning, where headers are."""
    data = bytearray(path.read_bytes())
    flips = chance.choice((1, 1, 4, 32))
    for _ in range(flips if data else 0):
        end = len(data) if chance.random() < 0.5 else min(len(data), 512)
        data[chance.randrange(end)] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return f"{flips} flipped bits"


def cut(path: Path, outside: Path, chance: random.Random) -> str:
    """Cut the file at a random place."""
    size = chance.randint(0, path.stat().st_size)
    os.truncate(path, size)
    return f"cut to {size} bytes"


def splice(path: Path, outside: Path, chance: random.Random) -> str:
    """Delete, double, zero or randomise a span."""
    data = path.read_bytes()
    start = chance.randint(0, len(data))
    end = min(len(data), start + chance.choice((1, 8, 100, 5000)))
    span = data[start:end]
    how = chance.choice(("deleted", "doubled", "zeroed", "random"))
    new = {
        "deleted": b"",
        "doubled": span * 2,
        "zeroed": bytes(len(span)),
        "random": chance.randbytes(len(span)),
    }[how]
    path.write_bytes(data[:start] + new + data[end:])
    return f"bytes {start} to {end} {how}"


def replace_whole(path: Path, outside: Path, chance: random.Random) -> str:
    """Replace all of it: nothing, noise, another format, text that nests deeply, a sparse file."""
    contents = {
        "empty": b"",
        "noise": chance.randbytes(chance.choice((1, 100, 10_000))),
        "deep list": b"[" * 200_000,
        "deep object": b'{"a":' * 100_000,
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "zip": b"PK\x03\x04" + bytes(100),
        "header that promises 2^62 bytes": struct.pack("<Q", 2**62) + b"{}",
        "long line": b'{"kind": "eval", "step": 1, "x": "' + b"y" * 3_000_000,
        "digits": b"9" * 200_000,
        "null": b"null",
    }
    name = chance.choice([*contents, "sparse file of 3 GB"])
    path.write_bytes(contents.get(name, b"{"))
    if name not in contents:
        os.truncate(path, 3 * 1024**3)
    return f"replaced by: {name}"


def replace_kind(path: Path, outside: Path, chance: random.Random) -> str:
    """Put something else in the file's place: a link, a FIFO, a folder, nothing."""
    name = chance.choice(
        ("link", "dangling link", "own link", "fifo", "folder", "missing", "zeros")
    )
    place, victim = path, outside / "secret"
    within = path.parent.parent != Path()  # what the user names may be a link
    if within and chance.random() < 0.2 and name in ("link", "dangling link", "missing"):
        place = path.parent  # the folder it lies in
    if place.is_dir():
        victim = outside / "folder"
        shutil.copytree(place, victim)
        shutil.rmtree(place)
    else:
        shutil.copyfile(path, outside / "copy")
        victim = chance.choice((victim, outside / "copy"))
        path.unlink()
    if name == "link":
        place.symlink_to(victim)
    elif name == "dangling link":
        place.symlink_to(outside / "nothing")
    elif name == "own link":
        place.symlink_to(place.name)
    elif name == "fifo":
        os.mkfifo(place)
    elif name == "folder":
        place.mkdir()
    elif name == "zeros":
        place.symlink_to("/dev/zero")
    return f"{place.name} replaced by: {name}"


ANY: tuple[Mutation, ...] = (flip_bits, cut, splice, replace_whole, replace_kind)


def change_json(path: Path, outside: Path, chance: random.Random) -> str:
    """Change one to three values of a JSON file, or of a line of one."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    told = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        value = json.loads(lines[at])
        told.append(_changed(value, chance))
        lines[at] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n", errors="surrogatepass")
    return "; ".join(told)


def _changed(value: Any, chance: random.Random) -> str:
    """Change a random item of nested lists and objects in place."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return "nothing to change"
    key = chance.choice(keys)
    inner = value[key]
    if isinstance(inner, str) and inner.startswith("{") and chance.random() < 0.7:
        nested = json.loads(inner)  # Minari keeps spaces as JSON in JSON
        told = _changed(nested, chance)
        value[key] = json.dumps(nested)
        return f"{key}: {told}"
    if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
        return f"{key}.{_changed(inner, chance)}"
    how = chance.random()
    if how < 0.1 and isinstance(value, dict):
        del value[key]
        return f"{key} deleted"
    if how < 0.15 and isinstance(value, dict):
        value[f"{key}x"] = inner
        return f"{key}x added"
    if how < 0.35 and isinstance(inner, int | float):
        value[key] = chance.choice((inner + 1, inner - 1, -inner, inner * 1000, str(inner)))
    else:
        value[key] = chance.choice(_STRANGE)
    return f"{key} = {value[key]!r:.60}"


def change_header(path: Path, outside: Path, chance: random.Random) -> str:
    """Change the JSON header of a safetensors file: shapes, types, offsets, names, metadata."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    told = _changed(header, chance)
    text = json.dumps(header).encode(errors="surrogatepass")
    claimed = len(text) if chance.random() < 0.9 else chance.choice((0, 1, 2**40, 2**63))
    path.write_bytes(struct.pack("<Q", claimed) + text + data[8 + size :])
    return told if claimed == len(text) else f"{told}; header of {claimed} bytes"


def change_tensors(path: Path, outside: Path, chance: random.Random) -> str:
    """Fill a tensor with odd numbers, or change its shape or type, in a file that stays sound."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    name = chance.choice(list(tensors))
    told = f"{name}: {_odd_array(tensors, name, chance)}"
    for key in sorted(metadata or {}):
        if chance.random() < 0.2:
            metadata[key] = str(chance.choice((0, -4, 1, 7, 10_000_000, 2**63, "x", "")))
            told += f"; {key} = {metadata[key]}"
    save_file(tensors, path, metadata=metadata)
    return told


def _odd_array(tensors: dict[str, np.ndarray], name: str, chance: random.Random) -> str:
    array = tensors[name].copy()
    how = chance.choice(("values", "values", "values", "value", "shape", "type", "missing"))
    whole = np.issubdtype(array.dtype, np.integer) or array.dtype == bool
    odd: Sequence[float] = (0, 1, -1, 7, 99_999, 2**31 - 1, -(2**31), 120)
    if not whole:
        odd = (*odd, np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5)
    number = chance.choice(odd)
    with np.errstate(all="ignore"):
        if how == "values":
            array = np.full_like(array, np.array(number).astype(array.dtype))
        elif how == "value" and array.size:
            array.reshape(-1)[chance.randrange(array.size)] = np.array(number).astype(array.dtype)
        elif how == "shape":
            array = chance.choice((array[..., None], array.reshape(-1)[:0], array.reshape(-1)[:1]))
        elif how == "type":
            array = array.astype(chance.choice((np.float64, np.int64, np.uint8, np.float16, bool)))
    tensors[name] = np.array(array, order="C")
    if how == "missing":
        del tensors[name]
    return f"{how} {number}" if how.startswith("value") else f"{how} {array.dtype} {array.shape}"
