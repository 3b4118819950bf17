# SPDX-License-Identifier: Apache-2.0
"""A model's geoms, lights, materials and textures as the tables that `raster.cpp` reads."""

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from pureward.kernels.sim.meshes import CannotDrawError, Triangles, drawn_triangles

_DRAWN_GROUPS = 3  # the ray caster draws the geoms of groups 0 to 2
_SHARED_BYTES = 46 * 1024  # of an image; a CUDA block has 48 KiB, and Warp takes some
_TILE = 8  # pixels: a warp of threads colours 4 rows of 8
_MAX_LIGHTS = 8
_MAX_TRIANGLES = 1 << 16  # a pixel's 32 bits hold a triangle's number and its depth
_POSE_BYTES, _BOX_BYTES, _LAMP_BYTES = 60, 16, 24  # of the structures in raster.cpp

_KIND = mujoco.mjtGeom
_PLANE, _MESH = int(_KIND.mjGEOM_PLANE), int(_KIND.mjGEOM_MESH)
_SPHERE, _ELLIPSOID = int(_KIND.mjGEOM_SPHERE), int(_KIND.mjGEOM_ELLIPSOID)
_CAPSULE, _CYLINDER = int(_KIND.mjGEOM_CAPSULE), int(_KIND.mjGEOM_CYLINDER)
_BOX = int(_KIND.mjGEOM_BOX)
_DRAWN_KINDS = (_PLANE, _SPHERE, _ELLIPSOID, _CAPSULE, _CYLINDER, _BOX, _MESH)
_SPOT = int(mujoco.mjtLightType.mjLIGHT_SPOT)
_DIRECTIONAL = int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
_POINT = int(mujoco.mjtLightType.mjLIGHT_POINT)
_COLOUR_ROLE = int(mujoco.mjtTextureRole.mjTEXROLE_RGB)
_SKY = int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)
_FLAT = int(mujoco.mjtTexture.mjTEXTURE_2D)

# The ray caster's material of a geom that has none, and its largest shininess.
_SPECULAR, _SHININESS, _EMISSION = 0.5, 0.5, 0.0
_MAX_SHININESS = 128.0
_AMBIENT = 0.3  # of a scene without any light
_UNSET = (0.5, 0.5, 0.5, 1.0)  # a geom of this colour has its material's


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What all worlds share, as tables of numbers; primitives come before meshes."""

    constants: str
    """Sizes, as C++."""
    kinds: np.ndarray
    """(geoms, 5): index in the model, type, first texel, width and height of the texture."""
    looks: np.ndarray
    """(geoms, 16): colour (3), specular, shininess, emission, size (3), half of the bounding box
    (3), texture coordinates as scale and offset along x and along y."""
    triangles: Triangles
    lights: np.ndarray
    """(lights, 12): kind, diffuse (3), specular (3), attenuation (3), cosine of the cutoff,
    exponent; the headlight is the last."""
    light_ids: np.ndarray
    ambient: np.ndarray
    texels: np.ndarray
    """The sky's texels and then all others, each as red + 256 · green + 65536 · blue."""


