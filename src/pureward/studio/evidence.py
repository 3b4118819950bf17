# SPDX-License-Identifier: Apache-2.0
"""Runs that the page shows: their curves, verdicts, and episodes where reward and truth differ."""

from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from threading import Lock, Thread
from typing import Any

import numpy as np
import torch

from pureward.data.dataset import read_dataset
from pureward.data.episodes import FAILURE, TRAIN, Episode
from pureward.data.writing import write_episodes
from pureward.diagnostics.evidence import ScoredEpisode, by_difference, score_episode, score_policy
from pureward.diagnostics.history import History, read_history, trained_for, true_eta
from pureward.diagnostics.lines import Line, lines, mean_band
from pureward.diagnostics.probe import SOURCES
from pureward.errors import InputError, SimulationError, in_brief
from pureward.files import delete_whole, whole_folder
from pureward.offline.verdict import LOGS
from pureward.rewards.methods import METHODS
from pureward.rewards.priors.estimated import FEWEST_EPISODES
from pureward.rewards.saved import load_reward
from pureward.runs.config_file import OFFLINE
from pureward.runs.directory import RunDirectory
from pureward.scoring.pipeline import stack_of
from pureward.studio.source import short_names
from pureward.studio.strips import Strips, to_png

_EPISODES = 8  # greedy episodes of a search
_POINTS = 400  # of a curve on the screen
#: Mark → the dataset of episodes that have it, in the run's directory, and their split.
MARKS = {"failure": ("failures", FAILURE), "success": ("successes", TRAIN)}
# Colours of style.css for the sources of frames, about those of plots.
_INKS = dict(zip(SOURCES, ("accent", "other", "bad", "warm", "good"), strict=True))
# Title → label, colour, kind and name of each metric.
_CHARTS = {
    "Return": [("true", "ink", "eval", "return"), ("learned", "warm", "eval", "learned_return")],
    "Class prior η": [
        ("used", "accent", "train", "prior"),
        ("estimated", "warm", "train", "prior/value"),
    ],
    "P(success)": [
        (label, _INKS[name], "probe", f"success/{name}") for name, label in SOURCES.items()
    ],
    "Mean D of trained frames": [
        ("as trained", "accent", "probe", "mean/as_trained"),
        ("as scored", "warm", "probe", "mean/train"),
    ],
    "Mean r_φ of trained frames": [
        ("as trained", "accent", "probe", "predicted/as_trained"),
        ("as scored", "warm", "probe", "predicted/train"),
    ],
}


class Runs:
    """Run directories, finished or in training."""

    def __init__(self, paths: list[Path]) -> None:
        """Read each run once, so that a bad one is refused at the start."""
        self._known: dict[Path, tuple[Any, History | None]] = {}
        self._seen: list[History] = []
        self._lines: list[dict[str, Any]] = []
        self.searches = [Search(path) for path in paths]
        self._paths, self._names = paths, short_names(paths)
        self.describe()  # the first page need not wait for it

    def histories(self) -> list[History]:
        """Return the runs as they are now; those that did not change are not read again.

        Those that were deleted or damaged since the start are left out.
        """
        for path in self._paths:
            before, history = self._known.get(path, (None, None))
            try:
                stamp = _stamp(path)
                if history is None or before != stamp:
                    self._known[path] = (stamp, read_history(path))
            except (InputError, OSError):
                if path not in self._known:
                    raise
                self._known[path] = (None, None)
        found = [self._known[path][1] for path in self._paths]
        return [history for history in found if history is not None]

    def describe(self) -> list[dict[str, Any]]:
        """Return each line of runs that differ only in their seed: curves and verdicts."""
        histories = self.histories()
        if [id(one) for one in histories] != [id(one) for one in self._seen]:
            self._lines = [
                {
                    "label": f"{line.task}, {line.label}",
                    "unit": _unit(line),
                    "charts": _charts(line),
                    "runs": [self._run(run) for run in line.runs],
                }
                for line in lines(histories)
            ]
            self._seen = histories
        for line in self._lines:
            for run in line["runs"]:
                run |= _told(self._paths[run["number"]])
        return self._lines

    def _run(self, history: History) -> dict[str, Any]:
        number = self._paths.index(history.path)
        steps, seconds = trained_for(history)
        verdict = history.verdict()
        return {
            "number": number,
            "name": self._names[number],
            "steps": steps,
            "seconds": seconds,
            "verdict": verdict.name,
            "sentence": verdict.sentence,
        }


