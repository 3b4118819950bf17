"""The rasterizer: frames like the ray caster's, coarse meshes, and what it cannot draw."""

import importlib.util
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import mujoco
import numpy as np
import pytest
import torch
import warp as wp
from PIL import Image

from pureward.envs.sim.camera import Cameras
from pureward.envs.sim.mujoco_cpu import CpuEngine
from pureward.envs.tasks import TASKS
from pureward.kernels.sim import meshes, raster
from pureward.kernels.sim.raster_scene import read_scene, rectangle
from pureward.kernels.sim.warp_runtime import quiet_start

ROOT = Path(__file__).parents[2]

# Every shape, kind of light and texture that the rasterizer draws. The blue mesh begins behind the
# cameras, and the second camera is inside the white sphere, which it does not see.
SCENE = """
<mujoco>
  <visual><headlight ambient=".2 .2 .2" diffuse=".3 .3 .3" specular=".4 .4 .4"/></visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1=".9 .3 .1" rgb2="0 .1 .4"
     width="16" height="96"/>
    <texture name="chess" type="2d" builtin="checker" rgb1=".2 .3 .4" rgb2=".9 .8 .7"
     width="32" height="32"/>
    <material name="floor" texture="chess" texrepeat="3 5" texuniform="true" specular="0"/>
    <material name="wall" texture="chess" texrepeat="2 1"/>
    <material name="glow" emission=".5" rgba=".1 .6 .2 1" shininess=".1"/>
    <hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/>
    <mesh name="wedge" vertex="0 0 0  4 0 0  0 .5 0  0 0 .5  4 .5 0  4 0 .5"
     face="0 2 3  1 5 4  0 1 2  1 4 2  2 4 3  3 4 5  0 3 1  1 3 5"/>
  </asset>
  <worldbody>
    <light pos="0 0 4" dir="0 .2 -1" cutoff="60" exponent="3" diffuse=".5 .4 .3"/>
    <light pos="2 -2 1" type="point" attenuation="1 .2 .1" diffuse=".3 .3 .6" ambient=".1 0 0"/>
    <light dir="1 1 -.5" type="directional" diffuse=".2 .2 .2"/>
    <light pos="0 0 1" active="false" diffuse="1 1 1"/>
    <geom type="plane" size="2 3 .1" material="floor"/>
    <geom type="plane" size="0 0 .1" pos="0 4 0" euler="90 0 0" material="wall"/>
    <geom type="sphere" size=".3" pos="-1.2 0 .4" material="glow"/>
    <geom type="ellipsoid" size=".2 .3 .5" pos="-.5 .4 .6" euler="20 30 0" rgba=".8 .2 .2 1"/>
    <geom type="capsule" size=".15 .3" pos="0 0 .6" euler="40 50 0" rgba=".9 .7 .1 1"/>
    <geom type="cylinder" size=".25 .2" pos=".6 .3 .4" euler="60 10 0" rgba=".2 .7 .8 1"/>
    <geom type="box" size=".2 .3 .1" pos="1.2 0 .6" euler="10 20 40" rgba=".5 .2 .7 1"/>
    <geom type="mesh" mesh="wedge" pos="-1.6 -3.6 .1" euler="0 0 75" rgba=".2 .3 .9 1"/>
    <geom type="sphere" size=".1" pos=".5 -3 1.4" rgba="1 1 1 1"/>
    <geom type="box" size="9 9 9" group="3"/>
    <geom type="box" size=".5 .5 .5" pos="0 -1 1" rgba="1 1 1 0"/>
    <camera name="front" pos="0 -3.2 1.6" xyaxes="1 0 0 0 .4 1" fovy="60"/>
    <camera name="inside" pos=".5 -3 1.4" xyaxes="1 .2 0 0 .3 1" fovy="75"/>
    <camera name="flat" pos="0 -3 1" projection="orthographic"/>
    <body pos="0 0 3"><joint type="slide" axis="0 0 1"/><geom size=".2" rgba="0 1 1 1"/></body>
  </worldbody>
</mujoco>
"""


def engine(worlds: int = 2) -> CpuEngine:
    made = CpuEngine(mujoco.MjModel.from_xml_string(SCENE), worlds, substeps=1)
    made.state.qpos[:, 0] = -torch.linspace(0.0, 1.8, worlds)
    made.refresh()
    return made


