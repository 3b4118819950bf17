"""The Jaco scene: its model, its observations and its physics."""

import mujoco
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pureward
from pureward.envs.tasks import TASKS
from pureward.envs.tasks.jaco import state as layout
from pureward.envs.tasks.jaco.objects import BLOCK, OBJECT_RADII, OBJECTS
from pureward.envs.tasks.jaco.scene import TRAY

LIFT = TASKS["lift"]
MODEL = LIFT.build()
CPU = torch.device("cpu")
DRAW = LIFT.reset(MODEL, CPU)

TABLE_1 = {
    "base force and torque sensors": 6,
    "arm joints position": 6,
    "arm joints velocity": 6,
    "wrist force and torque sensors": 6,
    "hand finger joints position": 3,
    "hand finger joints velocity": 3,
    "hand fingertip sensors": 3,
    "grip site position": 3,
    "pinch site position": 3,
}


def observed(env, obs, name: str) -> torch.Tensor:
    names = list(env.task.observed)
    start = sum(env.task.observed[other] for other in names[: names.index(name)])
    return obs.state[:, start : start + env.task.observed[name]]


def first_position(model, body: int) -> int:
    """The index in `qpos` of a free object's pose: position (3), quaternion (4)."""
    return model.jnt_qposadr[model.body_jntadr[body]]


def deepest(model, qpos: torch.Tensor) -> float:
    """Metres of the deepest overlap in one world."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos.numpy()
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_collision(model, data)
    return -min((contact.dist for contact in data.contact[: data.ncon]), default=0.0)


def kinetic_energy(model, qvel: torch.Tensor) -> torch.Tensor:
    """Joules in the free objects of each world; a body's velocity is in its own inertial frame."""
    total = torch.zeros(len(qvel), dtype=qvel.dtype)
    for body in layout.OBJECT_BODIES:
        at = model.jnt_dofadr[model.body_jntadr[body]]
        inertia = torch.tensor(model.body_inertia[body].max(), dtype=qvel.dtype)
        linear, angular = qvel[:, at : at + 3], qvel[:, at + 3 : at + 6]
        total += 0.5 * float(model.body_mass[body]) * linear.square().sum(1)
        total += 0.5 * inertia * angular.square().sum(1)
    return total


@pytest.mark.parametrize("name", ["lift", "stack"])
@pytest.mark.parametrize("distractors", ["cube", "cuboid"])
def test_indices_are_those_of_the_model(name, distractors):
    model = TASKS[name].model(distractors)
    bodies = [model.body(body).name for body in layout.OBJECT_BODIES]
    assert bodies == list(OBJECTS) == ["red", "blue", "green", "banana"]
    assert model.body(layout.HAND_BODY).name == "arm/b_6", "wrist and hand are one body"
    assert model.site(layout.GRIP_SITE).name == "hand/gripsite"
    assert model.site(layout.PINCH_SITE).name == "hand/pinchsite"
    assert [model.joint(i).name for i in range(6)] == [f"arm/joint_{i}" for i in range(1, 7)]
    assert [model.joint(i).name for i in range(6, 9)] == [f"hand/finger_{i}" for i in range(1, 4)]
    assert [first_position(model, body) for body in layout.OBJECT_BODIES] == [9, 16, 23, 30]
    kinds = [mujoco.mjtSensor(kind).name.removeprefix("mjSENS_") for kind in model.sensor_type]
    assert kinds == ["FORCE", "TORQUE", "FORCE", "TORQUE", "TOUCH", "TOUCH", "TOUCH"]
    sites = [model.site(site).name for site in model.sensor_objid[::2]]
    assert sites == ["arm/base", "arm/wristsite", "hand/fingertip_1", "hand/fingertip_3"]


def test_time_and_actions_are_the_papers():
    assert MODEL.opt.timestep == 0.01
    assert LIFT.control_step(MODEL) == 0.05
    assert LIFT.horizon == TASKS["stack"].horizon == 400
    assert LIFT.hold == TASKS["stack"].hold == 10
    assert LIFT.cameras == ("front_left", "front_right")
    assert MODEL.nu == 9
    limits = np.degrees(MODEL.actuator_ctrlrange[:6, 1])
    np.testing.assert_allclose(limits, [36, 36, 36, 48, 48, 48])
    np.testing.assert_array_equal(MODEL.actuator_ctrlrange[:, 0], -MODEL.actuator_ctrlrange[:, 1])


def test_observations_are_the_papers_table_and_the_objects():
    own, objects = list(LIFT.observed.items())[:9], list(LIFT.observed.items())[9:]
    assert dict(own) == TABLE_1
    assert [name for name, _ in own] == list(TABLE_1), "in the table's order"
    assert objects == [(f"{name} pose from the pinch site", 9) for name in OBJECTS]
    assert pureward.make("lift", 1, "cpu").state_size == sum(LIFT.observed.values()) == 75