class Search:
    """Greedy episodes of a run's policy, scored by its reward, and people's marks on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._state, self._error = "none", ""
        self._scored: list[ScoredEpisode] = []
        self._before: dict[str, list] = {}
        self._marks: dict[int, str] = {}
        self._task = ""  # known once there are episodes to mark

    def start(self) -> None:
        """Begin to act and score, in a thread; a search that is under way goes on."""
        with self._lock:
            if self._state == "working":
                return
            self._state, self._error = "working", ""
        Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        try:
            scored = self._search()
            with self._lock:  # a mark that is set meanwhile would be lost
                self._marks, self._before = self._marked(scored)
                self._scored, self._state = scored, "done"
        except Exception as error:  # else the page would wait forever
            known = isinstance(error, InputError | SimulationError | OSError)
            text = str(error) if known else f"{type(error).__name__}: {in_brief(error)}"
            self._state, self._error = "failed", text

    def _search(self) -> list[ScoredEpisode]:
        history = read_history(self.path)
        self._task = history.task
        return score_policy(history, _EPISODES, "cpu")[0]

    def _marked(self, scored: list[ScoredEpisode]) -> tuple[dict[int, str], dict[str, list]]:
        """The marks of these episodes from earlier searches, and other episodes marked then."""
        marks: dict[int, str] = {}
        before: dict[str, list] = {kind: [] for kind in MARKS}
        for kind in MARKS:
            folder = self._folder(kind)
            for episode in read_dataset(folder) if folder.exists() else []:
                same = [n for n, one in enumerate(scored) if _same(one.episode, episode)]
                marks |= dict.fromkeys(same, kind)
                if not same:
                    before[kind].append(episode)
        return marks, before

    def describe(self) -> dict[str, Any]:
        """Return the state of the search, and the episodes, those first that promise too much."""
        with self._lock:
            order = by_difference(self._scored) if self._scored else []
            rows = [
                {"number": n, "mark": self._marks.get(n, ""), **self._scored[n].returns()}
                for n in order
            ]
            return {
                "state": self._state,
                "error": self._error,
                "episodes": rows,
                "marked": self._uses(),
            }

    def episode(self, number: int) -> dict[str, Any]:
        """Return the tracks of an episode, each (T,), and the sizes of its frames."""
        scored, frames = self._get(number)
        return {
            "steps": len(scored.episode),
            **asdict(Strips.of(len(frames), frames.shape[1:])),
            "tracks": {"true r": scored.episode.rewards.tolist(), **_tracks(scored)},
        }

    def compare(self, number: int, other: Path) -> dict[str, list[float]]:
        """Return the tracks of an episode by the reward of another run."""
        scored, frames = self._get(number)
        reward = load_reward(other, device="cpu")
        stack = stack_of(reward, tuple(frames.shape[1:]), self.path)
        return _tracks(score_episode(scored.episode, reward, stack))

    def strip(self, number: int, index: int) -> bytes:
        """Return the frames of a strip as a PNG."""
        frames = self._get(number)[1]
        rows = Strips.of(len(frames), frames.shape[1:]).rows(index)
        return to_png(frames[rows.start : rows.stop])

    def mark(self, number: int, mark: str) -> dict[str, str]:
        """Mark an episode "success", "failure" or ""; return how to train on those marked.

        An episode that is marked is copied to RUN/marked/failures or RUN/marked/successes.
        """
        if mark not in ("", *MARKS):
            raise InputError(f"a mark must be success, failure or empty, got {mark[:40]!r}")
        self._get(number)
        with self._lock:
            marks = {n: own for n, own in (self._marks | {number: mark}).items() if own}
            for kind in sorted({self._marks.get(number, ""), mark} - {""}):
                self._write(kind, marks)
            self._marks = marks  # not if writing failed
            return self._uses()

    def _uses(self) -> dict[str, str]:
        """How many episodes have each mark, and how to train on them; nothing without any."""
        told = {}
        for kind, (name, _) in MARKS.items():
            count = list(self._marks.values()).count(kind) + len(self._before.get(kind, ()))
            if not count:
                continue
            number = f"1 {kind} is" if count == 1 else f"{count} {name} are"
            folder = quote(str(self._folder(kind)))
            if kind == "success":
                use = (
                    f"To train: pureward train {quote(self._task)} "
                    f"--demonstrations {folder} --prior 0.5. η must be given: an estimate needs "
                    f"{FEWEST_EPISODES} held-out episodes, and marked ones are not held out."
                )
            else:
                use = f"To train on failures too, add: --failures {folder} --reward.risk nnpnu"
            told[kind] = f"{number} marked; one is enough. {use}"
        return told

    def _write(self, kind: str, marks: dict[int, str]) -> None:
        """Write the episodes of a mark: those of earlier searches, and this one's."""
        (name, split), folder = MARKS[kind], self._folder(kind)
        chosen = [self._scored[n].episode for n, mark in marks.items() if mark == kind]
        episodes = self._before[kind] + [replace(each, split=split) for each in chosen]
        if not episodes:
            if folder.exists():
                delete_whole(folder)
            return
        with whole_folder(folder, again=True) as partial:
            write_episodes(partial, episodes, task=self._task, name=name)

    def _folder(self, kind: str) -> Path:
        """The dataset of a mark."""
        folder = self.path / "marked" / MARKS[kind][0]
        if folder.parent.is_symlink() or folder.is_symlink():
            raise InputError(f"{folder} must be a folder, and is a link; replace or delete it")
        return folder

    def _get(self, number: int) -> tuple[ScoredEpisode, Any]:
        if not 0 <= number < len(self._scored):
            raise InputError(f"there is no episode {number}; search for episodes first")
        scored = self._scored[number]
        return scored, scored.episode.frames