def read_scene(model: mujoco.MjModel, size: int) -> Scene:
    """Return the tables of a model's visible geoms; reject what the renderer cannot draw."""
    geoms = [geom for geom in range(model.ngeom) if _is_visible(model, geom)]
    _check(model, geoms)
    primitives = [geom for geom in geoms if model.geom_type[geom] != _MESH]
    meshes = [geom for geom in geoms if model.geom_type[geom] == _MESH]
    geoms = primitives + meshes
    triangles = drawn_triangles(model, meshes)
    if len(triangles.owners) > _MAX_TRIANGLES:
        raise CannotDrawError(f"more than {_MAX_TRIANGLES:,} triangles")
    sky = next(iter(np.flatnonzero(model.tex_type == _SKY).tolist()), None)
    textures = sorted({texture for geom in geoms if (texture := _texture(model, geom)) is not None})
    texels, first = _texels(model, ([] if sky is None else [sky]) + textures)
    lights, light_ids, ambient = _lights(model)
    types = set(model.geom_type[geoms])
    triangle_bits = max(1, (len(triangles.owners) - 1).bit_length())
    near, far = (model.stat.extent * limit for limit in (model.vis.map.znear, model.vis.map.zfar))
    nearest, farthest = np.array([near, far], dtype=np.float32).view(np.int32).tolist()
    numbers = {
        "SIZE": size,
        "PRIMITIVES": len(primitives),
        "MESHES": len(meshes),
        "TRIANGLES": len(triangles.owners) if meshes else 0,
        "TRIANGLE_BITS": triangle_bits,
        # One bit more than the depth needs, so that no word is all ones: that is an empty pixel.
        "DEPTH_SHIFT": max(0, (farthest - nearest).bit_length() + 1 - (32 - triangle_bits)),
        "LIGHTS": len(lights),
        "HAS_HEADLIGHT": int(model.vis.headlight.active),
        "HAS_TEXTURES": int(bool(textures)),
        "SKY_WIDTH": 0 if sky is None else model.tex_width[sky],
        "HAS_PLANE": int(_PLANE in types),
        "HAS_CAPSULE": int(_CAPSULE in types),
        "HAS_CYLINDER": int(_CYLINDER in types),
        "HAS_BOX": int(_BOX in types),
        "PLANE": _PLANE, "CAPSULE": _CAPSULE, "CYLINDER": _CYLINDER, "BOX": _BOX,
        "SPOT": _SPOT, "DIRECTIONAL": _DIRECTIONAL,
        "KIND_NUMBERS": 5, "LOOK_NUMBERS": 16, "LIGHT_NUMBERS": 12,
    }  # fmt: skip
    constants = [f"constexpr int {name} = {value};" for name, value in numbers.items()]
    constants += [f"constexpr float NEAR = {near:.9e}f, FAR = {far:.9e}f;"]
    _check_size(size, _POSE_BYTES * len(geoms) + _BOX_BYTES * (len(primitives) + 1)
                + _LAMP_BYTES * (len(lights) + 1))  # fmt: skip
    return Scene(
        constants="\n".join(constants) + "\n",
        kinds=np.array([_kind(model, geom, first) for geom in geoms], dtype=np.int32),
        looks=np.array([_look(model, geom) for geom in geoms], dtype=np.float32),
        triangles=triangles,
        lights=lights.astype(np.float32),
        light_ids=light_ids,
        ambient=ambient.astype(np.float32),
        texels=texels,
    )


def rectangle(model: mujoco.MjModel, camera: int, size: int) -> np.ndarray:
    """Return what a camera sees at depth 1: left, top, and the steps of a pixel to the right and
    down, (4,).
    """
    if model.cam_projection[camera] != mujoco.mjtProjection.mjPROJ_PERSPECTIVE.value:
        raise CannotDrawError(f"orthographic camera {model.camera(camera).name!r}")
    width, height = model.cam_sensorsize[camera]
    if height:
        focal_x, focal_y, centre_x, centre_y = model.cam_intrinsic[camera]
        side = min(width, height)  # images are square
        left, right = -(side / 2 - centre_x) / focal_x, (side / 2 + centre_x) / focal_x
        top, bottom = (side / 2 - centre_y) / focal_y, -(side / 2 + centre_y) / focal_y
    else:
        right = top = math.tan(math.radians(model.cam_fovy[camera]) / 2)
        left = bottom = -right
    return np.array([left, top, (right - left) / size, (bottom - top) / size], dtype=np.float32)


def _check(model: mujoco.MjModel, geoms: list[int]) -> None:
    if not geoms:
        raise CannotDrawError("a scene without visible geoms in the groups 0 to 2")
    if model.nflex:
        raise CannotDrawError("flexes")
    for geom in geoms:
        kind, name = int(model.geom_type[geom]), model.geom(geom).name or geom
        if kind not in _DRAWN_KINDS:
            raise CannotDrawError(f"geom {name!r} of type {_KIND(kind).name}")
        texture = _texture(model, geom)
        if texture is not None and (kind != _PLANE or model.tex_type[texture] != _FLAT):
            raise CannotDrawError(f"geom {name!r} with a texture that is not flat on a plane")
    lights = model.light_type[model.light_active.astype(bool)]
    if len(lights) > _MAX_LIGHTS:
        raise CannotDrawError(f"{len(lights)} lights, more than {_MAX_LIGHTS}")
    if not np.isin(lights, (_SPOT, _DIRECTIONAL, _POINT)).all():
        raise CannotDrawError("a light that is an image")


def _check_size(size: int, other_bytes: int) -> None:
    if size < _TILE or size % _TILE:
        raise CannotDrawError(f"images of {size} pixels, not a multiple of {_TILE}")
    if 4 * size**2 + other_bytes > _SHARED_BYTES:
        raise CannotDrawError(f"{size}×{size} pixels of a scene that shared memory does not hold")


def _is_visible(model: mujoco.MjModel, geom: int) -> bool:
    return model.geom_group[geom] < _DRAWN_GROUPS and _rgba(model, geom)[3] > 0.0