def script(path: str) -> ModuleType:
    folder, name = (ROOT / path).parent, Path(path).stem
    sys.path.insert(0, str(folder))  # it imports another one
    try:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def test_every_shape_light_and_texture_looks_as_the_ray_caster_draws_it():
    made, names = engine(), ("front", "inside")
    cast = Cameras(made, names, size=48, reference=True).render().int()
    drawn = Cameras(made, names, size=48).render().int()
    assert drawn.shape == (2, 6, 48, 48)
    assert len(cast[0, :3].flatten(1).unique(dim=1).T) > 500  # colours: the scene is in view
    apart = (cast - drawn).abs()
    assert apart.float().mean() < 0.1
    # Rounding moves a pixel on an edge now and then.
    assert (apart > 3).float().mean() < 0.002
    assert not torch.equal(drawn[0], drawn[1])  # the worlds differ by the cyan sphere


def test_frames_follow_the_state():
    made = engine()
    cameras = Cameras(made, ("front",), size=48)
    before = cameras.render().clone()
    made.state.qpos[0] = -2.0
    made.refresh()
    after = cameras.render()
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_a_mesh_that_a_diverged_world_threw_far_away_is_not_seen():
    made = engine(1)
    cameras, mesh = Cameras(made, ("front",), size=16), 7
    far = [
        (1e9, 0.0, 1.6),
        (-1e9, 0.0, 1.6),
        (0.0, 0.0, 1e9),
        (1e30, 1e30, 0.0),
        (float("nan"),) * 3,
    ]
    for place in far:  # a pixel's number beyond an int once made the loop over pixels endless
        made.field("geom_xpos")[:, mesh] = torch.tensor(place, dtype=torch.float64)
        assert not is_blue(cameras.render()).any(), place


def is_blue(frames: torch.Tensor) -> torch.Tensor:
    red, green, blue = frames[:, :3].int().unbind(1)
    return (blue > red + 40) & (blue > green + 40)


def test_a_sky_whose_faces_share_one_image_has_six_faces():
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    sky, ball = '<texture type="skybox" file="sky.png"/>', '<geom size="1"/>'
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><asset>{sky}</asset><worldbody>{ball}</worldbody></mujoco>",
        assets={"sky.png": file.getvalue()},
    )
    assert model.tex_height[0] == 8  # MuJoCo stores it once
    texels = read_scene(model, 8).texels.reshape(6, -1)
    assert (texels == texels[0]).all()
    assert texels.shape == (6, 64)


def test_a_camera_sees_a_square_at_depth_one():
    model = engine().model
    left, top, right_step, down_step = rectangle(model, 0, 16)
    half = np.tan(np.pi / 6)  # of 60 degrees
    assert np.allclose([left, top, right_step, down_step], [-half, half, half / 8, -half / 8])


