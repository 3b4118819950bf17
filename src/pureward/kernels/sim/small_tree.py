# SPDX-License-Identifier: Apache-2.0
"""All substeps of a small model in one kernel launch, one thread per world.

MuJoCo Warp uses about a hundred kernels per substep. For a few joints a launch costs more than its
work, and a control step of the walker takes a thousand launches. `small_tree.cpp` is the same
physics as one function that keeps a world in registers. It supports trees of hinges and slides
whose spheres and capsules touch planes.
"""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations
from pathlib import Path

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

# Few per block: the worlds of a block wait for each other's solver.
_WORLDS_PER_BLOCK = 32
_MAX_JOINTS = 12
_MAX_ROWS = 64  # the solver keeps its active rows in one 64-bit word
_MIN_IMPEDANCE, _MAX_IMPEDANCE = 1e-4, 0.9999

_PLANE = int(mujoco.mjtGeom.mjGEOM_PLANE)
_SPHERE, _CAPSULE = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)
_ACCELERATION = int(mujoco.mjtStage.mjSTAGE_ACC)
_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)


def unsupported(model: mujoco.MjModel) -> str | None:
    """Return the first reason why the kernel cannot step the model, or None."""
    limited = model.jnt_limited.astype(bool)
    reasons = {
        "joints other than hinge and slide": not np.isin(model.jnt_type, (_HINGE, _SLIDE)).all(),
        f"more than {_MAX_JOINTS} joints": model.njnt > _MAX_JOINTS,
        "tendons, equalities or flexes": model.ntendon + model.neq + model.nflex > 0,
        "a solver other than Newton": model.opt.solver != mujoco.mjtSolver.mjSOL_NEWTON,
        "friction cones other than pyramids": model.opt.cone != mujoco.mjtCone.mjCONE_PYRAMIDAL,
        "an integrator other than Euler": model.opt.integrator != mujoco.mjtIntegrator.mjINT_EULER,
        "engine flags": bool(model.opt.disableflags or model.opt.enableflags),
        "an impedance ratio": model.opt.impratio != 1.0,
        "a fluid": bool(model.opt.density or model.opt.viscosity or model.opt.wind.any()),
        "noslip iterations": model.opt.noslip_iterations > 0,
        "disabled actuators": model.opt.disableactuator != 0,
        "mocap bodies": model.nmocap > 0,
        "plugins": model.nplugin > 0,
        "nonlinear springs or dampers": model.jnt_stiffnesspoly.any()
        or model.dof_dampingpoly.any(),
        "friction loss": model.dof_frictionloss.any(),
        "gravity compensation": model.body_gravcomp.any(),
        "collision margins": model.geom_margin.any() or model.jnt_margin.any(),
        "excluded pairs of bodies": model.nexclude > 0,
        "joint limits that are not springs": not _springs(
            model.jnt_solref[limited], model.jnt_solimp[limited]
        ),
        "actuators other than plain motors on joints": not _plain_motors(model),
        "sensors of force or acceleration": (model.sensor_needstage == _ACCELERATION).any(),
        "contacts other than sphere or capsule on a fixed plane": not _plane_contacts_only(model),
    }
    for reason, holds in reasons.items():
        if holds:
            return reason
    points = len(_contact_points(model))
    if not points or not model.nu:
        return "no contacts or no actuators"  # C++ has no arrays without elements
    rows = 4 * points + int(limited.sum())
    return f"more than {_MAX_ROWS} constraint rows" if rows > _MAX_ROWS else None


def compile_step(
    model: mujoco.MjModel, iterations: int, line_search: int
) -> Callable[[mjw.Data, int], None]:
    """Return a function of (data, substeps) that steps all worlds on the current Warp device.

    Args:
        model: that `unsupported` accepts.
        iterations: most Newton iterations.
        line_search: most iterations of a line search.
    """
    kernel = _kernel(_constants(model))
    params = wp.array(_parameters(model), dtype=float)

    def launch(data: mjw.Data, substeps: int) -> None:
        wp.launch(
            kernel,
            dim=data.nworld,
            inputs=[params, data.ctrl, substeps, iterations, line_search],
            outputs=[data.qpos, data.qvel, data.qacc_warmstart, data.time],
            block_dim=_WORLDS_PER_BLOCK,
        )

    return launch