def _rgba(model: mujoco.MjModel, geom: int) -> np.ndarray:
    material = model.geom_matid[geom]
    unset = np.array_equal(model.geom_rgba[geom], np.array(_UNSET, dtype=np.float32))
    return model.mat_rgba[material] if material >= 0 and unset else model.geom_rgba[geom]


def _texture(model: mujoco.MjModel, geom: int) -> int | None:
    material = model.geom_matid[geom]
    texture = int(model.mat_texid[material, _COLOUR_ROLE]) if material >= 0 else -1
    return texture if texture >= 0 else None


def _texels(model: mujoco.MjModel, textures: list[int]) -> tuple[np.ndarray, dict[int, int]]:
    """All texels in one row, and where each texture begins."""
    rows, first, total = [np.zeros(0, dtype=np.int32)], {}, 0
    for texture in textures:
        channels, begin = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
        if channels < 3 or begin < 0:
            raise CannotDrawError(f"texture {model.texture(texture).name!r}, not stored in colour")
        width, height = int(model.tex_width[texture]), int(model.tex_height[texture])
        count = width * height
        data = model.tex_data[begin : begin + count * channels].reshape(count, channels)
        row = data[:, :3].astype(np.int32) @ np.array([1, 1 << 8, 1 << 16], dtype=np.int32)
        # A sky has six faces below each other; MuJoCo stores a face that all share once.
        rows.append(np.tile(row, 6 * width // height if model.tex_type[texture] == _SKY else 1))
        first[texture] = total
        total += len(rows[-1])
    return np.concatenate(rows) if total else np.zeros(1, dtype=np.int32), first


def _lights(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids = np.flatnonzero(model.light_active)
    rows = [
        [
            model.light_type[light],
            *model.light_diffuse[light],
            *model.light_specular[light],
            *model.light_attenuation[light],
            math.cos(math.radians(model.light_cutoff[light])),
            model.light_exponent[light],
        ]
        for light in ids
    ]
    ambient = model.light_ambient[ids].sum(axis=0)
    headlight = model.vis.headlight
    if headlight.active:
        rows.append(
            [_DIRECTIONAL, *headlight.diffuse, *headlight.specular, 1.0, 0.0, 0.0, 0.0, 0.0]
        )
        ambient = ambient + headlight.ambient
    elif not model.nlight:
        ambient = ambient + _AMBIENT
    return np.array(rows).reshape(-1, 12), ids, ambient


def _kind(model: mujoco.MjModel, geom: int, first: dict[int, int]) -> list[int]:
    texture = _texture(model, geom)
    if texture is None:
        return [geom, model.geom_type[geom], 0, 0, 0]
    size = model.tex_width[texture], model.tex_height[texture]
    return [geom, model.geom_type[geom], first[texture], *size]


def _look(model: mujoco.MjModel, geom: int) -> np.ndarray:
    material, kind, size = model.geom_matid[geom], model.geom_type[geom], model.geom_size[geom]
    surface = [_SPECULAR, _SHININESS * _MAX_SHININESS, _EMISSION]
    if material >= 0:
        shininess = model.mat_shininess[material] * _MAX_SHININESS
        surface = [model.mat_specular[material], shininess, model.mat_emission[material]]
    if kind == _SPHERE:
        size = size[[0, 0, 0]]
    half = size
    if kind == _CAPSULE:
        half = np.array([size[0], size[0], size[0] + size[1]])
    elif kind == _CYLINDER:
        half = size[[0, 0, 1]]
    elif kind == _PLANE:
        half = np.array([*size[:2], 0.0]) if size[:2].all() else np.zeros(3)
    return np.concatenate([_rgba(model, geom)[:3], surface, size, half, _stretch(model, geom)])


def _stretch(model: mujoco.MjModel, geom: int) -> list[float]:
    """Texture coordinates on a plane, (u, v) = (a · x + b, c · y + d), as [a, b, c, d].

    A finite plane shows `texrepeat` copies of the texture, or that many per unit of length if the
    material is uniform; an infinite one two units per copy.
    """
    material, size = model.geom_matid[geom], model.geom_size[geom]
    if material < 0 or model.geom_type[geom] != _PLANE:
        return [0.0] * 4
    numbers = []
    shift = -0.5 if (size[:2] <= 0.0).any() else 0.0
    for half, copies, sign in zip(
        size[:2], model.mat_texrepeat[material], (1.0, -1.0), strict=True
    ):
        if half > 0.0:
            total = copies * half if model.mat_texuniform[material] else copies
            numbers += [sign * total / (2.0 * half), total / 2.0 + shift]
        else:
            numbers += [sign * 0.5 * copies, shift]
    return numbers
