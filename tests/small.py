"""A figure and a study that take seconds, for tests of plans and `reproduce`."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pureward.data.replay.replay import ReplayConfig
from pureward.distributed.training import Training
from pureward.paper.figures import Claim, Figure, Variant
from pureward.paper.plan import STUDIES, Plan, Study, make_plan
from pureward.paper.rules import ahead
from pureward.runs.config_file import to_json
from synthetic import course, write_card
from tiny import SMALL, SMALL_REWARD

SHORT = {
    "worlds": 4,
    "warmup_steps": 40,
    "batch": 16,
    "log_every": 40,
    "evaluate_episodes": 1,
    "checkpoint_every": 48,
    "snapshot_every": 40,
}


EXPERT = {
    **SHORT,
    "env_steps": 80,
    "evaluate_every": 0,
    "agent": SMALL,
    "replay": ReplayConfig(capacity=400),
}
LEARNED = {
    **SHORT,
    "env_steps": 96,
    "evaluate_every": 0,
    "probe_every": 48,
    "probe_frames": 4,
    "agent": replace(SMALL, value_high=300.0),
    "replay": ReplayConfig(capacity=400),
    "reward": SMALL_REWARD,
}
STUDY = Study(expert=EXPERT, learned=LEARNED, episodes=2, held_out=1, failures=1)

SMALL_FIGURE = Figure(
    name="small",
    shows="two methods on a small task",
    tasks=("reach",),
    variants=(Variant(method="gail"), Variant(method="nn-pugail", settings={"prior": "0.3"})),
    picture="curves",
    claims=(Claim("The second is above the first.", ahead("nn-pugail, η 0.3", "gail")),),
)


def small_plan(out: Path, study: Study = STUDY, figure: Figure = SMALL_FIGURE, **rest) -> Plan:
    with patch.dict(STUDIES, {"reach": study}):
        return make_plan(figure, out=out, **{"seeds": 1, "device": "cpu"} | rest)


def written_plan(out: Path, figure: Figure = SMALL_FIGURE, **rest) -> Plan:
    """A plan with finished steps: datasets of a card alone, runs of config, metrics and status."""
    for name in ("demonstrations", "annotations"):
        if not (out / "reach" / name).exists():
            write_card(out / "reach" / name, train=90.0, failure=10.0)
    plan = small_plan(out, figure=figure, tasks=("reach",), **rest)
    for step in plan.steps:
        if isinstance(step, Training) and not step.out.exists():
            write_finished(step)
    return plan


def write_finished(step: Training) -> None:
    step.out.mkdir(parents=True)
    rows = course(50.0 + 10 * step.config.seed, steps=step.config.env_steps)
    (step.out / "config.json").write_text(json.dumps(to_json(step.config)))
    (step.out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_status(step, state="finished", env_steps=step.config.env_steps)


def write_status(step: Training, **status) -> None:
    (step.out / "status.json").write_text(json.dumps(status))
