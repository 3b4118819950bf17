# SPDX-License-Identifier: Apache-2.0
"""One thing at a time: runs that differ from the paper's plain method in one setting.

    python benchmarks/ablation.py walker --at-once 10 --budget 1200 --out runs/ablation

A row of `ROWS` names a method and the settings that it changes. Every row runs with the same seeds
for the same number of env steps; no figure uses the seeds 200 to 209. Runs that are finished are
not run again, so a stopped ablation continues where it was. The table goes to OUT/TASK.json.
"""

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from pureward.distributed.jobs import Job, Outcome, Watcher, run_jobs
from pureward.distributed.processes import LocalProcesses
from pureward.distributed.training import Training
from pureward.files import write_json
from pureward.rewards.methods import METHODS
from pureward.runs.config_file import with_settings
from pureward.runs.log import read_metrics
from pureward.training.presets import preset

SEED = 200
VIEW = "reward.network.view."
CENTRE = {VIEW + "crop": 0.8, VIEW + "shift": 0.1}
SHIFTS = {VIEW + "crop": 1.0, VIEW + "shift": 0.1}
FLIP = {VIEW + "flip": True}
PLAIN_COLOURS = {
    VIEW + "brightness": 0.0,
    VIEW + "contrast": [1.0, 1.0],
    VIEW + "saturation": [1.0, 1.0],
    VIEW + "hue": 0.0,
    VIEW + "noise": 0.0,
}
MEMORY = {"reward.memory": 100_000}
# The paper's method: Table 2's η, the plain risk, no memory.
PLAIN = {"reward.even": False, "reward.memory": 0}
#: D's rate and updates, the same for every method of a task.
PACE = {
    "walker": {"reward.learning_rate": 3e-5, "reward.updates": 1},
    "lift": {"reward.learning_rate": 1e-5, "reward.updates": 4},
    "reach": {},
}
LOW = {"prior": "bbe:0.002:0.8"}
EVEN = {"reward.even": True}
NOISELESS = {VIEW + "noise": 0.0}
SLOW = {"reward.learning_rate": 1e-5}
# A walker's reward in the replay is computed again every 37,000 env steps instead of 300,000.
FRESHER = {"reward.refreshed": 8192}
# An estimated η is at most Table 2's.
CAPPED = {"walker": {"prior": "bbe:0.002:0.25"}, "lift": {"prior": "bbe:0.002:0.5"}}
TENTH = {"prior": "bbe:0.002:0.1"}
# r_φ is fitted as on the arm: a larger rate that decays, for longer.
FITTED = {
    "reward.model.learning_rate": 1e-3,
    "reward.model.decay": True,
    "reward.model.batch_size": 128,
    "reward.model.epochs": 30,
}
# −log(1 − D) is at most 3, so D counts up to 0.95 instead of 0.63.
CEILING = {"reward.ceiling": 3.0, "agent.value_high": 300.0}
HIGHER = {
    "walker": CEILING | {"agent.atoms": 101},
    "lift": CEILING | {"agent.value_low": -300.0, "agent.atoms": 201},
}
TABLE_2 = {
    ("walker", "imitation"): "0.25",
    ("walker", "gated"): "0.5",
    ("lift", "imitation"): "0.5",
    ("lift", "gated"): "0.5",
    ("reach", "imitation"): "0.5",
    ("reach", "gated"): "0.5",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method and what it changes of the plain one."""

    method: str
    changes: dict[str, Any] = field(default_factory=dict)
    seeds: int = 3


def both(method: str, **named: dict[str, Any]) -> dict[str, Row]:
    """A row a name, each with full-scale shifts."""
    return {
        f"{method}-{name}".replace("_", "-"): Row(method=method, changes=SHIFTS | changes)
        for name, changes in named.items()
    }


def changed(method: str, base: dict[str, Any], task: str) -> dict[str, Row]:
    """Rows that differ from the preset `base`."""
    higher = HIGHER[task]
    return both(
        method,
        noiseless=base | NOISELESS,
        slow=base | SLOW,
        noiseless_slow=base | NOISELESS | SLOW,
        ceiling=base | higher,
        noiseless_ceiling=base | NOISELESS | higher,
        fresher=base | FRESHER,
        fresher_ceiling=base | FRESHER | higher,
    )


def capped(task: str) -> dict[str, Row]:
    """Rows of nn-pugail with a capped η̂."""
    base = LOW | EVEN | MEMORY | CAPPED[task]
    return both(
        "nn-pugail",
        capped=base,
        capped_fresher=base | FRESHER,
        tenth_fresher=base | TENTH | FRESHER,
        capped_fresher_ceiling=base | FRESHER | HIGHER[task],
    )


def gated(method: str) -> dict[str, Row]:
    """Rows of a gated reward with fresh rewards and another η."""
    base = MEMORY | FRESHER
    return both(
        method,
        quarter_fresher=base | {"prior": "0.25"},
        estimated_fresher=base | LOW | EVEN,
        fitted_fresher=base | FITTED,
    )


IMITATION = {
    "nn-pugail-shift": Row(method="nn-pugail", changes=SHIFTS),
    "nn-pugail-centre": Row(method="nn-pugail", changes=CENTRE),
    **both("nn-pugail", low=LOW, even=EVEN, low_even=LOW | EVEN, low_memory=LOW | MEMORY),
    **both("nn-pugail", low_even_memory=LOW | EVEN | MEMORY),
    **both("nn-pugail", low_even_memory_colourless=LOW | EVEN | MEMORY | PLAIN_COLOURS),
    **both("gail", shift={}, memory=MEMORY),
}
SUPERVISED = {
    **both("nn-purl", shift={}, memory=MEMORY),
    **both("pnrl", shift={}, memory=MEMORY),
    "prl-shift": Row(method="prl", changes=SHIFTS, seeds=5),
    "prl-shift-flip": Row(method="prl", changes=SHIFTS | FLIP, seeds=5),
}
ROWS: dict[str, dict[str, Row]] = {
    task: IMITATION
    | SUPERVISED
    | changed("nn-pugail", LOW | EVEN | MEMORY, task)
    | capped(task)
    | changed("gail", MEMORY, task)
    | changed("nn-purl", MEMORY, task)
    | gated("nn-purl")
    | both("pnrl", fresher=MEMORY | FRESHER)
    for task in ("walker", "lift")
} | {"reach": IMITATION | SUPERVISED}


@dataclass(frozen=True, kw_only=True)
class Args:
    """What is run, and for how long."""

    task: Annotated[str, tyro.conf.Positional] = "walker"
    rows: tuple[str, ...] = ()
    """Names of rows; () runs all."""
    env_steps: int = 0
    """Of every run; 0 takes the preset's."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 takes the preset's."""
    at_once: int = 8
    """Runs beside each other."""
    budget: float = 0.0
    """Seconds after which runs stop with a checkpoint; 0 sets no limit."""
    data: Path = Path("datasets")
    """Folder of TASK/demonstrations and TASK/annotations."""
    seeds: int = 0
    """Seeds of every row; 0 takes the row's own number."""
    first_seed: int = SEED
    """The first seed; a decision is confirmed on seeds that no search used."""
    out: Path = Path("runs/ablation")
    """Folder for the runs and the table."""
    device: str = "auto"


@dataclass
class Clock(Watcher):
    """Stops runs in time and prints how each ended."""

    ends: float

    def on_start(self, job: Job) -> Job | None:
        """The job with the time that is left, or None if there is none."""
        left = self.ends - time.monotonic()
        assert isinstance(job, Training)
        if left == float("inf"):
            return job
        return job.within(left) if left > 20 else None

    def on_out_of_memory(self, job: Job, at_once: int) -> None:
        """Print that a job waits for memory."""
        print(f"{job.out} waits for memory; {at_once} runs in parallel from now on")

    def on_end(self, outcome: Outcome) -> None:
        """Print how a job ended."""
        print(f"{outcome.job.out}: {outcome.state} {outcome.message[:200]}", flush=True)


def training(args: Args, name: str, row: Row, seed: int) -> Training:
    """The run of a row on a seed."""
    method = METHODS[row.method]
    assert method.positives is not None
    data = {method.positives: str(args.data / args.task / method.positives)}
    prior = TABLE_2.get((args.task, method.reward), "")
    if method.prior is None and prior:
        data["prior"] = prior
    out = args.out / args.task / name / f"seed-{seed}"
    config = preset(
        args.task, method=row.method, seed=seed, out=str(out), device=args.device, **data
    )
    config = with_settings(config, PLAIN | PACE[args.task] | row.changes)
    steps = args.env_steps or config.env_steps
    every = args.evaluate_every or config.evaluate_every
    return Training(config=replace(config, env_steps=steps, evaluate_every=every))


def report(job: Training, name: str) -> dict[str, Any]:
    """The curve of a run and its late numbers."""
    path = job.out / "metrics.jsonl"
    rows = read_metrics(path) if path.exists() else []
    evals = [row for row in rows if row["kind"] == "eval"]
    probes = [row for row in rows if row["kind"] == "probe"]
    trains = [row for row in rows if row["kind"] == "train"]
    late = evals[-(-3 * len(evals) // 4) :] if evals else []
    return {
        "row": name,
        "method": job.config.method,
        "seed": job.config.seed,
        "finished": job.finished(),
        "steps": [row["step"] for row in evals],
        "returns": [round(row["return"], 1) for row in evals],
        "successes": [round(row.get("success", 0.0), 3) for row in evals],
        "seconds": [round(row["seconds"], 1) for row in evals],
        "late": round(sum(row["return"] for row in late) / len(late), 1) if late else None,
        "probes": [{k: round(v, 4) for k, v in row.items() if k != "kind"} for row in probes[::5]],
        "train_steps": [row["step"] for row in trains],
        "train_returns": [round(row.get("return", 0.0), 1) for row in trains],
        "reward": [round(row.get("reward/mean", 0.0), 4) for row in trains[::5]],
        "prior": [round(row.get("prior", 0.0), 4) for row in trains[::5]],
        "fit": [row for row in rows if row["kind"] == "fit"][-1:],
        "reward_error": [round(row["reward_error"], 1) for row in evals if "reward_error" in row],
    }


def show(told: list[dict[str, Any]]) -> None:
    """A line a run: its returns, and D as trained and as scored at the end."""
    for run in told:
        if not run["steps"]:
            continue
        last = run["probes"][-1] if run["probes"] else {}
        seen = " ".join(
            f"{key.replace('/', '.')} {last[key]:.2f}"
            for key in ("mean/as_trained", "mean/train", "mean/held_out", "mean/replay",
                        "mean/failure", "predicted/as_trained", "predicted/train")
            if key in last
        )  # fmt: skip
        curve = " ".join(f"{value:.0f}" for value in run["returns"])
        print(f"{run['row']:26} {run['seed']} late {run['late'] or 0:6} | {curve} | {seen}")


def main(args: Args) -> None:
    """Run what is left of the rows, write the table, print it."""
    rows = ROWS[args.task]
    chosen = {name: rows[name] for name in (args.rows or rows)}
    most = max(args.seeds or row.seeds for row in chosen.values())
    jobs = {
        (name, args.first_seed + index): training(args, name, row, args.first_seed + index)
        for index in range(most)
        for name, row in chosen.items()
        if index < (args.seeds or row.seeds)
    }
    ends = time.monotonic() + (args.budget or float("inf"))
    executor = LocalProcesses(places=(None,) * args.at_once, threads=1)
    run_jobs(list(jobs.values()), executor, Clock(ends))
    told = [report(job, name) for (name, _), job in jobs.items()]
    show(told)
    path = args.out / f"{args.task}.json"
    before = json.loads(path.read_text())["runs"] if path.exists() else []
    ours = {(run["row"], run["seed"]) for run in told}
    told += [run for run in before if (run["row"], run["seed"]) not in ours]
    settings = {name: {"method": row.method, **row.changes} for name, row in rows.items()}
    write_json(path, {"plain": PLAIN, "rows": settings, "runs": told})


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
