"""Frames: the same from both engines, up to date, with the right colours."""

import pytest
import torch

from pureward.envs.sim import ray_caster
from pureward.envs.sim.camera import Cameras
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.tasks import TASKS
from pureward.errors import InputError

WALKER = TASKS["walker"]
MODEL = WALKER.build()


def fallen(worlds: int) -> CpuEngine:
    engine = CpuEngine(MODEL, worlds, substeps=WALKER.substeps)
    first = WALKER.reset(MODEL, torch.device("cpu"))(worlds, torch.Generator().manual_seed(0))
    engine.state.qpos.copy_(first["qpos"])
    engine.refresh()
    return engine


def test_both_engines_draw_the_same():
    c = fallen(3)
    warp = WarpEngine(
        MODEL, 3, substeps=WALKER.substeps, limits=WALKER.limits, device=torch.device("cpu")
    )
    warp.state.qpos.copy_(c.state.qpos)
    warp.refresh()
    one, two = Cameras(c, ("side",)).render(), Cameras(warp, ("side",)).render()
    assert one.shape == (3, 3, 64, 64)
    assert one.dtype == torch.uint8
    differing = (one.int() - two.int()).abs() > 8
    assert differing.float().mean() < 0.002


def test_cameras_are_stacked_as_channels_and_differ():
    engine = fallen(2)
    frames = Cameras(engine, ("side", "back")).render()
    assert frames.shape == (2, 6, 64, 64)
    alone = Cameras(engine, ("back",)).render()
    assert torch.equal(frames[:, 3:], alone)
    assert not torch.equal(frames[:, :3], frames[:, 3:])


def test_colours_are_red_green_blue_and_the_walker_is_there():
    engine = fallen(1)
    engine.state.qpos.zero_()  # upright, at the origin
    engine.refresh()
    frame = Cameras(engine, ("side",)).render()[0].float()
    red, green, blue = frame[:, 20:32, 30:34].mean(dim=(1, 2))  # the torso
    assert red > green > blue
    red, _, blue = frame[:, 60:, :8].mean(dim=(1, 2))  # the floor
    assert blue > red


def test_frames_follow_the_state():
    engine = fallen(1)
    cameras = Cameras(engine, ("side",))
    before = cameras.render().clone()
    engine.state.qpos[:, 2] += 1.0
    engine.refresh()
    assert not torch.equal(before, cameras.render())


def test_shadows_darken():
    engine = fallen(2)
    plain = Cameras(engine, ("side",)).render().float().mean()
    shadowed = Cameras(engine, ("side",), shadows=True).render().float().mean()
    assert shadowed < plain - 0.1


def test_an_unknown_camera_is_named():
    with pytest.raises(InputError, match="frames need a camera, and the task names none"):
        Cameras(fallen(1), ())
    with pytest.raises(InputError, match=r"unknown camera 'top'; the model has \['side', 'back'\]"):
        Cameras(fallen(1), ("top",))


def test_rays_are_cast_tile_by_tile():
    order = ray_caster.tile_order(16, torch.device("cpu"))
    assert order[:16].tolist() == [*range(8), *range(16, 24)]  # two rows of the first tile
    assert order[32:40].tolist() == list(range(8, 16))  # the tile beside it
    assert order.sort().values.tolist() == list(range(256))
    assert len(ray_caster.tile_order(42, torch.device("cpu")).unique()) == 42 * 42  # tiles of 2 × 2


def test_the_order_of_rays_does_not_change_frames(monkeypatch):
    engine = fallen(2)
    tiles = Cameras(engine, ("side", "back"), reference=True).render().clone()
    monkeypatch.setattr(ray_caster, "tile_order", lambda size, _: torch.arange(size * size))
    assert torch.equal(Cameras(engine, ("side", "back"), reference=True).render(), tiles)
