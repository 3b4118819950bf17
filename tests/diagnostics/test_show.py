"""Pictures and videos, and the commands that make them."""

import subprocess
import sys
from dataclasses import replace

import av
import numpy as np
import pytest
import torch
from PIL import Image

from pureward.agents.d4pg.agent import D4PG
from pureward.cli import main
from pureward.envs.tasks import TASKS
from pureward.files import whole_file, write_json
from pureward.picture import contact_sheet, mosaic, video
from pureward.runs.config_file import to_json
from pureward.runs.directory import RunDirectory
from pureward.runs.policy import write_snapshot
from tiny import SMALL, tiny


def fails(arguments: list[str], capsys) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code, capsys.readouterr().err


def test_show_writes_a_sheet_and_a_video_that_can_be_read(tmp_path, capsys):
    main(["show", "reach", "--out", str(tmp_path), "--worlds", "5", "--steps", "12"])
    assert "mean return" in capsys.readouterr().out
    sheet = np.asarray(Image.open(tmp_path / "reach.png"))
    assert sheet.std() > 20, "there is something to see"
    with av.open(str(tmp_path / "reach.mp4")) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
        assert film.streams.video[0].average_rate == 25  # real time: 0.04 s a step
    assert len(frames) == 12
    assert frames[0].shape == (256, 384, 3)  # five worlds in two rows of three, enlarged twice
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reach.mp4", "reach.png"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (2, "mean return 2.0 of 3 unfinished episodes over 2 steps"),
        (12, "mean return 5.0 of 6 episodes over 12 steps"),
    ],
)
def test_the_mean_return_is_that_of_an_episode(steps, told, tmp_path, capsys, monkeypatch):
    paid = replace(TASKS["reach"], horizon=5, reward=lambda state: torch.ones(len(state.qpos)))
    monkeypatch.setitem(TASKS, "reach", paid)
    main(["show", "reach", "--out", str(tmp_path), "--worlds", "3", "--steps", str(steps)])
    assert told in capsys.readouterr().out


def test_a_folder_of_a_tasks_name_hides_no_task(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach").mkdir()
    main(["show", "reach", "--out", "shown", "--worlds", "1", "--steps", "2"])
    assert "mean return" in capsys.readouterr().out


def test_a_function_of_the_user_as_policy(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text("def home(state):\n    return -4 * state[:, :2]\n")
    monkeypatch.syspath_prepend(tmp_path)
    returns = {}
    for policy in ("zero", "mine:home"):
        size = ["--worlds", "4", "--steps", "60"]
        main(["show", "reach", "--out", str(tmp_path), *size, "--policy", policy])
        returns[policy] = float(capsys.readouterr().out.split("mean return ")[1].split()[0])
    assert returns["mine:home"] > returns["zero"] + 5


def test_a_policy_module_that_cannot_be_imported_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "unreadable.py").write_text("def act(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["show", "reach", "--out", str(tmp_path / "out"), "--policy", "unreadable:act"]
    code, err = fails(arguments, capsys)
    assert code == 2
    assert "got 'unreadable:act' (SyntaxError: invalid syntax (unreadable.py, line 1))" in err


def test_both_cameras_of_the_arm_are_shown(tmp_path):
    arguments = ["--worlds", "1", "--steps", "2", "--policy", "scripted"]
    main(["show", "stack", "--out", str(tmp_path), "--distractors", "cuboid", *arguments])
    with Image.open(tmp_path / "stack.png") as sheet:
        assert sheet.width > 2 * 2 * 128, "two times, two cameras"


def test_tasks_are_listed(capsys):
    main(["tasks"])
    out = capsys.readouterr().out
    assert "walker" in out
    assert "1000" in out
    assert "3x64x64" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "walkers"], "unknown task 'walkers'; choose from"),
        (["show", "walker", "--worlds", "0"], "worlds must be a whole number from 1 to"),
        (["show", "walker", "--steps", "0"], "steps must be at least 1, got 0"),
        (["show", "walker", "--device", "cuda:7"], "device 'cuda:7' needs a CUDA GPU"),
        (["show", "walker", "--device", "gpu"], "unknown device 'gpu'"),
        (["show", "walker", "--policy", "no.such:thing"], "policy must be"),
        (["show", "reach", "--policy", "./no/such"], "(ValueError: it names no function)"),
        (["show", "reach", "--policy", ""], "got '' (ValueError: it names no function)"),
        (["show", "reach", "--policy", "./mine:act"], "got './mine:act'"),
        (["show", "reach", "--policy", "os:path"], "(TypeError: a module is not callable)"),
        (["show", "walker", "--policy", "scripted"], "walker has no script"),
        (["show", "walker", "--distractors", "cube"], "'walker' has no distractors"),
        (["show", "lift", "--distractors", "ball"], "unknown distractors 'ball'"),
    ],
)
def test_bad_input_ends_in_one_sentence_and_code_2(arguments, sentence, tmp_path, capsys):
    code, err = fails([*arguments, "--out", str(tmp_path)], capsys)
    assert code == 2
    assert err.startswith("pureward: ")
    assert sentence in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_policy_on_other_states_leaves_no_folder(tmp_path, capsys):
    run, out = RunDirectory(tmp_path / "run"), tmp_path / "out"
    write_json(run.config, to_json(tiny(run.path)))
    write_snapshot(run.snapshots, 640, D4PG(SMALL, state_size=5, action_size=2))
    code, err = fails(["show", "reach", "--policy", str(run.path), "--out", str(out)], capsys)
    assert (code, "acts on states of 5 numbers" in err) == (2, True)
    assert f"or show the run itself: pureward show {run.path}\n" in err
    assert not out.exists()


