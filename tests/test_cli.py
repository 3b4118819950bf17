"""The command line: exit codes, messages, help and defaults."""

import errno
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from pureward.cli import main
from pureward.cli.verbs import evaluation_text
from pureward.rewards.methods import METHODS, choose
from pureward.rewards.priors import FixedPrior
from pureward.training.loop import RunResult
from pureward.training.presets import preset

# A command that imports no torch, which takes seconds.
LIGHT = "from pureward import cli; cli.tasks = lambda: print('1 ± 2'); cli.main(['tasks'])"


@pytest.mark.parametrize("script", [LIGHT, "from pureward import cli; cli.main(['--version'])"])
def test_a_closed_pipe_exits_with_141_and_no_message(script):
    read, write = os.pipe()
    os.close(read)  # as `head` does
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def run(script: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, **options
    )


def test_characters_outside_the_encoding_are_replaced():
    done = run(LIGHT, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 ? 2\n", "")


def test_a_closed_stdout_is_no_error():
    done = run(f"import sys; sys.stdout = None; {LIGHT}")
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_are_replaced_by_dev_null():
    """Otherwise a child process would write to whatever file gets number 1."""
    script = (
        "import os; from pureward.cli import _repair_streams; _repair_streams()\n"
        "assert [os.readlink(f'/proc/self/fd/{n}') for n in (0, 1)] == ['/dev/null'] * 2\n"
        "assert os.get_inheritable(0) and os.get_inheritable(1)"
    )
    done = run(
        f"import os; os.closerange(0, 2); import sys; sys.stdin = sys.stdout = None; {script}"
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["expert", "reach", "--out", "{file}"], "must be a folder or be in one"),
        (["show", "reach", "--out", "{file}/deep"], "must be a folder or be in one"),
        (["show", "reach", "--policy", "os:getcwd", "--out", "{out}"], "must turn states"),
        (["plot", "not-read", "--out", "{out}/a.doc"], "must end in .png, .pdf, .svg, got 'a.doc'"),
        (["reproduce", "imitation", "--budget", "-1", "--dry-run"], "number of minutes, got -1.0"),
        (
            ["reproduce", "imitation", "--seeds", "1000000000"],
            "seeds must be 1 to 1,000, got 1,000,000,000",
        ),
    ],
)
def test_bad_input_is_rejected_with_a_message(command, message, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    places = {"file": tmp_path / "file", "out": tmp_path / "out"}
    with pytest.raises(SystemExit) as stop:
        main([word.format(**places) for word in command])
    assert stop.value.code in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "pureward: interrupted"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore"),
            1,
            "out of memory (Def",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.png"),
            1,
            "no space left to write a.png; free some and call again",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "runs"),
            1,
            "permission denied: runs (Read-only file system); change its permissions",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/proc/a"),
            1,
            "/proc/a is not there, or cannot be made; choose another path",
        ),
        (MemoryError("Unable to allocate 7 PiB"), 1, "out of memory (Unable to allocate 7 PiB)"),
    ],
)
def test_system_errors_and_ctrl_c_print_one_line(raised, code, message, monkeypatch, capsys):
    def shown(*_, **__):
        raise raised

    monkeypatch.setattr("pureward.diagnostics.show.show", shown)
    with pytest.raises(SystemExit) as stop:
        main(["show", "reach"])
    assert stop.value.code == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["fit", "--unlabeled", "a", "--out", "b"], "free some and call again\n"),
        (["train", "reach"], "free some and call again with --resume\n"),
    ],
)
def test_a_full_disk_names_the_remedy_of_the_command(words, remedy, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "a")

    monkeypatch.setattr("pureward.cli.parse", lambda *_: full)
    with pytest.raises(SystemExit):
        main(words)
    assert capsys.readouterr().err.endswith(remedy)


def test_a_fit_to_a_path_alone_names_the_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["fit", "demos", "--unlabeled", "logs", "--out", "rewards"])
    assert stop.value.code == 2
    assert "got 'demos' alone; write --demonstrations demos, or" in capsys.readouterr().err


def test_a_bug_keeps_its_traceback(monkeypatch):
    def shown(*_, **__):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("pureward.diagnostics.show.show", shown)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main(["show", "reach"])


@pytest.mark.parametrize("words", [["--help"], ["score", "--help"]])
def test_help_in_a_very_narrow_terminal_is_20_columns_wide(words):
    script = f"from pureward import cli; cli.main({words})"
    done = run(script, env={**os.environ, "COLUMNS": "3"}, timeout=60)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()[-1]) == 20, "the lower edge of a box"


def test_help_all_hides_settings_that_the_environment_sets(capsys):
    with pytest.raises(SystemExit):
        main(["train", "lift", "--help-all"])
    printed = capsys.readouterr().out
    assert "--reward.network.view.crop" in printed
    for own in ("--task", "--reward.network.frame-channels", "--reward.network.height"):
        assert own not in printed


