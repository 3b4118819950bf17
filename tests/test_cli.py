"""The command line as a process among others."""

import os
import subprocess
import sys


def test_a_reader_who_has_seen_enough_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)  # as `head` does once it has its lines
    command = [sys.executable, "-c", "from pureward.cli import main; main(['tasks'])"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""
