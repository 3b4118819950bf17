import gc
import multiprocessing
import os

# With `pytest -n`, a core for each worker and the processes that it starts: MuJoCo, which starts a
# thread for every core, would else wait for threads of other workers.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})
# Before torch is imported: runs that are compared to the last bit, here and in processes of their
# own, must have the same number of threads on any machine. Tests use other cores by `pytest -n`.
os.environ["OMP_NUM_THREADS"] = "1"
# No test draws through OpenGL: dm_control must not look for a display when it is imported.
os.environ.setdefault("MUJOCO_GL", "disabled")

from dataclasses import fields, replace

import hypothesis
import pytest
import torch

# Triton reads it when it is first imported: without a GPU its kernels run in the interpreter.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from pureward.envs.tasks import TASKS

# The same examples every time, and no deadline: a busy machine may take a second for any of them.
hypothesis.settings.register_profile("everywhere", deadline=None, derandomize=True)
hypothesis.settings.load_profile("everywhere")


# Environments in processes start in milliseconds instead of seconds.
multiprocessing.set_forkserver_preload(["torch", "gymnasium", "pureward.envs.gymnasium_env"])


def pytest_collection_finish():
    """Exclude what the libraries made from garbage collection, which takes a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_everywhere():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    multiprocessing.set_start_method("forkserver", force=True)  # TorchRL sets another


@pytest.fixture(scope="session", autouse=True)
def _one_render_kernel_per_scene():
    """Share MuJoCo Warp's render kernels: making one takes as long as 20 control steps."""
    import warp as wp
    from mujoco_warp._src import render

    build, made = render._build_megakernel, {}
    constants = (int, float, bool, wp.uint32, wp.vec3)  # types of what is compiled in

    def shared(model, context):
        names = [field.name for field in fields(context) if field.type in constants]
        values = [str(getattr(context, name)) for name in (*names, "geom_ray_types")]
        key = (model.nlight, *values)
        if key not in made:
            made[key] = build(model, context)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "_build_megakernel", shared)
        yield


@pytest.fixture(scope="module")
def short_episodes():
    """Episodes of 10 steps and few frames an estimate: drawing and scoring take the longest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "reach", replace(TASKS["reach"], horizon=10))
        patch.setattr("pureward.online.prior._FRAMES", 64)
        yield
