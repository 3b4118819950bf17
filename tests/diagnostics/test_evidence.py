"""Evidence: which episodes are shown, and with which numbers."""

import json
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from PIL import Image

import pureward
from pureward.cli import main
from pureward.data.episodes import Episode
from pureward.diagnostics.evidence import ScoredEpisode, by_difference, probe, score_episode
from pureward.diagnostics.probe import Probes
from pureward.diagnostics.strip import Panel, Strip, draw_strips, film_strip
from pureward.files import write_json
from pureward.rewards.config import RewardConfig
from pureward.rewards.learned import LearnedReward, RewardSpec
from pureward.rewards.network import NetworkConfig, ResidualCNN
from pureward.rewards.saved import save_reward
from pureward.runs.config_file import to_json
from synthetic import write_run
from tiny import tiny

NETWORK = NetworkConfig(frame_channels=6, stage_channels=(4, 4, 4))


def random_reward(kind: str, network: NetworkConfig = NETWORK) -> LearnedReward:
    members = [] if kind == "imitation" else [ResidualCNN(network)]
    return LearnedReward(
        RewardSpec(reward=kind, network=network, members=len(members), ceiling=1.0),
        discriminator=None if kind == "regression" else ResidualCNN(network),
        members=members,
    )


def test_success_is_d_itself_and_open_where_it_is_above_one_half():
    reward = random_reward("gated")
    frames = torch.randint(0, 256, (9, 6, 64, 64), dtype=torch.uint8)
    with torch.no_grad():
        reward.discriminator.head.bias -= reward.success_logits(frames[1:]).quantile(0.5)
    logits = reward.success_logits(frames[1:])
    scored = score_episode(Episode(rewards=torch.zeros(8), frames=frames), reward, 1)
    torch.testing.assert_close(scored.success, logits.sigmoid())
    probed = Probes({"replay": frames[1:]}).measure(reward)
    assert scored.returns()["success"] == probed["success/replay"] == 0.5


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A policy, trained for 80 steps on the true reward."""
    path = tmp_path_factory.mktemp("evidence") / "run"
    pureward.train(tiny(path, env_steps=80))
    return path


def as_run_of(path: Path, method: str, kind: str) -> None:
    """Make it a run on a learned reward, with stacks of two frames."""
    data = "demonstrations" if kind == "imitation" else "annotations"
    config = replace(
        tiny(path), method=method, reward=RewardConfig(ceiling=1.0), **{data: "somewhere"}
    )
    config = replace(config, replay=replace(config.replay, frame_stack=2))
    write_json(path / "config.json", to_json(config))
    save_reward(random_reward(kind), path / "reward")


@pytest.mark.parametrize(
    ("method", "kind", "means"),
    [
        ("nn-pugail", "imitation", {"true_return", "learned_return", "success"}),
        pytest.param(
            "prl",
            "regression",
            {"true_return", "learned_return", "predicted_return"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_is_probed(trained, tmp_path, method, kind, means, capsys):
    as_run_of(trained, method, kind)
    with (trained / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"kind": "train", "step": 80, "prior": 0.3, "true_success": 0.2}\n')
    out = tmp_path / "probe"
    command = ["probe", str(trained), "--episodes", "2", "--device", "cpu", "--out", str(out)]
    main(command)
    assert sorted(path.name for path in out.iterdir()) == [
        "evidence.mp4", "evidence.png", "probe.json",
    ]  # fmt: skip
    table = json.loads((out / "probe.json").read_text())
    assert len(table["episodes"]) == 2
    assert set(table["means"]) == means
    assert sorted(table["parted_most_first"]) == [0, 1]
    printed = capsys.readouterr().out
    assert table["verdict"] in printed
    has_eta = method == "nn-pugail"
    assert ("class prior: η is 0.30; 20% of the agent's frames" in printed) == has_eta
    assert table["eta"] == ({"used": 0.3, "agent_success": 0.2} if has_eta else {})
    assert f"true return {table['means']['true_return']:.1f}" in printed
    assert str(out / "evidence.png") in printed
    assert np.asarray(Image.open(out / "evidence.png")).std() > 20, "there is something to see"
    with av.open(str(out / "evidence.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) == 100, "a frame for each step"


def test_what_cannot_be_probed_is_refused(trained, tmp_path, capsys):
    write_json(trained / "config.json", to_json(tiny(trained)))
    with pytest.raises(SystemExit) as stop:
        main(["probe", str(trained)])
    assert stop.value.code == 2
    assert "learned from the task's own reward, so there is nothing" in capsys.readouterr().err
    as_run_of(trained, "prl", "regression")
    for episodes in (0, 1.5, "3"):
        with pytest.raises(pureward.InputError, match=f"whole number from 1, got {episodes!r}; "):
            probe(trained, episodes=episodes)  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(pureward.InputError, match="must be a folder that can be written"):
        probe(trained, tmp_path / "file")  # its reward, which is missing, is not read
    with pytest.raises(pureward.InputError, match="fitted to data alone and has no policy"):
        probe(write_run(tmp_path / "fit", "nn-pugail", [], task="offline", updates=5))


def test_an_episode_is_scored_by_the_reward_of_its_stacks():
    frames = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    episode = Episode(rewards=torch.zeros(3), frames=frames)
    reward = random_reward("gated")
    scored = score_episode(episode, reward, stack=2)
    pairs = torch.cat([frames[:-1], frames[1:]], dim=1)  # the older first
    assert torch.allclose(scored.learned, reward(pairs), atol=1e-5)
    assert torch.allclose(scored.predicted, reward.predicted(pairs), atol=1e-5)
    assert torch.allclose(scored.success, reward.success_logits(pairs).sigmoid(), atol=1e-5)


def scored(
    true: list[float], learned: list[float], predicted: list[float] | None = None
) -> ScoredEpisode:
    return ScoredEpisode(
        episode=Episode(rewards=torch.tensor(true)),
        learned=torch.tensor(learned),
        success=None,
        predicted=None if predicted is None else torch.tensor(predicted),
    )


def test_predictions_are_compared_by_returns():
    episodes = [
        scored([1.0, 1.0], [0.0, 0.0], [1.0, 1.5]),  # half too much
        scored([0.0, 0.0], [0.0, 0.0], [1.0, 1.0]),  # two too much
        scored([1.0, 1.0], [0.0, 0.0], [0.5, 0.5]),  # one too little
    ]
    assert by_difference(episodes) == [1, 0, 2]


def test_imitation_rewards_are_compared_by_ranks():
    honest, hacked, unpaid = (
        scored([0.5, 0.5], [50.0, 50.0]),
        scored([0.0, 0.1], [90.0, 80.0]),
        scored([0.9, 1.0], [1.0, 2.0]),
    )
    assert by_difference([honest, unpaid, hacked]) == [2, 0, 1]


def test_episodes_of_different_lengths_are_compared_by_their_mean_step():
    """Ranks of learned minus true: −2, −2; 5, 1, 3; −5."""
    honest, hacked, unpaid = (
        scored([0.5, 0.5], [50.0, 50.0]),
        scored([0.0, 0.1, 0.05], [90.0, 80.0, 85.0]),
        scored([1.0], [1.0]),
    )
    assert by_difference([unpaid, honest, hacked]) == [2, 1, 0]


def test_tracks_of_a_gated_reward():
    frames = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    scored = score_episode(
        Episode(rewards=torch.ones(3), frames=frames), random_reward("gated"), stack=2
    )
    assert set(scored.returns()) == {"true_return", "learned_return", "predicted_return", "success"}
    reward, trust = scored.strip("").panels
    assert list(reward.tracks) == ["true r", "predicted r_φ", "gated r"]
    assert reward.tracks["true r"][0].tolist() == [1.0, 1.0, 1.0]
    assert trust.threshold == 0.5


def strip(cameras: int) -> Strip:
    frames = np.zeros((20, cameras, 64, 64, 3), dtype=np.uint8)
    frames[:, 0, :, :, 0] = np.arange(20, dtype=np.uint8)[:, None, None] * 12
    tracks = {"r": (np.linspace(0, 1, 20), "k")}
    return Strip(title="t", frames=frames, panels=[Panel(title="r", tracks=tracks, threshold=0.5)])


def test_a_strip_shows_eight_instants_of_every_camera():
    figure = draw_strips([strip(cameras=2), strip(cameras=2)])
    images = [axis.images[0].get_array() for axis in figure.findobj(lambda a: hasattr(a, "images"))
              if getattr(axis, "images", None)]  # fmt: skip
    assert len(images) == 2 * 2 * 8
    # Of twenty steps in eight equal stretches, the middles: 1.25, 3.75, … rounded down.
    reds = [int(image[0, 0, 0]) // 12 for image in images[:8]]
    assert reds == [1, 3, 6, 8, 11, 13, 16, 18]


def test_a_film_keeps_the_shape_of_frames(tmp_path):
    square = strip(cameras=1)
    wide = replace(square, frames=square.frames[:, :, :32])
    heights = []
    for number, each in enumerate((square, wide)):
        film_strip(each, tmp_path / f"{number}.mp4", 25)
        with av.open(str(tmp_path / f"{number}.mp4")) as film:
            heights.append(film.streams.video[0].height)
    assert heights[0] - heights[1] == 256 - 128  # both are 256 wide


def test_the_cursor_of_a_film_moves_along_the_tracks(tmp_path):
    film_strip(strip(cameras=2), tmp_path / "film.mp4", 25)
    with av.open(str(tmp_path / "film.mp4")) as film:
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in film.decode(video=0)]
    assert len(frames) == 20
    below = [frame[300:] for frame in frames]
    red = [((f[..., 0] > 150) & (f[..., 1] < 110)).sum(axis=0) for f in below]
    columns = [int(count.argmax()) for count in red]
    assert columns == sorted(columns)
    assert columns[-1] - columns[0] > 600