def _same(one: Episode, other: Episode) -> bool:
    frames, others = one.frames, other.frames
    if frames is None or others is None or frames.shape != others.shape:
        return False
    return torch.equal(frames[:], others[:])


def _tracks(scored: ScoredEpisode) -> dict[str, list[float]]:
    """What a reward says of every step."""
    tracks = {"paid": scored.learned, "r_φ": scored.predicted, "D": scored.success}
    return {name: values.tolist() for name, values in tracks.items() if values is not None}


def _stamp(path: Path) -> tuple[int, int] | bool:
    """What changes when a run does."""
    metrics = RunDirectory(path).metrics
    seen = metrics.stat() if metrics.is_file() else None
    return path.is_dir() if seen is None else (seen.st_size, seen.st_mtime_ns)


def _told(path: Path) -> dict[str, str]:
    """The state of a run; and the verdict of a fit, whose words differ from those of runs."""
    directory = RunDirectory(path)
    status = directory.read_status()
    state = str(status.get("state", ""))
    told = {name: str(status[name]) for name in ("verdict", "sentence") if name in status}
    shown = "training now" if directory.in_use() else state.replace("running", "killed")
    return told | {"state": shown}


def _charts(line: Line) -> list[dict[str, Any]]:
    charts = []
    names = {SOURCES["replay"]: LOGS} if line.task == OFFLINE else {}
    for title, metrics in _CHARTS.items():
        if title == "Class prior η" and not METHODS[line.method].takes_prior:
            continue
        series = [
            _curve(names.get(label, label), ink, line.series(kind, name))
            for label, ink, kind, name in metrics
        ]
        if title == "Class prior η":
            known = [one for run in line.runs if len(one := true_eta(run))]
            series.append(_curve("by the simulator", "ink", known))
        shown = [one for one in series if one is not None]
        if shown:
            charts.append({"title": title, "unit": _unit(line), "series": shown})
    return charts


def _unit(line: Line) -> str:
    """What the steps of a line count: a fit has no environment."""
    return "updates" if line.task == OFFLINE else "env steps"


def _curve(label: str, ink: str, series: list[np.ndarray]) -> dict[str, Any] | None:
    """The mean over runs and half of its 95% interval, with few enough points for a screen."""
    if not series:
        return None
    at, mean, half = mean_band(series)
    if not len(at):
        return None
    kept = thinned(mean, _POINTS)
    rows = {"x": at[kept], "y": mean[kept]} | ({} if half is None else {"half": half[kept]})
    return {"label": label, "ink": ink} | {
        name: np.round(v, 5).tolist() for name, v in rows.items()
    }


def thinned(values: np.ndarray, most: int) -> np.ndarray:
    """Return the indices of at most so many values, with the extremes of every part kept."""
    if len(values) <= most:
        return np.arange(len(values))
    parts = np.array_split(np.arange(len(values)), most // 2)
    ends = [(part[np.argmin(values[part])], part[np.argmax(values[part])]) for part in parts]
    return np.unique(np.array(ends).reshape(-1))
