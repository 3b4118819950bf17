"""Environments free their memory as soon as they are dropped or closed."""

import gc
import weakref

import numpy as np
import pytest
import torch

import pureward
from pureward.diagnostics.show import show
from pureward.envs.vector import make_single, make_vec
from pureward.errors import InputError
from pureward.training.evaluate import film


@pytest.fixture(scope="module")
def compiled():
    """Compile first: Warp's compiler leaves reference cycles."""
    for engine in ("mujoco", "warp"):
        made(engine=engine, cameras=True)


@pytest.fixture
def no_collector(compiled):
    """Disable the garbage collector: reference counts alone must free the memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def large_parts(env) -> list[weakref.ref]:
    """The objects that hold a simulator's memory."""
    cameras = env.cameras
    seen = [] if cameras is None else [cameras, cameras.frames, cameras._renderer, cameras._data]
    return [weakref.ref(part) for part in (env.engine, env.engine.state.qpos, *seen)]


def made(**options):
    env = pureward.make("reach", 2, "cpu", **options)
    env.step(torch.zeros(2, env.action_size))
    return env


@pytest.mark.parametrize("engine", ["mujoco", "warp"])
@pytest.mark.parametrize("cameras", [False, True])
def test_a_dropped_environment_is_freed_at_once(engine, cameras, no_collector):
    for _ in range(3):
        env = made(engine=engine, cameras=cameras)
        kept = [weakref.ref(env), *large_parts(env)]
        del env
        assert [part() for part in kept] == [None] * len(kept)


@pytest.mark.parametrize("engine", ["mujoco", "warp"])
def test_a_closed_environment_keeps_no_simulator(engine, no_collector):
    with made(engine=engine, cameras=True) as env:
        kept = large_parts(env)
        assert all(part() is not None for part in kept)
    assert [part() for part in kept] == [None] * len(kept)
    env.close()
    for use in (
        env.reset,
        env.check,
        env.state_dict,
        lambda: env.step(torch.zeros(2, env.action_size)),
        lambda: env.load_state_dict({}),
        env.simulator_state,
        lambda: env.draw({}),
    ):
        with pytest.raises(InputError, match="closed environment cannot be used; make another"):
            use()


def test_films_leave_no_environment_behind(tmp_path, no_collector):
    env = made(cameras=True)
    env.horizon = 3
    kept = [weakref.ref(env), *large_parts(env)]
    film(env, lambda state: torch.zeros(len(state), 2), tmp_path / "film.mp4", seed=0)
    del env
    assert [part() for part in kept] == [None] * len(kept)


def test_show_closes_its_environment(tmp_path, monkeypatch, no_collector):
    kept = []

    def recording_make(*args, **options):
        env = pureward.make(*args, **options)
        kept.extend(large_parts(env))
        return env

    monkeypatch.setattr("pureward.diagnostics.show.make", recording_make)
    show("reach", tmp_path, worlds=2, steps=2, device="cpu")
    assert kept
    assert [part() for part in kept] == [None] * len(kept)


def test_gymnasium_s_close_frees_the_simulator(no_collector):
    batch = make_vec("reach", 2, device="cpu", cameras=True)
    single = make_single("reach", device="cpu", cameras=True)
    for env in (batch, single):
        env.reset(seed=0)
        kept = large_parts(env.env)
        env.close()
        assert [part() for part in kept] == [None] * len(kept)
    with pytest.raises(InputError, match="closed environment"):
        single.step(np.zeros(2, np.float32))