def test_help_shows_common_settings(capsys):
    with pytest.raises(SystemExit):
        main(["train", "lift", "--help"])
    printed = capsys.readouterr().out
    assert "--demonstrations" in printed
    assert "--reward." not in printed
    assert "--help-all" in printed
    assert printed.count("│ --") <= 14


def test_help_tells_the_prior_of_a_run_without_one(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["train", "walker", "--help"])
    assert '"" for 0.5, or for a method without η. (default: bbe' in capsys.readouterr().out
    chosen = choose("nn-pugail")
    assert chosen is not None
    assert chosen.prior == FixedPrior(value=0.5)


def test_help_of_expert_has_no_settings_of_learned_rewards(capsys):
    with pytest.raises(SystemExit):
        main(["expert", "lift", "--help"])
    printed = capsys.readouterr().out
    assert "--env-steps" in printed
    for refused in ("--method", "--demonstrations", "--annotations", "--prior"):
        assert refused not in printed


@pytest.mark.parametrize(
    "words",
    [
        *([verb] for verb in ("train", "expert", "fit", "check", "score", "reproduce", "plot")),
        *([verb] for verb in ("studio", "sweep", "show", "probe")),
        ["train", "reach", "--help-all"],
    ],
)
def test_help_shows_no_empty_default(words, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for empty in ("(default: )", "(default: '')", "(default: FOLDER)"):
        assert empty not in printed
    assert "(default: None)" not in printed or "--help-all" in words, "reward.model.patience"


def test_help_without_a_verb_has_a_sentence_per_verb(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert printed.count("•") == 17
    assert "For example" not in printed
    assert "--version" in printed


def test_a_misspelt_option_is_answered_for_its_verb_alone(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "reach", "--demonstratoins", "data"])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "--demonstrations STR" in error
    assert "pureward train --help" in error
    assert "pureward fit" not in error


@pytest.mark.parametrize("colours", [True, False])
def test_no_color_is_respected(colours, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "" if colours else "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit):
        main(["probe", "--nosuch"])
    assert ("\x1b" in capsys.readouterr().err) is colours


def test_an_interrupted_run_says_how_to_continue(tmp_path, monkeypatch, capsys):
    def train(settings, resume):
        return RunResult(path=tmp_path, state="interrupted", env_steps=8, evaluation={})

    monkeypatch.setattr("pureward.training.loop.train", train)
    main(["expert", "reach"])
    assert capsys.readouterr().out.endswith("\npass --resume to continue\n")


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
            "pureward: truth has no discriminator, so the prior 0.3 would have no effect; leave",
        ),
        (
            ["--failures", "data"],
            "pureward: truth has no discriminator, so known failures would have no effect; leave",
        ),
    ],
)
def test_an_invalid_setting_prints_one_line(words, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["expert", "reach", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(sentence)
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "TASK"),
        (["reach", "--demonstration", "data"], "--demonstrations"),
        (["reach"], "pureward: method 'nn-pugail' needs demonstrations, got ''"),
        (["reach", "--method", "prl"], "pureward: method 'prl' needs annotations, got ''"),
    ],
)
def test_options_are_checked_before_data(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert ("needs" in error) == message.startswith("pureward")


@pytest.mark.parametrize("task", ["reach", "walker", "lift", "stack"])
@pytest.mark.parametrize("words", [["--frames", "camera"], ["--state", "arm"], ["--processes"]])
def test_options_of_gymnasium_environments_are_for_these_alone(task, words, tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stop:
        main(["train", task, "--demonstrations", "data", "--out", str(out), *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"are for Gymnasium environments, and {task!r} is not one; leave them out" in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("verb", "words", "rule"),
    [
        ("expert reach", ["--worlds", "nan"], "a whole number, got 'nan'"),
        ("expert reach", ["--agent.polyak", "most"], "a number, got 'most'"),
        ("expert reach", ["--agent.actor-layers", "9", "x"], "whole numbers, got '9', 'x'"),
        ("expert reach", ["--reward.network.view.contrast", "1", "x"], "2 numbers, got '1', 'x'"),
        ("evaluate a", ["--episodes", "1e3"], "a whole number, got '1e3'"),
        ("check a", ["--held-out", "it's"], 'a number, got "it\'s"'),
        ("import a --out b", ["--size", "9", "x"], "2 whole numbers, got '9', 'x'"),
        ("import a --out b", ["--size", "9"], "2 whole numbers, got '9'"),
    ],
)
def test_a_value_that_is_no_number_prints_one_line(verb, words, rule, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*verb.split(), *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    sentence = f"pureward: {words[0]} must be {rule}; leave it out for the default, "
    assert error.startswith(sentence)
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("option", "rule"), [("--films", "whole numbers"), ("--discount", "a number")]
)
def test_an_empty_default_is_not_named(option, rule, capsys):
    with pytest.raises(SystemExit):
        main(["score", "a", "b", "--out", "c", option, "x"])
    assert capsys.readouterr().err == (
        f"pureward: {option} must be {rule}, got 'x'; leave it out\n"
    )


def test_descriptions_of_arguments_are_wrapped_by_the_terminal_alone(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["studio", "--help"])
    assert "people on other machines can use the page, if they have" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["nosuchverb", "--help"], ["nosuchverb"], ["Train", "-h"]])
def test_an_unknown_verb_is_rejected_with_the_list_of_verbs(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"unknown verb {words[0]!r}; choose from tasks, show, expert, train" in error


@pytest.mark.parametrize("word", ["--", "--nosuch"])
def test_a_verb_after_an_option_is_rejected(word, capsys):
    with pytest.raises(SystemExit) as stop:
        main([word, "tasks"])
    assert stop.value.code == 2
    assert "pureward --help" in capsys.readouterr().err


@pytest.fixture
def trained(tmp_path, monkeypatch) -> list:
    """The settings of runs, which are not started."""
    found = []

    def train(settings, resume):
        found.append(settings)
        return RunResult(path=tmp_path, state="finished", env_steps=0, evaluation={})

    monkeypatch.setattr("pureward.training.loop.train", train)
    return found


@pytest.mark.parametrize("data", ["demonstrations", "annotations"])
def test_train_without_a_method_takes_that_of_the_data(data, trained):
    main(["train", "reach", f"--{data}", "data"])
    assert trained == [preset("reach", **{data: "data"})]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["fast", "paper"])
def test_a_printed_configuration_is_read_back(method, name, tmp_path, trained, capsys):
    main(["config", "reach", "--method", method, "--preset", name])
    printed = tmp_path / "printed.toml"
    printed.write_text(capsys.readouterr().out)
    verb = "expert" if method == "truth" else "train"
    positives = METHODS[method].positives
    data = [f"--{positives}", "data"] if positives else []
    main([verb, "reach", "--config", str(printed), *data, "--seed", "3"])
    given = {positives: "data"} if positives else {}
    assert trained == [preset("reach", name, method=method, seed=3, **given)]


@pytest.mark.parametrize("change", ["risk", "method"])
def test_a_file_may_name_what_needs_known_failures(change, tmp_path, trained, monkeypatch, capsys):
    row = replace(METHODS["nn-pugail"], risk="nnpnu")
    monkeypatch.setitem(METHODS, "own", row)  # as a plugin's method may be
    main(["config", "reach", "--method", "nn-pugail" if change == "risk" else "own"])
    text = capsys.readouterr().out
    if change == "risk":
        text = text.replace('reward.risk = ""', 'reward.risk = "nnpnu"')
    (tmp_path / "mine.toml").write_text(text)
    words = ["train", "reach", "--config", str(tmp_path / "mine.toml"), "--demonstrations", "data"]
    with pytest.raises(SystemExit):
        main(words)
    assert "give --failures FOLDER" in capsys.readouterr().err
    main([*words, "--failures", "folder"])
    assert trained[0].failures == "folder"


@pytest.mark.parametrize(
    ("method", "positives"), [("nn-pugail", "demonstrations"), ("nn-purl", "annotations")]
)
def test_known_failures_and_their_risk_are_options(method, positives, trained):
    words = ["--failures", "folder", "--reward.risk", "nnpnu"]
    for given in (words, [*words[2:], *words[:2]]):
        main(["train", "reach", "--method", method, f"--{positives}", "data", *given])
        assert (trained[-1].failures, trained[-1].reward.risk) == ("folder", "nnpnu")


def test_config_prints_the_source_of_each_setting(capsys):
    main(["config", "reach"])
    lines = capsys.readouterr().out.splitlines()
    origins = {line.split(" = ")[0]: line.rpartition("# ")[2] for line in lines[1:]}
    assert origins["method"] == "command line"
    assert origins["prior"] == "preset fast of reach: imitation pu"
    assert origins["reward.slack"] == "default"
    assert "reward.network.height" not in origins, "frames decide it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worlds = ", "must be a TOML file of settings"),
        ("wolrds = 8", "unknown setting 'wolrds' of a run; try worlds"),
        ('worlds = "eight"', "worlds must be a whole number, without quotes, got 'eight'"),
        ("algorithm = []", "unknown algorithm []; choose from d4pg"),
        ('task = "walker"', "the task on the command line is reach"),
        (None, "must be a TOML file of settings"),
    ],
)
def test_a_bad_settings_file_is_rejected(text, message, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit):
        main(["train", "reach", "--config", str(path), "--demonstrations", "data"])
    assert message in capsys.readouterr().err


def test_an_evaluation_without_success_does_not_say_that_all_episodes_failed():
    numbers = {"return": 3.0, "return_ci95": 0.5, "return_min": 2.0, "return_max": 4.0}
    found = numbers | {"success": 0.0, "episodes": 8.0}
    told = evaluation_text(found)
    lasting = "no success that lasts 10 steps or ends the episode in 8 episodes"
    assert told == f"greedy return 3.0 ± 0.5 (95%), from 2.0 to 4.0; {lasting}"
    assert evaluation_text(found | {"success": 0.5}).endswith("; solved 50% of 8 episodes")