def test_observations_show_the_state():
    env = pureward.make("lift", 2, "cpu", seed=4)
    for _ in range(6):
        step = env.step(torch.tensor([[0.5] * 9, [-0.5] * 9]))
    state = env.engine.state
    shown = {name: observed(env, step.obs, name).double() for name in LIFT.observed}
    near = {"atol": 1e-6, "rtol": 1e-6}
    torch.testing.assert_close(shown["arm joints position"], state.qpos[:, :6], **near)
    torch.testing.assert_close(shown["hand finger joints velocity"], state.qvel[:, 6:9], **near)
    pinch = torch.from_numpy(_site(env, 1, "hand/pinchsite"))
    torch.testing.assert_close(shown["pinch site position"][1], pinch, **near)
    frame = state.xmat[1, layout.HAND_BODY]
    seen = shown["red pose from the pinch site"][1].view(3, 3)
    there = state.xpos[1, layout.RED]
    torch.testing.assert_close(frame @ seen[0] + pinch, there, **near)
    torch.testing.assert_close(frame @ seen[1:].T, state.xmat[1, layout.RED, :, :2], **near)


def test_observed_distances_are_clipped():
    env = pureward.make("lift", 2, "cpu", seed=4)
    far = env.engine.state.qpos.clone()
    start = first_position(MODEL, layout.BANANA)
    far[1, start : start + 3] = torch.tensor([300.0, -40.0, 900.0])
    env.engine.state.qpos.copy_(far)
    env.engine.refresh()
    seen = LIFT.observe(env.engine.state)[1, -9:-6]
    assert seen.abs().tolist() == [2.0] * 3
    assert LIFT.reward(env.engine.state)[1] == 0.0


def test_a_world_whose_banana_flies_away_is_replaced(monkeypatch):
    monkeypatch.setattr("pureward.envs.divergence._MAX_RATE", 0.5)
    env = pureward.make("lift", 3, "cpu", seed=4)
    height = first_position(MODEL, layout.BANANA) + 2
    env.engine.state.qpos[1, height] = 2e4
    step = env.step(torch.zeros(3, 9))
    assert step.terminated.tolist() == [False, True, False]
    assert env.diverged == 1
    assert not env.step(torch.zeros(3, 9)).terminated.any()


def _site(env, world: int, name: str) -> np.ndarray:
    data = mujoco.MjData(env.engine.model)
    data.qpos[:] = env.engine.state.qpos[world].numpy()
    mujoco.mj_kinematics(env.engine.model, data)
    return data.site(name).xpos.copy()


def test_the_base_sensor_measures_the_weight_and_fingertips_zero():
    env = pureward.make("lift", 1, "cpu")
    for _ in range(20):
        step = env.step(torch.zeros(1, 9))
    arm = sum(
        env.engine.model.body_mass[body]
        for body in range(env.engine.model.nbody)
        if body not in layout.OBJECT_BODIES
    )
    felt = 50.0 * np.tanh(9.81 * arm / 50.0)  # forces are squashed from 50 N on
    assert observed(env, step.obs, "base force and torque sensors")[0, 2] == pytest.approx(
        felt, rel=1e-3
    )
    assert (observed(env, step.obs, "hand fingertip sensors") == 0).all()


@pytest.mark.parametrize("engine", ["mujoco", "warp"])
def test_force_sensors_are_zero_after_a_reset(engine):
    env = pureward.make("lift", 2, "cpu", stagger=True, engine=engine)
    env.load_state_dict(env.state_dict() | {"elapsed": torch.tensor([0, env.horizon - 2])})
    for _ in range(2):
        step = env.step(torch.ones(2, 9))
    assert step.truncated.tolist() == [False, True]
    wrist = observed(env, step.obs, "wrist force and torque sensors")
    assert (wrist[1] == 0).all()
    lasting = observed(env, step.final_obs, "wrist force and torque sensors")
    assert torch.equal(wrist[0], lasting[0]), "the other world continues"
    assert (lasting != 0).any(dim=1).all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_objects_start_apart_and_in_the_tray(seed):
    qpos = DRAW(256, torch.Generator().manual_seed(seed))["qpos"]
    starts = [first_position(MODEL, body) for body in layout.OBJECT_BODIES]
    places = torch.stack([qpos[:, at : at + 2] for at in starts], dim=1)
    radius = torch.tensor([OBJECT_RADII[name] for name in OBJECTS])
    assert (places.abs() <= torch.tensor(TRAY) - radius[:, None] + 1e-6).all()
    for a in range(4):
        for b in range(a):
            between = torch.linalg.vector_norm(places[:, a] - places[:, b], dim=1)
            assert (between >= radius[a] + radius[b] - 1e-6).all()


def test_the_spare_layout_fits():
    places = np.array(layout._SPARE_LAYOUT)
    radius = np.array([OBJECT_RADII[name] for name in OBJECTS])
    assert (np.abs(places) <= np.array(TRAY) - radius[:, None]).all()
    for a in range(4):
        for b in range(a):
            assert np.linalg.norm(places[a] - places[b]) >= radius[a] + radius[b]


