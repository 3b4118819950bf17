"""The command line as a process among others."""

import os
import subprocess
import sys

import pytest

from pureward.cli import main


def test_a_reader_who_has_seen_enough_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)  # as `head` does once it has its lines
    command = [sys.executable, "-c", "from pureward.cli import main; main(['tasks'])"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_train_does_not_ask_for_what_a_run_sets_itself(capsys):
    with pytest.raises(SystemExit):
        main(["train", "lift", "--help"])
    told = capsys.readouterr().out
    assert "--reward.augment.crop" in told
    for own in ("--reward.model.augment", "--reward.model.members", "--reward.network.height"):
        assert own not in told
