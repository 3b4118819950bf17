"""The fused kernel: which models it supports, and that it agrees with MuJoCo."""

import mujoco
import pytest
import torch

from pureward.envs.sim.engine import Limits
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.sim.mujoco_warp import WarpEngine
from pureward.envs.tasks import TASKS
from pureward.kernels.sim import small_tree

LIMITS = Limits(contacts=8, constraints=32)

# Slides and hinges off their bodies' origins, tilted frames, springs, armature, two branches,
# a sphere and a capsule that fall onto a tilted plane far from the origin.
TREE = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom condim="3" contype="1" conaffinity="0" friction="0.8 .1 .1"/></default>
  <worldbody>
    <geom type="plane" size="50 50 1" conaffinity="1" euler="4 -6 0" pos="0 0 -0.2"/>
    <body pos="3 1 0.6" euler="10 20 30">
      <joint type="slide" axis="0 0 1" damping="0.2"/>
      <joint type="slide" axis="1 0.2 0"/>
      <joint type="hinge" axis="0 1 0" pos="0.05 0 0.1" armature="0.02"/>
      <geom type="capsule" fromto="-0.2 0 0 0.2 0.05 0" size="0.06"/>
      <body name="arm" pos="0.25 0 0" euler="0 -30 5">
        <joint name="elbow" type="hinge" axis="0.3 1 0.1" limited="true" range="-20 30"
               stiffness="2" springref="10" damping="0.1"/>
        <geom type="sphere" pos="0.2 0 -0.1" size="0.08"/>
      </body>
      <body pos="-0.25 0.1 0">
        <joint type="slide" axis="0.1 0 1" limited="true" range="-0.1 0.1" damping="1"/>
        <geom type="capsule" size="0.05 0.1" pos="0 0 -0.15"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="elbow" gear="3" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
</mujoco>
"""


def tree(old: str = "", new: str = "") -> mujoco.MjModel:
    assert old in TREE
    return mujoco.MjModel.from_xml_string(TREE.replace(old, new) if old else TREE)


def test_a_general_tree_follows_mujoco():
    model = tree()
    assert small_tree.unsupported(model) is None
    worlds = 64
    reference = CpuEngine(model, worlds, substeps=5)
    engine = WarpEngine(model, worlds, substeps=5, limits=LIMITS, device=torch.device("cpu"))
    assert engine.fused
    generator = torch.Generator().manual_seed(0)
    reference.state.qvel.copy_(torch.randn(worlds, model.nv, generator=generator))
    reference.refresh()
    errors, touching = [], 0
    for _ in range(60):
        reference.state.ctrl.copy_(2.0 * torch.rand(worlds, 1, generator=generator) - 1.0)
        for name in ("qpos", "qvel", "ctrl", "qacc_warmstart"):
            getattr(engine.state, name).copy_(getattr(reference.state, name))
        reference.step()
        engine.step()
        touching += int((reference.field("ncon") > 0).sum())
        errors.append((engine.state.qpos - reference.state.qpos).abs().amax(1))
    errors = torch.cat(errors)
    assert touching > 500, "the test must see contacts"
    assert errors.median() < 1e-6
    assert errors.quantile(0.99) < 2e-5


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('type="sphere" pos="0.2 0 -0.1" size="0.08"', 'type="box" size=".1 .1 .1"', "contacts"),
        ('timestep="0.004"', 'timestep="0.004" cone="elliptic"', "friction cones"),
        ('timestep="0.004"', 'timestep="0.004" integrator="implicitfast"', "integrator"),
        ('timestep="0.004"', 'timestep="0.004" density="1"', "fluid"),
        ('armature="0.02"', 'frictionloss="0.02"', "friction loss"),
        ('<motor joint="elbow" gear="3"', '<position joint="elbow" kp="3"', "actuators"),
        ('conaffinity="0" friction', 'conaffinity="1" friction', "contacts other than"),
        ('size="50 50 1" conaffinity="1"', 'size="50 50 1"', "no contacts"),
        ('timestep="0.004"', 'timestep="0.004" noslip_iterations="5"', "noslip"),
        ('timestep="0.004"', 'timestep="0.004" actuatorgroupdisable="0"', "disabled actuators"),
        ('stiffness="2"', 'stiffness="2 5 9"', "nonlinear"),
        ('armature="0.02"', 'damping="1 2 3"', "nonlinear"),
        ('range="-20 30"', 'range="-20 30" solreflimit="-3000 -30"', "limits that are not springs"),
        ('range="-20 30"', 'range="-20 30" solimplimit="0.5 0.9 0"', "limits that are not springs"),
        ('friction="0.8 .1 .1"', 'friction="0.8 .1 .1" solimp="0.5 0.9 0"', "contacts other than"),
        ('gear="3"', 'gear="3" damping="2"', "actuators other than"),
        ('gear="3"', 'gear="3" armature="0.5"', "actuators other than"),
        ('gear="3"', 'gear="3" delay="0.02" nsample="10"', "actuators other than"),
        ("<worldbody>", '<worldbody><body mocap="true"/>', "mocap"),
        (
            "<worldbody>",
            '<contact><exclude body1="world" body2="arm"/></contact><worldbody>',
            "excluded",
        ),
    ],
)
def test_unsupported_models_are_named(old, new, reason):
    unsupported = small_tree.unsupported(tree(old, new))
    assert unsupported is not None
    assert reason in unsupported


def test_which_tasks_are_supported():
    assert small_tree.unsupported(TASKS["walker"].build()) is None
    assert small_tree.unsupported(TASKS["reach"].build()) == "tendons, equalities or flexes"
