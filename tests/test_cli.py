"""The command line as a process among others."""

import errno
import os
import subprocess
import sys

import pytest

from pureward.cli import main
from pureward.rewards.methods import METHODS
from pureward.training.loop import RunResult
from pureward.training.presets import preset


def test_a_reader_who_has_seen_enough_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)  # as `head` does once it has its lines
    command = [sys.executable, "-m", "pureward", "tasks"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def run(script: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, **options
    )


def test_letters_that_the_terminal_lacks_are_no_reason_to_fail():
    script = "from pureward import cli; cli.tasks = lambda: print('1 ± 2'); cli.main(['tasks'])"
    done = run(script, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 ? 2\n", "")


def test_output_that_nobody_wants_is_no_reason_to_fail():
    done = run("import sys; sys.stdout = None; from pureward.cli import main; main(['tasks'])")
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_stay_closed_to_other_files():
    """A process that is started later writes to number 1, whatever that is then."""
    script = (
        "import os; from pureward.cli import _take_any_streams; _take_any_streams()\n"
        "assert [os.readlink(f'/proc/self/fd/{n}') for n in (0, 1)] == ['/dev/null'] * 2"
    )
    done = run(
        f"import os; os.closerange(0, 2); import sys; sys.stdin = sys.stdout = None; {script}"
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["expert", "reach", "--out", "{file}"], "must be a folder or lie in one"),
        (["show", "reach", "--out", "{file}/deep"], "must be a folder or lie in one"),
        (["show", "reach", "--policy", "os:getcwd", "--out", "{out}"], "must turn states"),
        (["reproduce", "imitation", "--budget", "-1", "--dry-run"], "number of minutes, got -1.0"),
        (["reproduce", "imitation", "--seeds", "1000000000"], "seeds must be at most 1,000"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(command, told, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    places = {"file": tmp_path / "file", "out": tmp_path / "out"}
    with pytest.raises(SystemExit) as stop:
        main([word.format(**places) for word in command])
    assert stop.value.code in (1, 2)
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "pureward: interrupted"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore"),
            1,
            "no memory left (Def",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.png"),
            1,
            "no space is left to write a.png; free some and call again",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "runs"),
            1,
            "runs is not ours to read or write (Read-only file system); change its permissions",
        ),
        (MemoryError("Unable to allocate 7 PiB"), 1, "no memory left (Unable to allocate 7 PiB)"),
    ],
)
def test_what_a_user_ends_or_asks_too_much_of_ends_in_a_sentence(
    raised, code, told, monkeypatch, capsys
):
    def shown(*_, **__):
        raise raised

    monkeypatch.setattr("pureward.diagnostics.show.show", shown)
    with pytest.raises(SystemExit) as stop:
        main(["show", "reach"])
    assert stop.value.code == code
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) == 1


def test_a_bug_keeps_its_traceback(monkeypatch):
    def shown(*_, **__):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("pureward.diagnostics.show.show", shown)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main(["show", "reach"])


def test_train_does_not_ask_for_what_a_run_sets_itself(capsys):
    with pytest.raises(SystemExit):
        main(["train", "lift", "--help-all"])
    told = capsys.readouterr().out
    assert "--reward.network.view.crop" in told
    for own in ("--task", "--reward.network.frame-channels", "--reward.network.height"):
        assert own not in told


def test_help_shows_what_most_people_set(capsys):
    with pytest.raises(SystemExit):
        main(["train", "lift", "--help"])
    told = capsys.readouterr().out
    assert "--demonstrations" in told
    assert "--reward." not in told
    assert "--help-all" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--worlds", "0"], "pureward: worlds must be at least 1, got 0; raise it"),
        (["--agent.atoms", "1"], "pureward: atoms must lie in [2, 16,384], got 1"),
        (
            ["--method", "gail"],
            "pureward: an expert learns from the task's own reward, got method 'ga",
        ),
        (
            ["--prior", "0.3"],
            "pureward: an expert learns from the task's own reward, got prior '0.3",
        ),
        (
            ["--failures", "data"],
            "pureward: an expert learns from the task's own reward, got failures",
        ),
    ],
)
def test_a_setting_that_refuses_its_value_says_so_in_a_line(words, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["expert", "reach", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(sentence)
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "TASK"),
        (["reach", "--demonstration", "data"], "--demonstrations"),
        (["reach"], "pureward: method 'nn-pugail' needs demonstrations, got ''"),
        (["reach", "--method", "prl"], "pureward: method 'prl' needs annotations, got ''"),
    ],
)
def test_words_are_read_before_data_is_asked_for(words, told, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert ("needs" in error) == told.startswith("pureward")


def test_words_that_cannot_be_read_are_told_with_their_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["expert", "reach", "--worlds", "many"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "--worlds" in error
    assert "Environments that step together" in error


@pytest.mark.parametrize("words", [["nosuchverb", "--help"], ["nosuchverb"], ["Train", "-h"]])
def test_an_unknown_verb_is_refused_with_the_list_of_verbs(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert f"unknown verb {words[0]!r}; choose from tasks, show, expert, train" in told


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["fast", "paper"])
def test_a_printed_configuration_is_read_back(method, name, tmp_path, monkeypatch, capsys):
    main(["config", "reach", "--method", method, "--preset", name])
    printed = tmp_path / "printed.toml"
    printed.write_text(capsys.readouterr().out)
    trained = []

    def train(settings, resume):
        trained.append(settings)
        return RunResult(path=tmp_path, state="finished", env_steps=0, evaluation={})

    monkeypatch.setattr("pureward.training.loop.train", train)
    verb = "expert" if method == "truth" else "train"
    positives = METHODS[method].positives
    data = [f"--{positives}", "data"] if positives else []
    main([verb, "reach", "--config", str(printed), *data, "--seed", "3"])
    given = {positives: "data"} if positives else {}
    assert trained == [preset("reach", name, method=method, seed=3, **given)]


def test_where_a_setting_comes_from_is_printed(capsys):
    main(["config", "reach"])
    lines = capsys.readouterr().out.splitlines()
    origins = {line.split(" = ")[0]: line.rpartition("# ")[2] for line in lines[1:]}
    assert origins["method"] == "command line"
    assert origins["prior"] == "preset fast of reach: imitation pu"
    assert origins["reward.slack"] == "default"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("worlds = ", "must be a TOML file of settings"),
        ("wolrds = 8", "unknown setting 'wolrds' of a run; try worlds"),
        ('worlds = "eight"', "worlds must be like 1024, got 'eight'"),
        ('task = "walker"', "the task on the command line is reach"),
        (None, "must be a TOML file of settings"),
    ],
)
def test_a_file_of_settings_that_cannot_be_used_is_told(text, told, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit):
        main(["train", "reach", "--config", str(path), "--demonstrations", "data"])
    assert told in capsys.readouterr().err
