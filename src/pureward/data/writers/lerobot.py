# SPDX-License-Identifier: Apache-2.0
"""Copies a LeRobot dataset of version 3 with other rewards; the source does not change."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pureward.data.guard import FETCH, check_disk, check_file, check_fits, guarding, read_json
from pureward.data.readers.lerobot_layout import (
    open_parquet,
    read_info,
    read_places,
    read_table,
    runs,
    to_array,
)
from pureward.errors import InputError
from pureward.files import whole_folder

REWARD = "next.reward"
_FEATURE = {"dtype": "float32", "shape": [1], "names": None}
_QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


def copy_lerobot(source: Path, out: Path, rewards: Callable[[int], NDArray]) -> None:
    """Write a copy of a dataset with the column next.reward replaced or added, atomically.

    info.json, stats.json and the statistics of episodes are updated. Videos are copied.

    Args:
        source: folder of the dataset.
        out: folder of the copy; it must not exist.
        rewards: returns the rewards of an episode, one for each of its rows.
    """
    with guarding(source / "meta/info.json"):
        info = read_info(source)
    data = {place.data for place in read_places(info, ())}
    listed = set((source / "meta/episodes").glob("chunk-*/file-*.parquet"))
    described = {source / "meta/info.json", source / "meta/stats.json"}
    files = list(_files(source))
    check_disk(out.parent, sum(file.stat().st_size for file in files), out)
    with whole_folder(out) as folder:
        for file in files:
            target = folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            with guarding(file):
                if file in data:
                    _write_rows(file, source, target, rewards)
                elif file in listed:
                    _write_episodes(file, source, target, rewards)
                elif file not in described:
                    shutil.copyfile(file, target)
        every = np.concatenate([rewards(number) for number in range(info.episodes)])
        _describe(source, folder, every)


def _files(root: Path) -> Iterator[Path]:
    """All files of a dataset except hidden ones; refuse links out of it, and to folders."""
    for folder, inside, names in os.walk(root):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for path in (Path(folder) / name for name in inside):
            if path.is_symlink():
                raise InputError(
                    f"a dataset to copy must hold its folders itself, and {path} is a link; "
                    "replace it with its target, or delete it"
                )
        for name in sorted(name for name in names if not name.startswith(".")):
            file = Path(folder) / name
            with guarding(file):
                check_file(file, root)
            yield file


def _write_rows(file: Path, root: Path, target: Path, rewards: Callable[[int], NDArray]) -> None:
    """Copy a file of rows, a row group at a time."""
    values = _per_row(to_array(read_table(file, root, ["episode_index"]), "episode_index"), rewards)
    with open_parquet(file, root, ["episode_index"]) as parquet:
        schema = _with_reward(parquet.schema_arrow)
        start = 0
        with pq.ParquetWriter(target, schema) as writer:
            for number in range(parquet.num_row_groups):
                check_fits(parquet.metadata.row_group(number).total_byte_size)
                group = parquet.read_row_group(number, use_threads=False)
                column = pa.array(values[start : start + len(group)])
                start += len(group)
                writer.write_table(_replaced(group, REWARD, column).cast(schema))


def _per_row(numbers: NDArray, rewards: Callable[[int], NDArray]) -> NDArray:
    """The reward of each row, by the number of its episode."""
    values = np.empty(len(numbers), np.float32)
    for number, span in runs(numbers):
        own = rewards(int(number))
        if len(own) != len(values[span]):
            raise InputError(
                f"episode {number} has {len(values[span])} rows in sequence, and {len(own)} "
                f"rewards; {FETCH}"
            )
        values[span] = own
    return values


def _replaced(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The table with a column replaced, or appended if there is none."""
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def _with_reward(schema: pa.Schema) -> pa.Schema:
    """The schema with a reward of float32, also in what Hugging Face's datasets read."""
    field = pa.field(REWARD, pa.float32())
    at = schema.get_field_index(REWARD)
    schema = schema.append(field) if at < 0 else schema.set(at, field)
    metadata = dict(schema.metadata or {})
    try:
        told = json.loads(metadata[b"huggingface"])
        told["info"]["features"][REWARD] = {"dtype": "float32", "_type": "Value"}
    except (LookupError, TypeError, ValueError):
        return schema
    return schema.with_metadata(metadata | {b"huggingface": json.dumps(told).encode()})


def _write_episodes(
    file: Path, root: Path, target: Path, rewards: Callable[[int], NDArray]
) -> None:
    """Copy a file of meta/episodes; statistics of the reward are those of the new one."""
    with open_parquet(file, root, ["episode_index"]) as parquet:
        names = parquet.schema_arrow.names
    table = read_table(file, root, names)
    if any(name.startswith("stats/") for name in names):
        rows = [
            _statistics(rewards(number)) for number in table.column("episode_index").to_pylist()
        ]
        for name in rows[0]:
            column = pa.array([row[name] for row in rows])
            table = _replaced(table, f"stats/{REWARD}/{name}", column)
    pq.write_table(table, target)


def _statistics(values: NDArray) -> dict[str, list[float] | list[int]]:
    wide = values.astype(np.float64)
    spread = {"min": wide.min(), "max": wide.max(), "mean": wide.mean(), "std": wide.std()}
    spread |= {name: np.quantile(wide, share) for name, share in _QUANTILES.items()}
    return {name: [float(value)] for name, value in spread.items()} | {"count": [len(values)]}


def _describe(source: Path, folder: Path, every: NDArray) -> None:
    """Write info.json and stats.json."""
    with guarding(source / "meta"):
        info: Any = read_json(source / "meta/info.json", source)
        info["features"][REWARD] = _FEATURE
        _write_json(folder / "meta/info.json", info)
        if (source / "meta/stats.json").exists():
            stats: Any = read_json(source / "meta/stats.json", source)
            if not isinstance(stats, dict):
                raise InputError(f"stats.json must hold an object; {FETCH}")
            _write_json(folder / "meta/stats.json", stats | {REWARD: _statistics(every)})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4) + "\n", encoding="utf-8")
