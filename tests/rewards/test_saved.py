# SPDX-License-Identifier: Apache-2.0
"""Loaded rewards equal saved ones; all other files are rejected."""

import io
import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pureward.errors import InputError
from pureward.rewards.config import RewardConfig
from pureward.rewards.discriminator import Discriminator
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, ResidualCNN, seeded_network
from pureward.rewards.regression import RewardModel
from pureward.rewards.saved import load_reward, save_reward
from pureward.rewards.view import View

CPU = torch.device("cpu")


def a_reward(network: NetworkConfig, kind: str, **changes) -> LearnedReward:
    members = 0 if kind == "imitation" else 2
    spec = RewardSpec(reward=kind, network=network, members=members, **changes)  # type: ignore
    made = [seeded_network(network, seed, CPU) for seed in range(3)]
    return LearnedReward(
        spec,
        discriminator=made[0] if spec.has_discriminator else None,
        members=made[1 : 1 + members],
    )


@pytest.fixture
def saved(tmp_path, small_network) -> Path:
    save_reward(a_reward(small_network, "imitation"), tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["imitation", "regression", "gated"])
def test_a_loaded_reward_equals_the_saved_one(kind, tmp_path, small_network, scenes):
    reward = a_reward(small_network, kind, ceiling=2.0, lowest=-0.5)
    save_reward(reward, tmp_path / "reward")
    loaded = load_reward(tmp_path, batch_size=3)  # a run directory; batches inside
    frames = scenes(8, 0)[0]
    values = loaded(frames)
    assert values.shape == (8,)
    assert values.dtype == torch.float32
    assert not values.requires_grad
    torch.testing.assert_close(values, reward(frames), atol=1e-6, rtol=0)
    assert loaded.spec == reward.spec
    assert loaded(frames[:0]).shape == (0,)
    last = frames.permute(0, 2, 3, 1)
    assert torch.equal(loaded(last), values)
    assert torch.equal(loaded(last.numpy()), values)
    with pytest.raises(InputError, match="must have shape"):
        loaded(last[:, :-1])
    assert sorted(p.name for p in (tmp_path / "reward").iterdir()) == [
        "reward.json",
        "reward.safetensors",
    ]


def test_parts_of_a_gated_reward(small_network, scenes):
    reward = a_reward(small_network, "gated")
    frames = scenes(6, 0)[0]
    trusted = reward.success_logits(frames) > 0
    expected = torch.where(trusted, reward.predicted(frames).clamp(min=0), 0.0)
    torch.testing.assert_close(reward(frames), expected)
    with pytest.raises(InputError, match="no reward model"):
        a_reward(small_network, "imitation").predicted(frames)
    with pytest.raises(InputError, match="no discriminator"):
        a_reward(small_network, "regression").success_logits(frames)


def test_a_reward_uses_the_current_weights(small_network, scenes):
    reward = a_reward(small_network, "imitation")
    frames = scenes(2, 0)[0]
    before = reward(frames)
    assert reward.discriminator is not None
    with torch.no_grad():
        reward.discriminator.head.bias.add_(1.0)
    assert (reward(frames) > before).all()


