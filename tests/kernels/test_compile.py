"""Triton kernels are compiled on all cores before they are launched. No GPU is needed for it."""

import subprocess
import sys

import pytest

pytest.importorskip("triton")

# In a process of its own, because other tests import the kernels for Triton's interpreter.
SCRIPT = """
import threading
import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction


class NoGPU:
    get_current_target = staticmethod(lambda: GPUTarget("cuda", 80, 32))
    get_current_device = staticmethod(lambda: 0)
    get_current_stream = staticmethod(lambda device: 0)
    get_active_torch_device = staticmethod(lambda: torch.device("cpu"))


driver.set_active(NoGPU())
compiled = []
knobs.runtime.jit_post_compile_hook = lambda **facts: compiled.append(facts["fn"].name)

from pureward.kernels.rewards.risk import differentiated
from pureward.kernels.verify import compile_kernels
from pureward.rewards.risks.pu import nnpu, pn

run = JITFunction.run
settings = dict(prior=torch.tensor(0.5), slack=0.0, step_back=1.0, loss="logistic", even=False)


def work():
    for risk in (pn, nnpu, pn):
        differentiated(risk, torch.zeros(300), 120, **settings)
    raise ValueError("arbitrary results may raise")


compile_kernels(work)
assert len(compiled) == 2, compiled
assert JITFunction.run is run
compile_kernels(work)
assert len(compiled) == 2, compiled
"""


def test_kernels_are_compiled_once_and_not_launched(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("*.cubin"))) == 2