@cache
def _kernel(constants: str) -> wp.Kernel:
    source = Path(__file__).with_name("small_tree.cpp").read_text()

    @wp.func_native(constants + source)
    def step_world(
        world: int,
        params: wp.array[float],
        ctrl: wp.array2d[float],
        substeps: int,
        iterations: int,
        line_search: int,
        qpos: wp.array2d[float],
        qvel: wp.array2d[float],
        warmstart: wp.array2d[float],
        time: wp.array[float],
    ): ...

    @wp.kernel(module="unique", enable_backward=False)
    def small_tree_step(
        params: wp.array[float],
        ctrl: wp.array2d[float],
        substeps: int,
        iterations: int,
        line_search: int,
        qpos: wp.array2d[float],
        qvel: wp.array2d[float],
        warmstart: wp.array2d[float],
        time: wp.array[float],
    ):
        step_world(
            wp.tid(), params, ctrl, substeps, iterations, line_search, qpos, qvel, warmstart, time
        )

    return small_tree_step  # pyright: ignore[reportReturnType]


def _constants(model: mujoco.MjModel) -> str:
    """Sizes and topology as C++ constants."""
    points = _contact_points(model)
    moves = [
        [_is_ancestor(model, above, body) for above in model.dof_bodyid]
        for body in range(model.nbody)
    ]
    first = [int((model.jnt_bodyid < body).sum()) for body in range(model.nbody + 1)]
    lines = [
        f"constexpr int NB = {model.nbody}, NV = {model.nv}, NU = {model.nu};",
        f"constexpr int NC = {len(points)}, NR = {4 * len(points) + model.jnt_limited.sum()};",
        _array("PARENT", model.body_parentid),
        _array("FIRST_JOINT", first),
        _array("IS_SLIDE", model.jnt_type == _SLIDE),
        _array("IS_LIMITED", model.jnt_limited),
        _array("CONTACT_BODY", [model.geom_bodyid[geom] for geom, _, _ in points]),
        _array("MOTOR_JOINT", model.actuator_trnid[:, 0]),
        _array("MOVES", moves),
    ]
    return "\n".join(lines) + "\n"


def _parameters(model: mujoco.MjModel) -> np.ndarray:
    """The C++ `Params` structure, in its order."""
    parts: list[np.ndarray | float] = [model.opt.timestep, model.opt.gravity]
    for body in range(model.nbody):
        frame = _rotation(model.body_iquat[body])
        inertia = frame @ np.diag(model.body_inertia[body]) @ frame.T
        parts += [model.body_pos[body], _rotation(model.body_quat[body])]
        parts += [model.body_mass[body], model.body_ipos[body], inertia]
    for joint in range(model.njnt):
        parts += [model.jnt_pos[joint], model.jnt_axis[joint], model.qpos0[joint]]
        parts += [model.dof_armature[joint], model.dof_damping[joint], model.jnt_stiffness[joint]]
        parts += [model.qpos_spring[joint], model.jnt_range[joint], model.dof_invweight0[joint]]
        parts += [_softness(model, model.jnt_solref[joint], model.jnt_solimp[joint])]
    for geom, plane, end in _contact_points(model):
        axis = _rotation(model.geom_quat[geom])[:, 2]
        up = _rotation(model.geom_quat[plane])[:, 2]
        friction = max(model.geom_friction[geom, 0], model.geom_friction[plane, 0])
        # The four edges of the friction pyramid share one stiffness.
        lean = 2 * friction**2 * (1 + friction**2)
        weight = lean * model.body_invweight0[model.geom_bodyid[geom], 0]
        half_length = model.geom_size[geom, 1] if end else 0.0
        parts += [model.geom_pos[geom] + end * half_length * axis, abs(end) * axis, up]
        parts += [model.geom_pos[plane], model.geom_size[geom, 0], friction, weight]
        parts += [_softness(model, model.geom_solref[geom], model.geom_solimp[geom])]
    for motor in range(model.nu):
        gain = model.actuator_gear[motor, 0] * model.actuator_gainprm[motor, 0]
        limited = model.actuator_ctrllimited[motor]
        low, high = model.actuator_ctrlrange[motor] if limited else (-np.inf, np.inf)
        parts += [np.array([gain, low, high])]
    return np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)


