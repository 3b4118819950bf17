"""The paper's preset with the paper's actors: 16 for the walker, 128 for the arm."""

import tomllib
from dataclasses import replace

import pytest

import pureward
from pureward.cli import main
from pureward.distributed.actors import Actors, worker
from pureward.distributed.actors.hosts import HOSTS
from pureward.envs import ENVIRONMENTS
from pureward.runs.config_file import flat, to_json
from pureward.runs.directory import RunDirectory
from pureward.runs.log import read_metrics
from ticks import Inline, Ticks
from tiny import SMALL

ACTORS = [("walker", 16), ("lift", 128), ("stack", 128)]


@pytest.mark.parametrize(("task", "actors"), ACTORS)
def test_the_printed_settings_are_a_world_an_actor_and_an_update_to_eight_steps(
    task, actors, capsys
):
    main(["config", task, "--method", "nn-pugail", "--preset", "paper"])
    printed = tomllib.loads(capsys.readouterr().out)
    assert printed["worlds"] == actors
    assert printed["updates_per_step"] * 8 == actors
    assert printed["reward"]["updates"] == printed["updates_per_step"]
    assert (printed["batch"], printed["replay"]["capacity"]) == (256, 1_000_000)
    chosen = {"method": "nn-pugail", "demonstrations": "data"}
    alone, beside = (
        flat(to_json(pureward.preset(task, "paper", **chosen, actors=number)))
        for number in (0, actors)
    )
    assert beside == alone | {"actors": actors}, "actors change nothing else"


@pytest.mark.parametrize(("task", "actors"), ACTORS[:2])
def test_steps_and_updates_add_up_exactly(task, actors, tmp_path, monkeypatch):
    monkeypatch.setitem(HOSTS, "inline", Inline)
    monkeypatch.setitem(ENVIRONMENTS, "ticks", Ticks)
    monkeypatch.setattr(worker, "REPLY_STEPS", 12)  # of the 30 that are taken of each world
    ends = []

    def close(self) -> None:
        ends.append((dict(self.counts), self.left(), len(self._actors)))

    monkeypatch.setattr(Actors, "close", close)
    paper = pureward.preset(task, "paper", actors=actors, device="cpu", out=str(tmp_path / "run"))
    run = replace(
        paper,
        task="ticks",
        executor="inline",
        agent=SMALL,
        env_steps=30 * actors,
        warmup_steps=10 * actors,
        log_every=10 * actors,
        evaluate_episodes=1,
        save_replay=False,
    )
    assert pureward.train(run).env_steps == 30 * actors
    counts, left, started = ends[0]
    assert started == actors
    assert counts["taken"] == 30 * actors
    assert counts["received"] == counts["taken"] + sum(left.values())
    assert counts["dropped_steps"] == counts["restarts"] == 0
    rows = read_metrics(RunDirectory(tmp_path / "run").metrics, "train")
    # An update to eight steps, from the control step that fills the warm-up on.
    updates = [(row["step"] - 9 * actors) // 8 for row in rows]
    assert [row["updates"] for row in rows] == updates == [actors // 8, 11 * actors // 8,
                                                           21 * actors // 8]  # fmt: skip
