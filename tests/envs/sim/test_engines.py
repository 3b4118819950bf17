"""C MuJoCo, MuJoCo Warp and the fused kernel simulate the same worlds."""

from pathlib import Path
from runpy import run_path

import mujoco
import numpy as np
import pytest
import torch
import warp as wp

from pureward.envs.sim.engine import SAVED, Limits
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.tasks import TASKS
from pureward.errors import InputError
from pureward.kernels.sim.warp_runtime import (
    compile_kernels,
    compile_solver,
    quiet_start,
    solvers_of,
)

CPU = torch.device("cpu")
WALKER = TASKS["walker"]
MODEL = WALKER.build()


def c_engine(worlds: int, task=WALKER) -> CpuEngine:
    return CpuEngine(task.build(), worlds, substeps=task.substeps)


def warp_engine(worlds: int, task=WALKER, **options) -> WarpEngine:
    options.setdefault("limits", task.limits)
    return WarpEngine(task.build(), worlds, substeps=task.substeps, device=CPU, **options)


def scatter(engine, seed: int = 0) -> None:
    """Random poses, then some steps, so that many worlds touch the ground and their limits."""
    generator = torch.Generator().manual_seed(seed)
    first = WALKER.reset(MODEL, torch.device("cpu"))(engine.worlds, generator)
    engine.state.qpos.copy_(first["qpos"])
    engine.refresh()
    for _ in range(10):
        act(engine, generator)
        engine.step()


def act(engine, generator) -> None:
    shape = engine.state.ctrl.shape
    engine.state.ctrl.copy_(2.0 * torch.rand(shape, generator=generator) - 1.0)


def copy_worlds(source, target) -> None:
    for name in SAVED:
        getattr(target.state, name).copy_(getattr(source.state, name))


def test_c_engine_is_mujoco_itself():
    engine = c_engine(3)
    scatter(engine)
    data = [mujoco.MjData(MODEL) for _ in range(3)]
    for world, one in enumerate(data):
        one.time = float(engine.state.time[world])
        for name in set(SAVED) - {"time"}:
            getattr(one, name)[...] = getattr(engine.state, name)[world].numpy()
    engine.step()
    for world, one in enumerate(data):
        for _ in range(WALKER.substeps):
            mujoco.mj_step(MODEL, one)
        mujoco.mj_step1(MODEL, one)
        np.testing.assert_array_equal(engine.state.qpos[world], one.qpos)
        np.testing.assert_array_equal(engine.state.sensordata[world], one.sensordata)
        np.testing.assert_array_equal(engine.state.xpos[world], one.xpos)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "mujoco_warp"])
def test_warp_follows_c_mujoco_for_a_control_step(fused):
    """Same states, same controls, ten substeps, contacts and limits active.

    Single precision leaves about 1e-6 after ten substeps; a contact that opens or closes a
    substep apart can leave more, so the bound is on 99 of 100 worlds, with a loose one on all.
    """
    worlds = 200 if fused else 40
    reference, engine = c_engine(worlds), warp_engine(worlds, fused=fused)
    assert engine.fused is fused
    scatter(reference)
    generator = torch.Generator().manual_seed(1)
    position, velocity = [], []
    for _ in range(10 if fused else 3):
        act(reference, generator)
        copy_worlds(reference, engine)
        reference.step()
        engine.step()
        position.append((engine.state.qpos - reference.state.qpos).abs().amax(1))
        velocity.append((engine.state.qvel - reference.state.qvel).abs().amax(1))
    position, velocity = torch.cat(position), torch.cat(velocity)
    assert position.median() < 1e-6
    assert position.quantile(0.99) < 2e-5
    assert velocity.quantile(0.99) < 2e-3
    assert position.max() < 5e-2


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "mujoco_warp"])
def test_derived_fields_are_up_to_date_after_a_step(fused):
    engine, reference = warp_engine(4, fused=fused), c_engine(4)
    scatter(engine)
    copy_worlds(engine, reference)
    reference.refresh()
    for name in ("xpos", "xmat", "xquat", "sensordata"):
        torch.testing.assert_close(
            getattr(engine.state, name).double(), getattr(reference.state, name), atol=2e-6, rtol=0
        )


@pytest.mark.parametrize("make", [c_engine, warp_engine], ids=["c", "warp"])
def test_saved_worlds_continue_exactly(make):
    engine = make(5)
    scatter(engine)
    saved = {name: getattr(engine.state, name).clone() for name in SAVED}
    paths = []
    for _ in range(2):
        for name in SAVED:
            getattr(engine.state, name).copy_(saved[name])
        engine.refresh()
        generator = torch.Generator().manual_seed(2)
        for _ in range(5):
            act(engine, generator)
            engine.step()
        paths.append(engine.state.qpos.clone())
    assert torch.equal(*paths)


def test_worlds_are_independent():
    many, one = c_engine(6), c_engine(1)
    scatter(many)
    for name in SAVED:
        getattr(one.state, name)[0] = getattr(many.state, name)[4]
    one.refresh()
    many.step()
    one.step()
    torch.testing.assert_close(one.state.qpos[0], many.state.qpos[4], atol=1e-12, rtol=0)


def test_full_buffers_are_reported():
    engine = warp_engine(4, limits=Limits(contacts=1, constraints=4), fused=False)
    engine.state.qpos[:, 0] = -1.0  # sunk into the ground: every capsule touches
    engine.refresh()
    engine.step()
    fault = engine.fault()
    assert fault is not None
    assert "of 4 worlds ran out of" in fault
    assert "raise the task's Limits" in fault
    assert engine.fault() is None


