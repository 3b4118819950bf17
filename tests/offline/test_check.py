"""What `check` finds in data, and the leak check: found where there is one, silent where not."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from pictures import demonstrations, episode, firsts, logs
from PIL import Image
from torch import Tensor

import pureward
from pureward.cli import main
from pureward.data.episodes import Episode
from pureward.offline import survey
from pureward.offline.check import check
from pureward.offline.leak import FEWEST_FRAMES, find_leak
from pureward.offline.matching import CLOSE, match_states


@pytest.fixture(autouse=True)
def _fewer_permutations(monkeypatch):
    monkeypatch.setattr("pureward.offline.leak._PERMUTATIONS", 500)


def scenes(seed: int, count: int = 30, side: int = 32) -> Tensor:
    """The same noisy scene with a square at a random place."""
    ground = np.random.default_rng(99).integers(40, 200, (3, side, side))
    rng = np.random.default_rng(seed)
    frames = ground + rng.integers(-3, 4, (count, 3, side, side))
    for frame in frames:
        top, left = rng.integers(2, side - 10, 2)
        frame[:, top : top + 8, left : left + 8] = 220
    return torch.from_numpy(frames.astype(np.uint8))


def jpeg(frames: Tensor) -> Tensor:
    found = []
    for frame in frames:
        stream = io.BytesIO()
        Image.fromarray(frame.permute(1, 2, 0).numpy()).save(stream, "JPEG", quality=90)
        found.append(torch.from_numpy(np.array(Image.open(stream))).permute(2, 0, 1))
    return torch.stack(found)


def border(frames: Tensor) -> Tensor:
    changed = frames.clone()
    changed[..., -1] = 0
    return changed


def clock(frames: Tensor) -> Tensor:
    changed = frames.clone()
    changed[:, :, 5:8, 20:26] = 255
    return changed


LEAKS = {
    "texture": jpeg,
    "colour": lambda frames: (1.02 * frames.float()).round().to(torch.uint8),
    "border": border,
    "picture": clock,
}


@pytest.mark.parametrize("cue", LEAKS)
def test_a_leak_is_found_by_its_cue_with_a_remedy(cue):
    report = find_leak(LEAKS[cue](scenes(1)), scenes(2))
    assert report.found
    assert report.cues[0].name == cue
    assert report.cues[0].auc > 0.95
    assert str(report).startswith(f"leak: frames can be told apart by their {cue}")


@pytest.mark.parametrize("seed", range(5))
def test_it_is_silent_without_a_leak(seed):
    report = find_leak(scenes(2 * seed), scenes(2 * seed + 1))
    assert not report.found
    assert report.cues[0].auc < report.cues[0].chance < 1
    assert str(report).startswith("no leak found")


def test_the_same_leak_on_both_sides_is_none():
    assert not find_leak(jpeg(scenes(1)), jpeg(scenes(2))).found


def test_sides_of_different_sizes_and_identical_frames_are_no_leak():
    assert not find_leak(scenes(1, 12), scenes(2, 60)).found
    assert not find_leak(scenes(1)[:1].repeat(12, 1, 1, 1), scenes(1)[:1].repeat(15, 1, 1, 1)).found


def test_what_is_no_data_is_refused():
    with pytest.raises(pureward.InputError, match="named by a path, or given as a list .* got int"):
        pureward.check(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"out": 3}, "out must be text, got 3; name a PNG file"),
        ({"seed": None}, "seed must be a whole number, got None"),
        ({"states": "no"}, "states must be true or false, without quotes, got 'no'"),
        ({"images": [None]}, r"images must be a name or several, got \[None\]"),
    ],
)
def test_a_setting_of_another_type_is_refused(settings, said):
    with pytest.raises(pureward.InputError, match=said):
        pureward.check(demonstrations(), against=logs(), **settings)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (scenes(1, FEWEST_FRAMES - 1), scenes(2), "at least 10 episodes"),
        (scenes(1), scenes(2, side=40), "one shape"),
    ],
)
def test_frames_that_cannot_be_compared_are_refused(first, second, said):
    with pytest.raises(pureward.InputError, match=said):
        find_leak(first, second)


def test_good_data_has_no_problem():
    found = check(demonstrations(), against=logs())
    assert found.problems == []
    assert "20 episodes (15 train, 5 held-out), 160 steps of 3×32×32" in found.facts[0]
    assert found.leak is not None
    assert not found.leak.found


def test_time_is_in_proportion_to_the_episodes(monkeypatch):
    counted = []
    counter = survey.Counter
    monkeypatch.setattr(survey, "Counter", lambda shapes: counted.append(1) or counter(shapes))
    check(demonstrations())
    assert len(counted) < 5  # each looks at all 20 episodes


def black(one):
    return replace(one, frames=torch.zeros_like(one.frames))


def failed(one):
    return replace(one, success=torch.zeros(8, dtype=torch.bool))


def still(one):
    frames = one.frames[:1].repeat(31, 1, 1, 1)
    return replace(one, frames=frames, rewards=torch.zeros(30), success=None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: [*d, black(d[0])], "black or of one colour, in episode 20"),
        (lambda d: [*d, still(d[0])], "stands still for most of episode 20"),
        (
            lambda d: [*d, replace(d[0], split="train")],
            "most frames of 1 held-out or failed episode are in the training split",
        ),
        (lambda d: [*d, d[-1]], "training episodes have 1 copy; remove"),
        (lambda d: [*map(black, d)], "all frames are black .* were they divided by 255"),
        (lambda d: [*map(failed, d)], "success is 0 in all 20 episodes .* use them as annotations"),
        (lambda d: d[2:], "at least 5 held-out episodes, got 3"),
        (lambda d: [replace(e, rated=True, rewards=e.rewards * 50) for e in d], "rewards reach 0"),
        (lambda d: [replace(e, rated=True, rewards=e.rewards * 0) for e in d], "all rewards are 0"),
        (lambda d: [*d, episode(77, solved=True, side=48)], "one shape, and those of episode 20"),
    ],
)
def test_a_problem_is_named_with_its_episode_and_remedy(change, said):
    problems = check(change(demonstrations())).problems
    assert len(problems) == 1
    assert pytest.raises(AssertionError, match=said).matches(AssertionError(problems[0]))
    assert ";" in problems[0] or "," in problems[0]


def pictures(folder, sides, **others):
    """A folder of an episode for each (height, width)."""
    folder.mkdir()
    for number, side in enumerate(sides):
        rng = np.random.default_rng(number)
        shapes = {"top": side, **others}
        made = {k: rng.integers(0, 256, (4, *s, 3), dtype=np.uint8) for k, s in shapes.items()}
        np.savez(folder / f"{number}.npz", **made)
    return folder


def test_shapes_are_compared_as_stored(tmp_path):
    mixed = pictures(tmp_path / "mixed", [(32, 40)] * 11 + [(40, 32)], wrist=(16, 16))
    found = check(mixed, images=("top", "wrist"), held_out=0.5)
    assert "36 steps of 3×32×40 and 3×16×16, resized to 64×64" in found.facts[0]
    assert [
        problem for problem in found.problems if "those of episode 11 are not 3×32×40" in problem
    ]
    assert check(mixed, images="wrist", held_out=0.5).problems == []
    arrays = [np.load(path)["top"] for path in sorted(mixed.iterdir())]
    (problem,) = check(arrays, held_out=0.5).problems
    assert "must have one shape, and those of episode" in problem
    alike = pictures(tmp_path / "alike", [(64, 80)] * 12)
    told = "both sides are stored in different shapes, and compared after resizing"
    assert told in check(alike, against=mixed, images="top", held_out=0.5).facts
    assert told not in check(mixed, against=mixed, images="top", held_out=0.5).facts


def test_arrays_in_memory_are_read_once(monkeypatch):
    read, calls = survey.read_episodes, []
    monkeypatch.setattr(survey, "read_episodes", lambda *a, **k: calls.append(1) or read(*a, **k))
    stacks = np.random.default_rng(0).integers(0, 256, (12, 5, 2, 48, 40, 3), dtype=np.uint8)
    rewards = np.zeros(4, np.float32)
    for given, shape in (
        (stacks[:, :, 0], "3×48×40"),
        ([torch.from_numpy(one) for one in stacks], "6×48×40"),
        ([(one[:, 0, ..., 0] / np.float32(255), rewards) for one in stacks], "3×48×40"),
    ):
        assert f"48 steps of {shape}, resized to 64×64" in check(given, held_out=0.5).facts[0]
    assert len(calls) == 3


def test_copies_between_both_sides_are_named():
    found = check(demonstrations(), against=[*logs(), *demonstrations()[:3]])
    assert any("has 3 episodes of" in problem for problem in found.problems)


def test_successes_are_counted_and_logs_may_have_none():
    found = check(demonstrations(), against=logs(solved=0))
    assert found.problems == []
    assert [fact for fact in found.facts if "success" in fact] == [
        "20 episodes in memory: success in 20 of 20 episodes",
        "20 episodes in memory: success in 0 of 20 episodes",
    ]
    marked = [replace(failed(one), split="failure") for one in logs(3)]
    assert check([*demonstrations(), *marked]).problems == []


def test_a_reward_per_frame_is_told_with_the_other_convention():
    frames = np.random.default_rng(0).integers(0, 256, (12, 9, 64, 64, 3), dtype=np.uint8)
    pairs = [(one, np.arange(9.0)) for one in frames]
    (note,) = [fact for fact in check(pairs).facts if "as many rewards as frames" in fact]
    assert "store rewards[:-1]" in note
    pairs = [(one, np.arange(8.0)) for one in frames]
    assert not [fact for fact in check(pairs).facts if "as many rewards as frames" in fact]


def test_episodes_that_rest_in_one_last_state_are_no_copies():
    last = episode(5, solved=True).frames[-1:].repeat(9, 1, 1, 1)
    ours, theirs = (
        [torch.cat([one.frames, last]) for one in side] for side in (demonstrations(), logs())
    )
    assert check(ours, against=theirs, held_out=0.3).problems == []


def test_few_episodes_are_told_and_nothing_is_compared():
    found = check(demonstrations(), against=logs(5))
    assert found.leak is None
    assert "at least 10 episodes on either side, got 20 of" in found.problems[-1]


def test_an_environment_is_the_other_side(monkeypatch):
    monkeypatch.setattr("pureward.offline.check._RESETS", 2)
    env = pureward.make("reach", 6, "cpu", seed=3, cameras=True)
    with env:
        shots = torch.cat([env.reset().frames for _ in range(3)])
    data = [f.expand(3, -1, -1, -1).contiguous() for f in shots.unsqueeze(1)]
    assert check(data, against="reach", held_out=0.5).leak.found is False
    darker = [(0.95 * part.float()).to(torch.uint8) for part in data]
    assert check(darker, against="reach", held_out=0.5).leak.found is True


def test_a_misspelt_path_is_told_before_the_data_is_read(tmp_path):
    with pytest.raises(pureward.InputError, match="lgos is no file or folder, and no environment"):
        check(tmp_path / "not read", against="lgos")
    with pytest.raises(pureward.InputError, match="data to compare with, got 'reach'; leave"):
        check(tmp_path / "not read", against="reach", states=True)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("picture", "must end in .png, .pdf, .svg, got 'picture'"),
        ("file/a.png", "file must be a folder that can be written"),
        ("folder.png", "folder.png is a folder; rename it"),
    ],
)
def test_a_bad_picture_is_told_before_the_data_is_read(tmp_path, out, said):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(pureward.InputError, match=said):
        check(tmp_path / "not read", against="reach", out=tmp_path / out)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_picture_is_not_written_into_the_data(tmp_path, side):
    """In a folder of images it would be a frame of the next reader's."""
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.mp4").write_text("not read")
    with pytest.raises(pureward.InputError, match=f"check.png must lie outside of .*{side}"):
        check(tmp_path / "ours", against=tmp_path / "theirs", out=tmp_path / side / "check.png")