@pytest.mark.parametrize("keep", [0, 3, 8, 100, -1])
def test_truncated_weights_are_rejected(saved, keep):
    weights = saved / "reward.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(InputError, match="cut short or damaged"):
        load_reward(saved)


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("how", ["pickle", "torch.save"])
def test_pickles_named_safetensors_are_rejected_and_not_executed(saved, tmp_path, how):
    mark = tmp_path / "ran"
    bomb = {"head.weight": Bomb(mark)}
    if how == "pickle":
        content = pickle.dumps(bomb)
    else:
        buffer = io.BytesIO()
        torch.save(bomb, buffer)
        content = buffer.getvalue()
    (saved / "reward.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="pickle or zip archive; pureward never unpickles"):
        load_reward(saved)
    assert not mark.exists()


def test_a_pickle_as_config_is_rejected(saved):
    (saved / "reward.json").write_bytes(pickle.dumps({"format": "pureward-reward"}))
    with pytest.raises(InputError, match="must be JSON"):
        load_reward(saved)


def edited(folder: Path, **changes) -> Path:
    path = folder / "reward.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            del config[key]
        else:
            config[key] = value
    path.write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 3}, "format version 3, this pureward reads 2"),
        ({"version": "1"}, "format version '1'"),
        ({"version": None}, "format version None"),
        ({"format": "other"}, "must have format 'pureward-reward'"),
        ({"extra": 1}, r"unknown settings \['extra'\]"),
        ({"lowest": None}, r"settings \['lowest'\] are missing in a saved RewardSpec"),
        ({"reward": "truth"}, "unknown reward 'truth'"),
        (
            {"ceiling": "3"},
            "ceiling of a saved RewardSpec must be a number, without quotes, got '3'",
        ),
        ({"ceiling": -1.0}, "ceiling must be positive"),
        ({"ceiling": 10**400}, r"ceiling must lie within ±2\^53, got 1000"),
        ({"ceiling": 1e300}, r"ceiling must be positive and finite, got 1e\+300"),
        ({"lowest": -(10**400)}, r"lowest must lie within ±2\^53, got -1000"),
        ({"members": True}, "members of a saved RewardSpec must be a whole number, got True"),
        ({"members": 3}, "imitation rewards need no reward models, got 3"),
        ({"absorbing": 1}, "absorbing of a saved RewardSpec must be true or false, got 1"),
        ({"images": "top"}, "images of a saved RewardSpec must be a list of text, got 'top'"),
        ({"images": [1]}, r"images of a saved RewardSpec must be a list of text, got \[1\]"),
        ({"images": ["top"]}, r"name every camera of 3 channels, 0 images of each, got \['top'\]"),
        ({"images": ["a\x1b[2J"]}, r"printable characters, got \['a\\x1b\[2J'\]; rename them"),
        ({"images": ["a" * 201]}, "at most 200 printable characters"),
        ({"network": [1]}, r"a saved NetworkConfig must be a JSON object, got \[1\]"),
    ],
)
def test_invalid_configs_are_rejected(saved, change, sentence):
    with pytest.raises(InputError, match=sentence):
        load_reward(edited(saved, **change))


