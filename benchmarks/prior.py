# SPDX-License-Identifier: Apache-2.0
"""How well the share of successes is estimated, where it is known.

    python benchmarks/prior.py --out results/prior

V1 `digits`: real digits beside other estimators. V2 `mixtures`: buffers of success and failure
episodes. V3 `drift`: a share that rises, drops and rises again. V5 `gap`: demonstrations seen
under another light. `others`: vpu and acc on some of V2's mixtures. `--only` runs one of them.

Without `--data` an expert for the task is trained first, in `--work`; with it, episodes come from
a dataset with many failures:

    pureward collect walker --policy runs/walker --out data/prior --episodes 400 --held-out 0 \
        --failures 200
    python benchmarks/prior.py --only mixtures --task walker --device cuda --data data/prior
"""

import json
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

import prior_course
import prior_digits
import prior_episodes
from prior_pictures import picture
from prior_report import SUMMARIES
from pureward.files import whole_file, write_json

Section = Literal["digits", "mixtures", "drift", "gap", "others"]
TITLES = {
    "digits": "V1: shares of real digits",
    "mixtures": "V2: buffers of success and failure episodes",
    "drift": "V3: a share that moves",
    "gap": "V5: demonstrations that look different",
    "others": "Prior-free, and with known failures",
}


@dataclass(frozen=True, kw_only=True)
class Args:
    """What to run."""

    out: Path = Path("results/prior")
    """Folder for a JSON file, a picture and a part of notes.md for each section."""
    only: Section | None = None
    """One section; all of them by default."""
    task: str = "reach"
    """Whose episodes V2, V3 and V5 mix."""
    data: Path | None = None
    """Dataset of the task with at least 400 success and 200 failure episodes."""
    work: Path = Path("runs/prior")
    """Where an expert and its episodes are put if there is no dataset."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where discriminators learn; "cuda" takes the paper's network and whole frames."""
    digits: int = 5
    """Resamplings of V1."""
    resamplings: int = 3
    """Resamplings of the others."""
    updates: int = 0
    """Updates of a discriminator before it is asked last; 0 for what `reach` takes."""
    seed: int = 0
    """First seed; each resampling has the next."""
    threads: int = 1
    """CPU threads."""


def main(args: Args) -> None:
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", category=UserWarning)  # scikit-learn's, on pulearn's fits
    if args.updates:
        scale = prior_course.SCALES[args.device]
        prior_course.SCALES[args.device] = replace(scale, updates=args.updates)
    sections = [args.only] if args.only else list(TITLES)
    pool = None
    for section in sections:
        started = time.process_time()
        if section != "digits" and pool is None:
            episodes = prior_course.episodes_of(args.task, args.data, args.work, args.device)
            pool = prior_course.drawn(args.task, episodes, args.device)
        found = _measure(section, pool, args)
        _write(section, found, args, round(time.process_time() - started))
    _write_notes(args.out)


def _measure(section: str, pool: Any, args: Args) -> Any:
    if section == "digits":
        return prior_digits.validate(_seeds(args.digits, args))
    rules: dict[str, Callable] = {
        "mixtures": prior_episodes.mixtures,
        "drift": prior_episodes.drift,
        "gap": prior_episodes.gap,
        "others": prior_episodes.others,
    }
    return rules[section](pool, args.device, _seeds(args.resamplings, args))


def _seeds(count: int, args: Args) -> range:
    return range(args.seed, args.seed + count)


def _write(section: str, found: Any, args: Args, seconds: int) -> None:
    name = section if section == "digits" else f"{section}-{args.task}"
    summarise, table = SUMMARIES[section]
    summary = summarise(found)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    report = {
        "section": section,
        "command": _command(section, args),
        "cpu_seconds": seconds,
        "commit": commit,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": torch.cuda.get_device_name() if args.device == "cuda" else platform.machine(),
        "sizes": _sizes(section, args),
        "summary": summary,
        "found": found,
    }
    write_json(args.out / f"{name}.json", report)
    with whole_file(args.out / f"{name}.png") as partial:
        picture(section, found, partial)
    print(table(summary), f"\n{seconds} s of CPU time\n", flush=True)


def _command(section: str, args: Args) -> str:
    words = ["python benchmarks/prior.py", f"--only {section}"]
    if section != "digits":
        words += [f"--task {args.task}", f"--device {args.device}"]
        words += [f"--resamplings {args.resamplings}"]
    words += [f"--updates {args.updates}"] if args.updates else []
    words += [f"--seed {args.seed}"] if args.seed else []
    return " ".join(words)


def _sizes(section: str, args: Args) -> dict:
    if section == "digits":
        return {
            "folds": prior_digits.FOLDS,
            "epochs": prior_digits.EPOCHS,
            "resamplings": args.digits,
            "problems": {n: p._asdict() for n, p in prior_digits.PROBLEMS.items()},
        }
    scale = prior_course.SCALES[args.device]
    return {
        "frames_of_an_episode": prior_course.INSTANTS,
        "left_out_of_an_episode": prior_course.BEGINNING,
        "held_out_share": prior_course.HELD_OUT,
        "episodes_trained_on": prior_course.BUFFER,
        "episodes_scored": prior_course.BUFFER,
        "updates": scale.updates,
        "batch": scale.batch,
        "asked_every": scale.ask_every,
        "learning_rate": scale.learning_rate,
        "resamplings": args.resamplings,
    }


def _write_notes(out: Path) -> None:
    """One page of all tables that have been measured so far."""
    parts = ["# Estimates of the class prior where it is known\n"]
    for section, title in TITLES.items():
        for path in sorted(out.glob(f"{section}*.json")):
            report = json.loads(path.read_text())
            _, table = SUMMARIES[section]
            parts.append(
                f"## {title} ({path.stem})\n\n`{report['command']}`, commit {report['commit']}, "
                f"{report['cpu_seconds']} s of CPU time, {report['machine']}; sizes in "
                f"`{path.name}`, picture in `{path.stem}.png`.\n\n{table(report['summary'])}\n"
            )
    with whole_file(out / "notes.md") as partial:
        partial.write_text("\n".join(parts))


if __name__ == "__main__":
    main(tyro.cli(Args))