def test_the_command_line_writes_a_picture_and_exits_with_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, shift in (("demos", 0), ("logs", 5)):
        (tmp_path / name).mkdir()
        for number, frame in enumerate(firsts(logs(25))):
            frames = (frame + shift).expand(4, -1, -1, -1).clone()
            frames[1:, 0, :4, :4] = number * torch.arange(1, 4)[:, None, None]
            np.save(f"{name}/{number}.npy", frames.permute(0, 2, 3, 1).numpy())
    main(["check", "demos"])
    assert "no problem found" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1"):
        main(["check", "demos", "--against", "logs", "--out", "leak.png"])
    printed = capsys.readouterr().out
    assert "problem: leak: frames can be told apart by their colour" in printed
    assert (tmp_path / "leak.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(SystemExit, match="2"):
        main(["check", "demos", "--against", "nowhere"])


def moving(seed: int, *, fast: bool, shift: int = 0) -> Episode:
    """A square whose place is the state; some episodes begin elsewhere and move faster."""
    rng = np.random.default_rng(seed)
    places = np.cumsum(rng.integers(0, 3 if fast else 2, 17)) % 20 + (4 if fast else 0)
    frames = np.full((17, 3, 32, 32), 90) + rng.integers(-2, 3, (17, 3, 32, 32)) + shift
    for frame, place in zip(frames, places, strict=True):
        frame[:, 8:16, place : place + 6] = 200
    return Episode(
        frames=torch.from_numpy(frames.astype(np.uint8)),
        rewards=torch.zeros(16),
        state=torch.from_numpy(places[:, None].astype(np.float32)),
        rated=False,
    )


def test_frames_of_equal_states_are_compared_if_first_states_differ():
    slow = [moving(n, fast=False) for n in range(20)]
    fast = [moving(100 + n, fast=True) for n in range(20)]
    assert check(slow, against=fast).leak.found  # they begin elsewhere
    assert not check(slow, against=fast, states=True).leak.found
    shifted = [moving(100 + n, fast=True, shift=3) for n in range(20)]
    assert check(slow, against=shifted, states=True).leak.cues[0].name == "colour"
    with pytest.raises(pureward.InputError, match="the states of all 20 episodes, got those of 0"):
        check(demonstrations(), against=logs(), states=True)


def test_pairs_have_close_states_and_use_an_episode_once():
    rng = torch.Generator().manual_seed(0)
    first = [torch.randn(9, 2, generator=rng) for _ in range(12)]
    second = [torch.randn(9, 2, generator=rng) for _ in range(15)]
    pairs = match_states(first, second)
    assert len(pairs) >= 10
    for side in (0, 1):
        used = [pair[side][0] for pair in pairs]
        assert len(set(used)) == len(used)
    for (i, t), (j, u) in pairs:
        assert (first[i][t] - second[j][u]).square().mean().sqrt() < 2 * CLOSE
    far = [states + 100 for states in second]
    assert match_states(first, far) == []