def _softness(model: mujoco.MjModel, solref: np.ndarray, solimp: np.ndarray) -> np.ndarray:
    """Spring, damper and impedance curve of a constraint, from MuJoCo's solref and solimp."""
    time_constant = max(solref[0], 2 * model.opt.timestep)
    low, high = np.clip(solimp[:2], _MIN_IMPEDANCE, _MAX_IMPEDANCE)
    middle = np.clip(solimp[3], _MIN_IMPEDANCE, _MAX_IMPEDANCE)
    spring = 1.0 / (high * time_constant * solref[1]) ** 2
    damper = 2.0 / (high * time_constant)
    return np.array([spring, damper, low, high, solimp[2], middle, max(solimp[4], 1.0)])


def _contact_points(model: mujoco.MjModel) -> list[tuple[int, int, int]]:
    """(geom, plane, end) of each possible contact; end is ±1 on a capsule and 0 on a sphere."""
    points = []
    for plane, geom in _colliding_pairs(model):
        is_capsule = model.geom_type[geom] == _CAPSULE
        points += [(geom, plane, end) for end in ((1, -1) if is_capsule else (0,))]
    return points


def _colliding_pairs(model: mujoco.MjModel) -> Iterable[tuple[int, int]]:
    """Pairs of geoms that MuJoCo would test, the one of the lower type first."""
    types, affinities = model.geom_contype, model.geom_conaffinity
    for one, two in combinations(range(model.ngeom), 2):
        bodies = model.geom_bodyid[[one, two]]
        related = bodies[0] == bodies[1] or not model.body_weldid[bodies].any()
        parent = model.body_parentid[bodies[1]] == bodies[0] != 0
        masks = types[one] & affinities[two] or types[two] & affinities[one]
        if masks and not related and not parent:
            yield (one, two) if model.geom_type[one] <= model.geom_type[two] else (two, one)


def _plane_contacts_only(model: mujoco.MjModel) -> bool:
    for plane, geom in _colliding_pairs(model):
        alike = all(
            np.array_equal(field[plane], field[geom])
            for field in (model.geom_solref, model.geom_solimp, model.geom_priority)
        )
        if (
            model.geom_type[plane] != _PLANE
            or model.geom_type[geom] not in (_CAPSULE, _SPHERE)
            or model.geom_bodyid[plane] != 0
            or max(model.geom_condim[plane], model.geom_condim[geom]) != 3
            or not alike
            or not _springs(model.geom_solref[[geom]], model.geom_solimp[[geom]])
        ):
            return False
    return model.npair == 0


def _springs(solref: np.ndarray, solimp: np.ndarray) -> bool:
    """Whether all have a time constant, a damping ratio and an impedance of nonzero width."""
    return bool((solref > 0).all() and (solimp[:, 2] > mujoco.mjMINVAL).all())


def _plain_motors(model: mujoco.MjModel) -> bool:
    return (
        (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value).all()
        and (model.actuator_gaintype == mujoco.mjtGain.mjGAIN_FIXED.value).all()
        and (model.actuator_biastype == mujoco.mjtBias.mjBIAS_NONE.value).all()
        and (model.actuator_dyntype == mujoco.mjtDyn.mjDYN_NONE.value).all()
        and not model.actuator_forcelimited.any()
        and not model.jnt_actfrclimited.any()
        and not model.actuator_damping.any()
        and not model.actuator_dampingpoly.any()
        and not model.actuator_armature.any()
        and not model.actuator_delay.any()
    )


def _is_ancestor(model: mujoco.MjModel, above: int, body: int) -> bool:
    while body > above:
        body = int(model.body_parentid[body])
    return body == above


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def _array(name: str, values: np.ndarray | list) -> str:
    numbers = np.asarray(values, dtype=int)
    braced = str(numbers.tolist()).replace("[", "{").replace("]", "}")
    return f"constexpr int {name}{''.join(f'[{side}]' for side in numbers.shape)} = {braced};"