@pytest.mark.parametrize("make", [c_engine, warp_engine], ids=["c", "warp"])
def test_nan_is_reported(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its warning to a log file here
    engine = make(3)
    assert engine.fault() is None
    engine.state.qpos[1] = float("nan")
    engine.step()
    fault = engine.fault()
    assert fault is not None
    assert "1 of 3 worlds" in fault


def test_bytes_per_world(monkeypatch):
    benchmarks = Path(__file__).parents[3] / "benchmarks"
    monkeypatch.syspath_prepend(benchmarks)  # it imports another one
    tool = run_path(str(benchmarks / "simulation.py"))
    assert 1_000 < tool["bytes_per_world"](warp_engine(2)) < 1_000_000


def test_a_failed_allocation_is_a_memory_error(monkeypatch):
    def full(*_, **__):
        raise ValueError("Could not allocate memory")

    monkeypatch.setattr("pureward.envs.sim.mujoco_cpu.Batch", full)
    with pytest.raises(MemoryError, match="3 worlds: Could not allocate memory"):
        c_engine(3)


SENSES = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <site name="fixed" pos="0 0 0.5"/>
    <body>
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
      <site name="end" pos="0.3 0 0"/>
    </body>
  </worldbody>
  <tendon><spatial name="wire"><site site="fixed"/><site site="end"/></spatial></tendon>
  <actuator><motor name="motor" joint="hinge" ctrlrange="-1 1"/></actuator>
  <sensor>
    <tendonpos tendon="wire"/><tendonvel tendon="wire"/>
    <actuatorpos actuator="motor"/><actuatorvel actuator="motor"/>
    <e_kinetic/>
  </sensor>
</mujoco>
"""


def test_sensors_are_up_to_date():
    model = mujoco.MjModel.from_xml_string(SENSES)
    limits = Limits(contacts=1, constraints=4)
    c = CpuEngine(model, 2, substeps=5)
    warp = WarpEngine(model, 2, substeps=5, limits=limits, device=CPU)
    for engine in (c, warp):
        engine.state.qvel[:, 0] = torch.tensor([1.0, -2.0])
        engine.step()
    seen = warp.state.sensordata.double()
    torch.testing.assert_close(seen, c.state.sensordata, atol=1e-5, rtol=0)
    for engine in (c, warp):
        engine.state.qpos.add_(0.3)
        engine.refresh()
    seen = warp.state.sensordata.double()
    torch.testing.assert_close(seen, c.state.sensordata, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("option", "motor", "named"),
    [
        ('solver="PGS"', "", "PGS"),
        ('actuatorgroupdisable="1"', "", "disabled actuators"),
        ("", 'armature="0.1"', "armature"),
    ],
)
def test_models_that_warp_does_not_support_are_rejected(option, motor, named):
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option {option}/>
        <worldbody><body><joint name="hinge"/><geom size="0.1"/></body></worldbody>
        <actuator><motor joint="hinge" ctrlrange="-1 1" {motor}/></actuator></mujoco>"""
    )
    CpuEngine(model, 1, substeps=1).step()
    with pytest.raises(InputError, match=f"{named}.*engine='mujoco'"):
        WarpEngine(model, 1, substeps=1, limits=WALKER.limits, device=CPU)


@pytest.mark.parametrize("task", ["walker", "lift"])
def test_compiling_leaves_the_worlds_as_they_are(task):
    engine = warp_engine(2, TASKS[task])
    engine.step()
    fields = {name: engine.field(name).clone() for name in SAVED}
    launch = wp.launch
    compile_kernels(engine._advance, CPU)
    assert wp.launch is launch
    assert all(torch.equal(engine.field(name), before) for name, before in fields.items())
    other = warp_engine(2, TASKS[task])
    copy_worlds(engine, other)
    for one in (engine, other):
        one.step()
    assert all(torch.equal(engine.field(n), other.field(n)) for n in (*SAVED, "sensordata"))


def test_kernels_of_a_step_are_compiled_before_it(monkeypatch):
    engine = warp_engine(2, TASKS["walker"], fused=False)
    loaded = set()
    monkeypatch.setattr(wp, "force_load", lambda device, modules, block_dim: loaded.update(modules))
    compile_kernels(engine._advance, CPU)
    launched, empty = set(), set()
    launch = wp.launch

    def recorded(kernel, dim, *args, **settings):
        (launched if np.prod(dim) else empty).add(kernel.module)
        return launch(kernel, dim, *args, **settings)

    monkeypatch.setattr(wp, "launch", recorded)
    engine.step()
    assert launched
    assert launched <= loaded
    assert empty - launched
    assert loaded.isdisjoint(empty - launched)


def test_solvers_of_tiled_kernels_are_compiled_into_the_cache(monkeypatch, tmp_path):
    @wp.kernel(module="unique", enable_backward=False)
    def factorise(a: wp.array2d(dtype=float)):  # type: ignore[valid-type]
        tile = wp.tile_load(a, shape=(4, 4))
        wp.tile_cholesky_inplace(tile)
        wp.tile_store(a, tile)

    quiet_start()
    if not wp._src.context.runtime.core.wp_is_mathdx_enabled():
        pytest.skip("this build of Warp has no solvers for tiles")
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    (solver,) = solvers_of({factorise.module: {256}}, arch=90)
    compile_solver(solver)
    compiled = sorted((tmp_path / "lto").iterdir())
    assert compiled
    # What Warp compiles for the kernel is what it finds there.
    wp.compile_aot_module(factorise.module, arch=90)
    assert sorted((tmp_path / "lto").iterdir()) == compiled


def test_work_that_cannot_be_recorded_is_left_to_the_first_launch():
    launch = wp.launch

    def work():
        raise RuntimeError("it reads a result")

    compile_kernels(work, CPU)
    assert wp.launch is launch
