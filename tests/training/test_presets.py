"""Presets: no setting twice, the paper's tables, equal guidance for every method."""

from pathlib import Path

import pytest

from pureward.errors import InputError
from pureward.rewards.methods import METHODS
from pureward.runs.config_file import flat, read_config, to_json
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import snapshots
from pureward.training.presets import PRESETS, origins, preset, rows_of

EXPERTS = Path(__file__).parents[2] / "results/jaco/experts"
LEARNED = sorted(name for name, method in METHODS.items() if method.reward != "truth")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("task", "name"), [(t, n) for t, table in PRESETS.items() for n in table])
def test_no_setting_of_a_method_is_in_two_rows(task, name, method):
    rows = rows_of(task, name, method)
    settings = [setting for row in rows.values() for setting in row]
    assert len(settings) == len(set(settings))
    assert set(origins(task, name, method)) == set(settings)


@pytest.mark.parametrize(("task", "name"), [(t, n) for t, table in PRESETS.items() for n in table])
def test_every_row_is_for_some_method(task, name):
    used = {words for method in METHODS for words in rows_of(task, name, method)}
    assert used == set(PRESETS[task][name])


@pytest.mark.parametrize("method", [name for name, each in METHODS.items() if each.takes_prior])
@pytest.mark.parametrize("task", [*PRESETS, "gym:CartPole-v1"])
def test_every_preset_gives_a_prior_to_a_method_that_takes_one(task, method):
    for name in ("fast", "paper"):
        assert preset(task, name, method=method, **{METHODS[method].positives: "FOLDER"}).prior


@pytest.mark.parametrize(("task", "share"), [("lift", 0.25), ("stack", 0.5)])
@pytest.mark.parametrize("method", LEARNED)
def test_every_method_has_the_same_guided_share(task, share, method):
    needs = METHODS[method].positives
    learned = preset(task, method=method, **({needs: "FOLDER"} if needs else {}))
    assert learned.guided == share


@pytest.mark.parametrize("method", LEARNED)
def test_rewards_are_learned_on_stack_as_on_lift(method):
    """Only the script's share, the length, the exploration and η differ."""
    needs = METHODS[method].positives
    data = {needs: "FOLDER"} if needs else {}
    one, other = (flat(to_json(preset(task, method=method, **data))) for task in ("lift", "stack"))
    differ = {name for name in one if one[name] != other[name]}
    differ -= {"exploration.low", "exploration.high", "env_steps", "evaluate_every"}
    assert differ <= {"task", "guided", "prior"}


@pytest.mark.parametrize(("run", "policies"), [("lift", 1), ("lift-course", 16), ("stack", 9)])
def test_the_committed_experts_learned_with_the_preset(run, policies):
    """Only their length and their intervals differ."""
    used = read_config(RunDirectory(EXPERTS / run))
    now = preset(used.task)
    names = ("task", "worlds", "guided", "updates_per_step", "batch", "warmup_steps")
    names += ("replay", "agent", "exploration")
    for name in names:
        assert getattr(used, name) == getattr(now, name), name
    assert used.out == f"runs/{run}"  # not an absolute path
    assert len(snapshots(EXPERTS / run)) == policies


@pytest.mark.parametrize(
    ("task", "method", "slack", "prior"),
    [
        ("walker", "nn-pugail", 0.0, "0.25"),
        ("walker", "nn-purl", 0.0, "0.5"),
        ("lift", "nn-pugail", 0.0, "0.5"),
        ("lift", "nn-purl", 0.0, "0.5"),
        ("stack", "nn-pugail", 0.0, "0.7"),
        ("stack", "nn-purl", 0.7, "0.7"),
    ],
)
def test_the_paper_preset_has_table_2(task, method, slack, prior):
    needs = METHODS[method].positives
    assert needs is not None
    config = preset(task, "paper", method=method, **{needs: "FOLDER"})
    assert (config.reward.slack, config.prior) == (slack, prior)


@pytest.mark.parametrize("method", LEARNED)
@pytest.mark.parametrize(("task", "actors"), [("walker", 16), ("lift", 128), ("stack", 128)])
def test_the_paper_preset_has_tables_3_and_4(task, actors, method):
    """And nothing beyond Algorithm 1; other improvements are in `fast` only."""
    needs = METHODS[method].positives
    assert needs is not None
    config = preset(task, "paper", method=method, **{needs: "FOLDER"})
    agent, replay, reward = config.agent, config.replay, config.reward
    assert (agent.value_low, agent.value_high, agent.atoms) == pytest.approx((0.0, 100.0, 51))
    assert (agent.actor_rate, agent.critic_rate) == (1e-4, 1e-4)
    assert (agent.actor_layers, agent.critic_layers) == ((300, 200), (400, 300))
    assert (agent.norm_first, agent.normalise) == (False, False)
    assert (replay.n_step, replay.discount, replay.frame_stack) == (5, 0.99, 1)
    assert (config.batch, config.worlds, config.guided) == (256, actors, 0.0)
    network, strength = reward.network, reward.network.view
    assert (network.stage_channels, network.stage_blocks) == ((16, 32, 32), 2)
    assert (strength.flip, strength.crop, strength.shift) == (True, 0.8, 0.1)
    assert (strength.saturation, strength.contrast) == ((0.5, 2.0), (0.5, 2.0))
    assert (strength.hue, strength.noise, network.dropout) == (0.05, 16.0, 0.5)
    assert (reward.learning_rate, reward.model.learning_rate) == (1e-5, 1e-4)
    assert (reward.even, reward.memory) == (False, 0)
    model = reward.model
    assert (model.epochs, model.batch_size, model.held_out, model.decay) == (20, 256, 0.1, False)
    assert (reward.batch, reward.ceiling) == (256, 1.0)
    assert reward.loss == "logistic"
    assert reward.labels == "fresh"


@pytest.mark.parametrize("task", ["walker", "lift", "stack", "reach"])
def test_the_paper_preset_updates_d_as_often_as_the_policy(task):
    """Algorithm 1."""
    config = preset(task, "paper", method="nn-pugail", demonstrations="FOLDER")
    assert config.reward.updates == config.updates_per_step


def test_data_without_a_method_means_the_non_negative_one():
    for data, method in {"demonstrations": "nn-pugail", "annotations": "nn-purl"}.items():
        for task in ("reach", "point_env:PointEnv"):
            chosen = preset(task, frames="render", **{data: "FOLDER"})
            assert chosen == preset(task, frames="render", method=method, **{data: "FOLDER"})
    assert preset("reach").method == "truth"
    with pytest.raises(InputError, match="'truth' takes no demonstrations"):
        preset("reach", demonstrations="demos", annotations="rated")
    with pytest.raises(InputError, match="truth has no discriminator, so known failures would"):
        preset("reach", method="truth", failures="x")


def test_the_error_for_a_misspelt_setting_names_the_nearest():
    with pytest.raises(InputError, match="unknown setting 'demonstration' .* try demonstrations"):
        preset("reach", demonstration="data")


def test_settings_are_changed_by_their_name_on_the_command_line():
    config = preset("reach", **{"reward.network.dropout": 0.25, "reward.batch": 8})
    assert (config.reward.network.dropout, config.reward.batch) == (0.25, 8)
    with pytest.raises(InputError, match=r"'reward\.bacth' of a run; try reward\.batch"):
        preset("reach", **{"reward.bacth": 8})
    with pytest.raises(InputError, match=r"unknown setting 'seed\.more'"):
        preset("reach", **{"seed.more": 8})