def test_an_output_folder_that_cannot_be_made_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    code, err = fails(["show", "reach", "--steps", "2", "--out", str(tmp_path / "file")], capsys)
    assert code == 1
    assert "file" in err


def test_importing_pureward_prints_nothing_and_loads_nothing_slow():
    slow = ("torch", "mujoco", "warp", "matplotlib", "scipy", "minari", "av")
    script = f"import sys, pureward; assert not [m for m in {slow} if m in sys.modules]"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_making_an_env_prints_nothing():
    script = "import pureward; pureward.make('reach', 1, 'cpu', cameras=True).reset()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_file_that_fails_leaves_no_trace(tmp_path):
    target = tmp_path / "kept.txt"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(target) as partial:
        partial.write_text("half")
        _ = 1 / 0
    with pytest.raises(ZeroDivisionError), video(tmp_path / "v.mp4", 25) as write:
        write(np.zeros((64, 64, 3), dtype=np.uint8))
        _ = 1 / 0
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_a_mosaic_keeps_the_order():
    images = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((2, 4, 3), np.uint8) + 1
    grid = mosaic(images, scale=1)
    assert grid.shape == (4, 12, 3)
    assert grid[::2, ::4, 0].tolist() == [[1, 2, 3], [4, 5, 0]]


def test_a_line_on_the_sheet_shows_where_the_next_episode_begins(tmp_path, monkeypatch):
    def red(**horizon) -> np.ndarray:
        monkeypatch.setitem(TASKS, "reach", replace(TASKS["reach"], **horizon))
        main(["show", "reach", "--out", str(tmp_path), "--worlds", "2", "--steps", "8"])
        sheet = np.asarray(Image.open(tmp_path / "reach.png"))
        return (sheet == (200, 20, 20)).all(axis=-1)

    assert not red(horizon=9).any()
    lines = red(horizon=3).mean(axis=0) > 0.9  # columns that are red from top to bottom
    begins = np.flatnonzero(np.diff(lines.astype(int)) > 0)
    assert np.diff(begins) == pytest.approx(3 * (128 + 20))  # before the frames 3 and 6 of 8


def test_a_contact_sheet_places_rows_and_columns():
    images = np.zeros((2, 3, 8, 8, 3), dtype=np.uint8)
    images[1, 2] = (255, 0, 0)
    sheet = np.asarray(contact_sheet(images, ["a", "b"], ["x", "y", "z"], scale=1))
    red = np.argwhere((sheet == (255, 0, 0)).all(axis=-1))
    assert len(red) == 64
    assert red.min(axis=0)[0] > sheet.shape[0] // 2