def test_corners_keep_their_normals_unless_they_point_elsewhere():
    box = """<mujoco><asset><mesh name="box" vertex="0 0 0  1 0 0  0 1 0  0 0 1"
     normal="-1 -1 -1  1 0 0  0 1 0  0 0 1" face="0 2 1  0 1 3  0 3 2  1 2 3"/></asset>
     <worldbody><geom type="mesh" mesh="box"/></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(box)
    triangles = meshes.drawn_triangles(model, [0])
    outward = meshes.face_normals(triangles.corners)
    assert triangles.owners.tolist() == [0, 0, 0, 0]
    # Each face's normal is 45 degrees or more from the given ones, so it is used everywhere.
    assert np.allclose(triangles.normals, outward[:, None].repeat(3, axis=1), atol=1e-6)
    centre = triangles.corners.mean(axis=(0, 1))
    assert (triangles.planes[:, :3] @ centre < triangles.planes[:, 3]).all()  # planes face outward


def test_coarse_copies_stay_close_to_the_arm():
    model = TASKS["lift"].build()
    drawn = (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH.value) & (model.geom_group < 3)
    geoms = np.flatnonzero(drawn).tolist()
    full = int(model.mesh_facenum[model.geom_dataid[geoms]].sum())
    triangles = meshes.drawn_triangles(model, geoms)
    assert len(triangles.owners) < 0.3 * full
    shares = np.array([(a, b, 8 - a - b) for a in range(9) for b in range(9 - a)]) / 8
    for position, geom in enumerate(geoms):
        vertices, _ = meshes.mesh_arrays(model, int(model.geom_dataid[geom]))
        corners = triangles.corners[triangles.owners == position]
        assert len(corners) > 0
        surface = np.einsum("sc,ncx->nsx", shares, corners).reshape(-1, 3)
        away = np.array([np.linalg.norm(surface - vertex, axis=1).min() for vertex in vertices])
        # Metres, to sampled points of the surface that are up to 16 mm apart on the largest faces.
        assert np.quantile(away, 0.9) < 0.003
        assert away.max() < 0.010


def test_a_mesh_without_a_copy_is_drawn_in_full():
    model = engine().model
    assert len(meshes.drawn_triangles(model, [7]).owners) == 8


def test_the_command_reproduces_the_coarse_copies():
    pytest.importorskip("meshoptimizer")
    tool = script("tools/simplify_meshes.py")
    copies = meshes._copies()
    originals = tool.originals()
    assert set(originals) == set(copies)
    for key, mesh in originals.items():
        made, kept = (
            {tuple(face) for face in faces.tolist()}
            for faces in (tool.simplify(*mesh), copies[key])
        )
        assert len(made & kept) >= 0.9 * len(kept)  # processors round differently


def test_scenes_of_the_same_sizes_share_a_kernel():
    lift, stack = (TASKS[task].model("cuboid") for task in ("lift", "stack"))
    constants = read_scene(lift, 64).constants
    assert constants == read_scene(stack, 64).constants
    assert constants != read_scene(lift, 32).constants
    quiet_start()
    kernel = raster._kernel(constants)
    assert raster._kernel(constants) is kernel
    first = kernel.module.get_module_hash()
    raster._kernel.cache_clear()  # as in another process
    assert raster._kernel(constants).module.get_module_hash() == first


def change(old: str, new: str) -> Callable[[], object]:
    assert old in SCENE
    return lambda: read_scene(mujoco.MjModel.from_xml_string(SCENE.replace(old, new)), 64)


def no_faces() -> None:
    model = engine().model
    model.mesh_facenum[0] = 0
    read_scene(model, 64)


def grey_texture() -> None:
    model = engine().model
    model.tex_nchannel[1] = 1
    read_scene(model, 64)


REJECTED = {
    "mesh 'wedge' without faces": no_faces,
    "9 lights, more than 8": change("<light dir", "<light/>" * 6 + "<light dir"),
    "geom 2 with a texture that is not flat on a plane": change(
        '<material name="glow"', '<material name="glow" texture="chess"'
    ),
    "texture 'chess', not stored in colour": grey_texture,
    "images of 50 pixels, not a multiple of 8": lambda: read_scene(engine().model, 50),
    "128×128 pixels of a scene that shared memory does not hold": lambda: read_scene(
        engine().model, 128
    ),
    "orthographic camera 'flat'": lambda: rectangle(engine().model, 2, 64),
    "geom 'hills' of type mjGEOM_HFIELD": change(
        '<geom type="box" size="9 9 9" group="3"/>', '<geom name="hills" type="hfield" hfield="h"/>'
    ),
    "a scene without visible geoms": lambda: read_scene(
        mujoco.MjModel.from_xml_string("<mujoco/>"), 64
    ),
}


@pytest.mark.parametrize("sentence", REJECTED)
def test_it_says_what_it_cannot_draw(sentence):
    with pytest.raises(meshes.CannotDrawError, match=sentence):
        REJECTED[sentence]()


@pytest.mark.parametrize("camera", ["front", "flat"])
def test_the_ray_caster_draws_shadows_and_what_the_rasterizer_cannot(camera):
    made = engine()
    assert Cameras(made, ("front",), size=48).renderer == "rasterizer"
    cameras = Cameras(made, (camera,), size=48, shadows=camera == "front")
    assert cameras.renderer == "ray caster"
    assert cameras.render().float().std() > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("task", ["reach", "walker", "lift", "stack"])
def test_tasks_look_as_the_ray_caster_draws_them(task):
    tool = script("benchmarks/renderers.py")
    told = tool.difference(task, "cuboid" if task in ("lift", "stack") else None, 100, "cpu", None)
    assert told["images"] >= 100
    assert told["mean_difference"] <= tool.MEAN
    assert told["share_over_24_inside"] <= tool.SHARE
    assert told["share_over_24"] <= 0.01


@pytest.mark.slow
def test_the_kernel_compiles_for_cuda(tmp_path):
    quiet_start()
    if not wp._src.context.runtime.core.wp_is_cuda_enabled():  # pyright: ignore
        pytest.skip("this build of Warp has no CUDA compiler")
    kernel = raster._kernel(
        "constexpr int THREADS = 256;\n" + read_scene(engine().model, 64).constants
    )
    written = wp.compile_aot_module(kernel.module, arch=90, module_dir=tmp_path, use_ptx=True)
    assert ".shared" in Path(written[0]).read_text()
    assert "atom.shared.min" in Path(written[0]).read_text()