def test_loading_leaves_the_random_state_alone(saved):
    before = torch.get_rng_state()
    load_reward(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_reward_without_an_absorbing_state_is_read_as_before(saved):
    reward = load_reward(edited(saved, absorbing=None))
    assert not reward.spec.absorbing
    assert reward.terminal_reward(1.0) == 0.0
    with pytest.raises(InputError, match="only imitation rewards have an absorbing state"):
        RewardSpec(reward="regression", members=1, absorbing=True)


@pytest.mark.parametrize(
    ("images", "stack", "words"),
    [
        (1, 1, "one RGB image"),
        (2, 2, "2 consecutive RGB images, oldest first"),
        (2, 1, "RGB images of 2 cameras"),
        (6, 2, "2 consecutive RGB images of 3 cameras, oldest first"),
        (2, 0, "2 RGB images"),
    ],
)
def test_a_saved_reward_says_what_its_channels_are(tmp_path, small_network, images, stack, words):
    network = replace(small_network, frame_channels=3 * images)
    save_reward(a_reward(network, "imitation", stack=stack), tmp_path)
    assert load_reward(tmp_path).spec.channels == words


@pytest.mark.parametrize(
    ("names", "stack", "words"),
    [
        (("top",), 1, "one RGB image (top)"),
        (("top", "side"), 1, "RGB images of 2 cameras (top, side)"),
        (("top",), 2, "2 consecutive RGB images (top), oldest first"),
        (("b", "a"), 2, "2 consecutive RGB images of 2 cameras (b, a), oldest first"),
    ],
)
def test_a_saved_reward_keeps_the_names_of_its_cameras(
    tmp_path, small_network, names, stack, words
):
    network = replace(small_network, frame_channels=3 * stack * len(names))
    save_reward(a_reward(network, "imitation", stack=stack, images=names), tmp_path)
    spec = load_reward(tmp_path).spec
    assert (spec.images, spec.channels) == (names, words)
    assert load_reward(edited(tmp_path, images=None)).spec.images == ()  # saved without names


def test_a_stack_that_does_not_fit_the_channels_is_refused(saved):
    with pytest.raises(InputError, match="stack must divide the images of 3 channels, got 2"):
        load_reward(edited(saved, stack=2))
    assert load_reward(edited(saved, stack=None)).spec.stack == 0  # of the first version 2


def test_a_config_for_another_shape_is_rejected_without_allocating_it(saved):
    network = json.loads((saved / "reward.json").read_text())["network"]
    huge = network | {"stage_channels": [1024] * 5, "stage_blocks": 64}
    with pytest.raises(InputError, match="should have shape"):
        load_reward(edited(saved, network=huge))
    with pytest.raises(InputError, match="frame height must be a multiple"):
        load_reward(edited(saved, network=network | {"height": 33}))
    with pytest.raises(
        InputError, match="stage_channels of a saved NetworkConfig must be a list of whole"
    ):
        load_reward(edited(saved, network=network | {"stage_channels": ["8"]}))


def test_unexpected_tensors_are_rejected(saved):
    path = saved / "reward.safetensors"
    weights = load_file(path)
    name = "discriminator.head.weight"
    wrong = {
        "should have shape": {**weights, name: weights[name][:, :-1].contiguous()},
        "has None": {k: v for k, v in weights.items() if k != name},
        "should have shape None": {**weights, "more": torch.zeros(1)},
        "finite float32": {**weights, name: weights[name].half()},
        "must hold finite": {**weights, name: weights[name] * float("nan")},
    }
    for sentence, tensors in wrong.items():
        save_file(tensors, path)
        with pytest.raises(InputError, match=sentence):
            load_reward(saved)


def test_missing_files_are_named(saved, tmp_path):
    (saved / "reward.safetensors").unlink()
    with pytest.raises(InputError, match=r"reward\.safetensors is missing"):
        load_reward(saved)
    with pytest.raises(InputError, match=r"a saved reward is a folder with reward\.json"):
        load_reward(tmp_path / "nowhere")


def test_oversized_configs_are_rejected_before_reading(saved):
    (saved / "reward.json").write_text(" " * 70_000)
    with pytest.raises(InputError, match="at most 65,536 bytes"):
        load_reward(saved)


def test_frames_of_another_shape_are_rejected(saved):
    with pytest.raises(InputError, match="frames must have shape"):
        load_reward(saved)(torch.zeros(2, 3, 64, 64, dtype=torch.uint8))


def test_arrays_must_be_uint8(saved):
    with pytest.raises(InputError, match="frames must be uint8 .* got ndarray"):
        load_reward(saved)(np.zeros((2, 3, 32, 32), dtype=np.float32))


@pytest.mark.parametrize("kind", ["imitation", "regression", "gated"])
def test_frames_must_be_uint8(kind, small_network, scenes):
    reward, frames = a_reward(small_network, kind), scenes(4, 0)[0]
    asked = [reward, reward.scores]
    asked += [] if reward.discriminator is None else [reward.success_logits]
    asked += [reward.predicted] if reward.members else []
    for ask in asked:
        for wrong, dtype in ((frames / 255, "float32"), (frames.half(), "float16")):
            with pytest.raises(InputError, match=f"must be uint8 from 0 to 255, got {dtype}; pass"):
                ask(wrong)


@pytest.mark.parametrize("device", ["tpu", "auto", "cuda:99"])
def test_missing_devices_are_rejected(saved, device):
    with pytest.raises(InputError, match=f"device '{device}' cannot compute here"):
        load_reward(saved, device=device)


def test_parts_must_fit_the_specification(small_network):
    spec = RewardSpec(reward="imitation", network=small_network)
    with pytest.raises(InputError, match="takes 1 discriminators and 0 reward models, got 0 and 0"):
        LearnedReward(spec, discriminator=None)
    with pytest.raises(InputError, match="gated rewards need 1 to 64 reward models, got 0"):
        replace(spec, reward="gated")
    with pytest.raises(InputError, match="takes 0 discriminators and 1 reward models, got 1 and 1"):
        LearnedReward(
            RewardSpec(reward="regression", network=small_network, members=1),
            discriminator=ResidualCNN(small_network),
            members=[ResidualCNN(small_network)],
        )


def test_every_part_must_be_the_network_of_the_specification(small_network):
    other = replace(small_network, dropout=0.25)
    spec = RewardSpec(reward="gated", network=small_network, members=2)
    good = [ResidualCNN(small_network) for _ in range(2)]
    sentence = r"match its specification, .*dropout=0.5, .*, got .*dropout=0.25, .*; build both"
    with pytest.raises(InputError, match=sentence):
        LearnedReward(spec, discriminator=ResidualCNN(other), members=good)
    with pytest.raises(InputError, match=sentence):
        LearnedReward(spec, discriminator=good[0], members=[good[0], ResidualCNN(other)])


def test_discriminators_and_models_are_not_networks(small_network):
    whole = Discriminator(RewardConfig(network=small_network))
    spec = RewardSpec(reward="imitation", network=small_network)
    with pytest.raises(
        InputError, match=r"networks, got Discriminator; pass Discriminator\.network"
    ):
        LearnedReward(spec, discriminator=whole)  # type: ignore[arg-type]
    spec = RewardSpec(reward="regression", network=small_network, members=1)
    for wrong in (RewardModel(RewardConfig(network=small_network)), whole.network):
        with pytest.raises(InputError, match=r"members must be a list of .* RewardModel\.networks"):
            LearnedReward(spec, discriminator=None, members=wrong)  # type: ignore[arg-type]


# Rewards of the walker that commit 3cc8279 wrote.
VERSION_1 = Path(__file__).with_name("version-1")


@pytest.mark.parametrize("kind", ["imitation", "regression"])
def test_version_1_is_read_with_the_view_of_whole_frames(kind):
    with pytest.warns(UserWarning, match="scored frames at another scale than it trained on"):
        reward = load_reward(VERSION_1 / kind)
    assert reward.spec.reward == kind
    network = reward.spec.network
    assert network.view == View.off()
    frames = torch.zeros(1, network.frame_channels, network.height, network.width).byte()
    assert reward(frames).isfinite().all()


def test_levels_of_version_1_are_rejected(tmp_path):
    moved = Path(shutil.copytree(VERSION_1 / "imitation", tmp_path / "reward"))
    card = json.loads((moved / "reward.json").read_text())
    (moved / "reward.json").write_text(json.dumps(card | {"level": 0.26}))
    with (
        pytest.warns(UserWarning, match="another scale"),
        pytest.raises(InputError, match=r"a moving level of D, which only pureward 0\.1"),
    ):
        load_reward(moved)


@pytest.mark.parametrize("folder", [None, 7, ["reward"]])
def test_paths_must_be_str_or_pathlike(folder):
    with pytest.raises(InputError, match="a saved reward is named by its folder, got"):
        load_reward(folder)


@pytest.mark.parametrize("name", ["reward.json", "reward.safetensors"])
def test_fifos_and_links_are_rejected(saved, tmp_path, name):
    path = saved / name
    kept = path.rename(saved / "elsewhere")
    os.mkfifo(path)
    with pytest.raises(InputError, match=name):
        load_reward(saved)
    path.unlink()
    path.symlink_to(kept)
    with pytest.raises(InputError, match=f"{name} must be a regular file"):
        load_reward(saved)