@pytest.mark.parametrize("distractors", ["cube", "cuboid"])
def test_nothing_overlaps_at_the_start(distractors):
    env = pureward.make("lift", 40, "cpu", seed=2, distractors=distractors)
    depths = [deepest(env.engine.model, qpos) for qpos in env.engine.state.qpos]
    assert max(depths) < 1e-5


def test_first_states_are_the_seeds():
    one, two, other = (pureward.make("stack", 8, "cpu", seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.reset().state, two.reset().state)
    assert not torch.equal(one.reset().state, other.reset().state)
    assert len({tuple(row) for row in one.reset().state.tolist()}) == 8


@pytest.mark.parametrize(("task", "own"), [("lift", {"banana"}), ("stack", {"red", "blue"})])
def test_distractors_change_what_is_not_the_tasks(task, own):
    cuboids, cubes, plain = (TASKS[task].model(shape) for shape in ("cuboid", "cube", ""))
    for name in ("red", "blue", "green"):
        edges = [0.04, 0.04, 0.08] if name not in own else [BLOCK] * 3
        np.testing.assert_allclose(2 * cuboids.geom(name).size, edges)
        np.testing.assert_allclose(2 * cubes.geom(name).size, [0.05] * 3)
        np.testing.assert_array_equal(cubes.geom(name).size, plain.geom(name).size)
        np.testing.assert_array_equal(cubes.geom(name).rgba, cuboids.geom(name).rgba)


def test_distractors_are_visible():
    frames = {
        shape: pureward.make("lift", 1, "cpu", cameras=True, distractors=shape).reset().frames
        for shape in ("cube", "cuboid")
    }
    differing = (frames["cube"].int() - frames["cuboid"].int()).abs() > 30
    assert 0.002 < differing.float().mean() < 0.05, "the blocks, and nothing else"


def test_unknown_distractors_are_rejected():
    with pytest.raises(pureward.InputError, match=r"'walker' has no distractors, got 'cube'"):
        pureward.make("walker", 1, "cpu", distractors="cube")
    with pytest.raises(pureward.InputError, match=r"unknown distractors 'ball'; choose from"):
        pureward.make("lift", 1, "cpu", distractors="ball")


def check_random_actions(env, steps: int) -> None:
    """Under random actions states stay finite, and objects stay in the tray and do not overlap.

    A struck object penetrates by what it moves in 10 ms, so an overlap may last one step.
    """
    model, state = env.engine.model, env.engine.state
    generator = torch.Generator().manual_seed(0)
    most_energy, depths, lasting = 0.0, [], []
    some = slice(None, None, max(1, env.worlds // 32))
    for index in range(steps):
        action = 2.0 * torch.rand(env.worlds, 9, generator=generator) - 1.0
        step = env.step(action.to(env.device))
        assert torch.isfinite(step.final_obs.state).all()
        assert ((step.reward >= 0) & (step.reward <= 1)).all()
        most_energy = max(most_energy, float(kinetic_energy(model, state.qvel.cpu()).max()))
        if index % 10 < 2:
            depths.append([deepest(model, qpos) for qpos in state.qpos[some].cpu()])
            if index % 10 == 1:
                lasting.append(np.minimum(depths[-1], depths[-2]))
    env.check()
    assert np.max(lasting) < 0.003
    assert np.quantile(depths, 0.999) < 0.003
    # A block that falls from the highest that the arm can reach has less than this.
    assert most_energy < 1.0
    places = state.xpos[:, layout.OBJECT_BODIES[0] :].cpu()
    assert (places[..., 2] > 0.01).all(), "nothing has sunk"
    assert (places[..., :2].abs() < torch.tensor(TRAY) + 0.1).all(), "nothing has left the tray"


def test_random_actions():
    check_random_actions(pureward.make("lift", 8, "cpu", seed=5), steps=399)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["lift", "stack"])
def test_random_actions_in_many_worlds(task):
    check_random_actions(pureward.make(task, 256, "cpu", seed=6), steps=399)


@pytest.mark.slow
def test_random_actions_on_warp():
    """256 worlds on a GPU; 8 on Warp's CPU device, which is serial."""
    cuda = torch.cuda.is_available()
    worlds, device = (256, "cuda") if cuda else (8, "cpu")
    check_random_actions(pureward.make("lift", worlds, device, engine="warp", seed=7), steps=399)


def test_objects_at_rest_stay_at_rest():
    env = pureward.make("stack", 16, "cpu", seed=8)
    before = env.engine.state.xpos[:, layout.OBJECT_BODIES[0] :].clone()
    for _ in range(100):
        env.step(torch.zeros(16, 9))
    after = env.engine.state.xpos[:, layout.OBJECT_BODIES[0] :]
    assert (after - before).abs().max() < 1e-4
    assert env.engine.state.qvel.abs().max() < 1e-4


def test_a_restored_scene_returns_the_same_observation():
    env = pureward.make("lift", 2, "cpu", seed=9)
    for _ in range(5):
        last = env.step(torch.full((2, 9), 0.7))
    again = pureward.make("lift", 2, "cpu", seed=10).load_state_dict(env.state_dict())
    assert torch.equal(again.state, last.obs.state)
