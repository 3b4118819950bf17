// SPDX-License-Identifier: Apache-2.0
// One image of one world: the body of a Warp native function. On CUDA the threads of one block draw
// an image together, with its depth buffer in shared memory; on the CPU one thread does it all.
// raster.py writes the scene's sizes (SIZE pixels, THREADS, PRIMITIVES, MESHES, TRIANGLES, LIGHTS,
// ...) in front of it as constants, and explains the tables.
//
// Everything is computed in the camera's frame: x right, y up, z backwards. The ray of a pixel is
// t · (x, y, −1), so that t is the depth along the camera's axis. Colours follow MuJoCo Warp's ray
// caster.

typedef float Real;  // Warp defines float(x) as a macro, so casts and arguments need another name
typedef unsigned int Word;

struct Vec {
    Real x, y, z;
    CUDA_CALLABLE Vec operator+(Vec o) const { return {x + o.x, y + o.y, z + o.z}; }
    CUDA_CALLABLE Vec operator-(Vec o) const { return {x - o.x, y - o.y, z - o.z}; }
    CUDA_CALLABLE Vec operator*(Real s) const { return {x * s, y * s, z * s}; }
    CUDA_CALLABLE Real dot(Vec o) const { return x * o.x + y * o.y + z * o.z; }
    CUDA_CALLABLE Vec times(Vec o) const { return {x * o.x, y * o.y, z * o.z}; }
    CUDA_CALLABLE Vec cross(Vec o) const {
        return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x};
    }
    CUDA_CALLABLE Vec unit() const { return *this * (1.0f / sqrtf(wp::max(dot(*this), 1e-30f))); }
};

struct Mat {
    Vec a, b, c;  // rows
    CUDA_CALLABLE Vec operator*(Vec v) const { return {a.dot(v), b.dot(v), c.dot(v)}; }
    CUDA_CALLABLE Vec back(Vec v) const { return a * v.x + b * v.y + c * v.z; }  // transposed · v
};

struct Pose {
    Mat turn;  // from the geom's frame to the camera's
    Vec place;  // of the geom in the camera's frame
    Vec eye;  // of the camera in the geom's frame
};

struct Box { int left, right, top, bottom; };  // pixels, all inclusive
struct Lamp { Vec place, ahead; };
struct Hit { Real depth; Vec normal; };

struct Maths {
    static CUDA_CALLABLE Vec vec(const Real *p) { return {p[0], p[1], p[2]}; }
    static CUDA_CALLABLE Mat mat(const Real *p) { return {vec(p), vec(p + 3), vec(p + 6)}; }
    static CUDA_CALLABLE Word bits(Real value) {
#if defined(__CUDA_ARCH__)
        return __float_as_uint(value);
#else
        Word word;
        memcpy(&word, &value, sizeof(word));
        return word;
#endif
    }
    static CUDA_CALLABLE int lowest_bit(Word word) {
#if defined(__CUDA_ARCH__)
        return __ffs((int)word) - 1;
#else
        return __builtin_ctz(word);
#endif
    }
    static CUDA_CALLABLE int within(int value, int low, int high) {
        return value < low ? low : value > high ? high : value;
    }
};

// Where a camera's rays go: SIZE × SIZE pixels over a rectangle at depth 1.
struct View {
    Real left, top, step_x, step_y;
    CUDA_CALLABLE Real x(Real column) const { return left + step_x * (column + 0.5f); }
    CUDA_CALLABLE Real y(Real row) const { return top + step_y * (row + 0.5f); }
    // The pixels whose centres are not before, or not behind, an edge; clamped, because casting a
    // larger number to an int is undefined.
    static CUDA_CALLABLE int first(Real edge) {
        return (int)ceilf(wp::min(wp::max(edge - 0.5f, 0.0f), (Real)SIZE));
    }
    static CUDA_CALLABLE int last(Real edge) {
        return (int)floorf(wp::max(wp::min(edge - 0.5f, SIZE - 1.0f), -1.0f));
    }
    // Pixels whose centres lie in a rectangle of the plane at depth 1; may be empty.
    CUDA_CALLABLE Box box(Real x0, Real x1, Real y0, Real y1) const {
        return {first((x0 - left) / step_x), last((x1 - left) / step_x), first((y1 - top) / step_y),
                last((y0 - top) / step_y)};
    }
};

// Each returns the depth at which a ray enters the shape, or FAR, and the normal there. All of it
// is in the geom's frame. A ray that begins inside sees nothing, as in the ray caster.
struct Shapes {
    static CUDA_CALLABLE Hit miss() { return {FAR, {0.0f, 0.0f, 1.0f}}; }

    static CUDA_CALLABLE Hit plane(Vec eye, Vec ray, Vec size) {
        if (ray.z > -1e-15f || eye.z < 0.0f) return miss();
        Real depth = -eye.z / ray.z;
        Vec at = eye + ray * depth;
        bool inside = (size.x <= 0.0f || fabsf(at.x) <= size.x) &&
                      (size.y <= 0.0f || fabsf(at.y) <= size.y);
        return inside ? Hit{depth, {0.0f, 0.0f, 1.0f}} : miss();
    }

    static CUDA_CALLABLE Hit ellipsoid(Vec eye, Vec ray, Vec size) {
        Vec scale = {1.0f / size.x, 1.0f / size.y, 1.0f / size.z};
        Vec o = eye.times(scale), d = ray.times(scale);
        Real a = d.dot(d), b = d.dot(o), square = b * b - a * (o.dot(o) - 1.0f);
        Real depth = square < 0.0f ? -1.0f : (-b - sqrtf(square)) / a;
        if (depth < 0.0f) return miss();
        return {depth, (o + d * depth).times(scale).unit()};
    }

    static CUDA_CALLABLE Hit capsule(Vec eye, Vec ray, Vec size) {
        Real radius = size.x, half = size.y;
        Real a = wp::max(ray.x * ray.x + ray.y * ray.y, 1e-12f), b = ray.x * eye.x + ray.y * eye.y;
        Real square = b * b - a * (eye.x * eye.x + eye.y * eye.y - radius * radius);
        if (square < 0.0f) return miss();
        Real depth = (-b - sqrtf(square)) / a, z = eye.z + ray.z * depth;
        Real centre = 0.0f;
        if (fabsf(z) > half) {  // the ray enters through the half sphere on that side
            centre = z > 0.0f ? half : -half;
            Vec o = {eye.x, eye.y, eye.z - centre};
            a = ray.dot(ray), b = ray.dot(o), square = b * b - a * (o.dot(o) - radius * radius);
            if (square < 0.0f) return miss();
            depth = (-b - sqrtf(square)) / a;
        } else {
            centre = z;
        }
        if (depth < 0.0f) return miss();
        Vec at = eye + ray * depth;
        return {depth, (at - Vec{0.0f, 0.0f, centre}).unit()};
    }

    // An interval of depths for each pair of faces; the ray enters where the last one begins.
    static CUDA_CALLABLE Hit cylinder(Vec eye, Vec ray, Vec size) {
        Real a = wp::max(ray.x * ray.x + ray.y * ray.y, 1e-12f), b = ray.x * eye.x + ray.y * eye.y;
        Real square = b * b - a * (eye.x * eye.x + eye.y * eye.y - size.x * size.x);
        if (square < 0.0f) return miss();
        Real root = sqrtf(square), begin = (-b - root) / a, end = (root - b) / a;
        Real slope = 1.0f / (fabsf(ray.z) > 1e-15f ? ray.z : 1e-15f);
        Real middle = -eye.z * slope, reach = size.y * fabsf(slope);
        Real depth = wp::max(begin, middle - reach);
        if (depth < 0.0f || depth > wp::min(end, middle + reach)) return miss();
        if (begin < middle - reach) return {depth, {0.0f, 0.0f, ray.z > 0.0f ? -1.0f : 1.0f}};
        return {depth, Vec{eye.x + ray.x * depth, eye.y + ray.y * depth, 0.0f}.unit()};
    }

    static CUDA_CALLABLE Hit box(Vec eye, Vec ray, Vec size) {
        Vec slope = {1.0f / (fabsf(ray.x) > 1e-15f ? ray.x : 1e-15f),
                     1.0f / (fabsf(ray.y) > 1e-15f ? ray.y : 1e-15f),
                     1.0f / (fabsf(ray.z) > 1e-15f ? ray.z : 1e-15f)};
        Vec middle = eye.times(slope) * -1.0f;
        Vec reach = {size.x * fabsf(slope.x), size.y * fabsf(slope.y), size.z * fabsf(slope.z)};
        Vec begin = middle - reach, end = middle + reach;
        Real depth = wp::max(begin.x, wp::max(begin.y, begin.z));
        if (depth < 0.0f || depth > wp::min(end.x, wp::min(end.y, end.z))) return miss();
        if (depth == begin.x) return {depth, {ray.x > 0.0f ? -1.0f : 1.0f, 0.0f, 0.0f}};
        if (depth == begin.y) return {depth, {0.0f, ray.y > 0.0f ? -1.0f : 1.0f, 0.0f}};
        return {depth, {0.0f, 0.0f, ray.z > 0.0f ? -1.0f : 1.0f}};
    }

    static CUDA_CALLABLE Hit any(int kind, Vec eye, Vec ray, Vec size) {
        if (HAS_PLANE && kind == PLANE) return plane(eye, ray, size);
        if (HAS_CAPSULE && kind == CAPSULE) return capsule(eye, ray, size);
        if (HAS_CYLINDER && kind == CYLINDER) return cylinder(eye, ray, size);
        if (HAS_BOX && kind == BOX) return box(eye, ray, size);
        return ellipsoid(eye, ray, size);  // a sphere has three equal radii
    }
};

// A triangle in the camera's frame. A ray d hits it if d · edge is positive for the three edges,
// which holds without clipping at the camera's plane.
struct Triangle {
    Vec a, b, c;  // corners
    Vec edge_a, edge_b, edge_c;  // each opposite to its corner
    CUDA_CALLABLE Triangle(const Real *corners, int index, const Pose &pose) {
        const Real *p = corners + index;
        const int n = TRIANGLES;
        a = pose.turn * Vec{p[0], p[n], p[2 * n]} + pose.place;
        b = pose.turn * Vec{p[3 * n], p[4 * n], p[5 * n]} + pose.place;
        c = pose.turn * Vec{p[6 * n], p[7 * n], p[8 * n]} + pose.place;
        edge_a = c.cross(b), edge_b = a.cross(c), edge_c = b.cross(a);
    }
    CUDA_CALLABLE Real volume() const { return a.dot(edge_a); }
    CUDA_CALLABLE Box pixels(const View &view) const {
        if (wp::max(a.z, wp::max(b.z, c.z)) > -NEAR) return {0, SIZE - 1, 0, SIZE - 1};
        Real ka = -1.0f / a.z, kb = -1.0f / b.z, kc = -1.0f / c.z;
        Real xa = a.x * ka, xb = b.x * kb, xc = c.x * kc;
        Real ya = a.y * ka, yb = b.y * kb, yc = c.y * kc;
        return view.box(wp::min(xa, wp::min(xb, xc)), wp::max(xa, wp::max(xb, xc)),
                        wp::min(ya, wp::min(yb, yc)), wp::max(ya, wp::max(yb, yc)));
    }
};

// A pixel of the depth buffer: the depth in the high bits, the triangle in the low ones, so that
// the smallest word is the nearest triangle. At equal depth the later triangle wins.
struct Buffer {
    static CUDA_CALLABLE Word word(Real depth, int triangle) {
        Word scaled = (Maths::bits(wp::max(depth, NEAR)) - Maths::bits(NEAR)) >> DEPTH_SHIFT;
        return scaled << TRIANGLE_BITS | (Word)(TRIANGLES - 1 - triangle);
    }
    static CUDA_CALLABLE int triangle(Word word) {
        return TRIANGLES - 1 - (int)(word & ((1u << TRIANGLE_BITS) - 1u));
    }
    static CUDA_CALLABLE void keep_nearest(Word *pixel, Word word) {
#if defined(__CUDA_ARCH__)
        // Most triangles lie behind what is drawn already; reading costs less than an atomic.
        if (word < *(volatile Word *)pixel) atomicMin(pixel, word);
#else
        if (word < *pixel) *pixel = word;
#endif
    }
};

struct Textures {
    // Linear interpolation between the four nearest texels; the edge continues outside.
    static CUDA_CALLABLE Vec sample(const int *texels, int width, int height, Real u, Real v) {
        Real x = u * width - 0.5f, y = v * height - 0.5f;
        Real left = floorf(x), top = floorf(y);
        Vec upper = row(texels, width, height, (int)left, (int)top, x - left);
        Vec lower = row(texels, width, height, (int)left, (int)top + 1, x - left);
        return mix(upper, lower, y - top) * (1.0f / 255.0f);
    }
    static CUDA_CALLABLE Vec row(const int *texels, int width, int height, int x, int y,
                                 Real share) {
        const int *line = texels + Maths::within(y, 0, height - 1) * width;
        return mix(colour(line[Maths::within(x, 0, width - 1)]),
                   colour(line[Maths::within(x + 1, 0, width - 1)]), share);
    }
    static CUDA_CALLABLE Vec mix(Vec one, Vec two, Real share) {
        return one * (1.0f - share) + two * share;
    }
    static CUDA_CALLABLE Vec colour(int texel) {
        return {(Real)(texel & 255), (Real)(texel >> 8 & 255), (Real)(texel >> 16 & 255)};
    }
    // The sky is a cube around the world; its six faces lie one below the other, in the order
    // and with the axes of OpenGL, and MuJoCo turns it by 90° about x.
    static CUDA_CALLABLE Vec sky(const int *texels, Vec way) {
        if (SKY_WIDTH == 0) return {0.0f, 0.0f, 0.0f};
        Vec r = {way.x, way.z, -way.y};
        Vec size = {fabsf(r.x), fabsf(r.y), fabsf(r.z)};
        int face;
        Real across, down, length;
        if (size.x >= size.y && size.x >= size.z) {
            face = r.x > 0.0f ? 0 : 1, length = size.x;
            across = r.x > 0.0f ? -r.z : r.z, down = -r.y;
        } else if (size.y >= size.z) {
            face = r.y > 0.0f ? 2 : 3, length = size.y;
            across = r.x, down = r.y > 0.0f ? r.z : -r.z;
        } else {
            face = r.z > 0.0f ? 4 : 5, length = size.z;
            across = r.z > 0.0f ? r.x : -r.x, down = -r.y;
        }
        // Half a texel from the face's edge at least: beyond it lies another face.
        Real u = (across / length + 1.0f) * 0.5f, v = (down / length + 1.0f) * 0.5f;
        Real rim = 0.5f / (SKY_WIDTH + (SKY_WIDTH == 0));
        v = (face + wp::min(wp::max(v, rim), 1.0f - rim)) * (1.0f / 6.0f);
        return sample(texels, SKY_WIDTH, 6 * SKY_WIDTH, u, v);
    }
};

// Lights are tables of LIGHT_NUMBERS: kind, diffuse (3), specular (3), attenuation (3), cosine of
// the cutoff, exponent. The last one is the headlight, a directional light of the camera.
struct Lighting {
    static CUDA_CALLABLE Vec colour(const Real *lights, const Lamp *lamps, const Real *look,
                                    Vec base, Vec ambient, Vec at, Vec normal, Vec to_eye) {
        Real specular = look[3], shininess = look[4], emission = look[5];
        Vec sum = base * emission + base.times(ambient);
        for (int light = 0; light < LIGHTS; light++) {
            const Real *p = lights + light * LIGHT_NUMBERS;
            Vec to_light = lamps[light].ahead * -1.0f;
            Real weight = 1.0f;
            if ((int)p[0] != DIRECTIONAL) {
                Vec away = lamps[light].place - at;
                Real distance = sqrtf(away.dot(away));
                to_light = away * (1.0f / wp::max(distance, 1e-15f));
                weight = 1.0f / (p[7] + p[8] * distance + p[9] * distance * distance);
                if ((int)p[0] == SPOT) {
                    Real cosine = -to_light.dot(lamps[light].ahead);
                    if (cosine < p[10]) continue;
                    weight *= powf(wp::max(cosine, 0.0f), p[11]);
                }
            }
            Real facing = normal.dot(to_light);
            if (facing <= 0.0f) continue;
            sum = sum + base.times(Maths::vec(p + 1)) * (facing * weight);
            if (specular > 0.0f && shininess > 0.0f) {
                Real mirrored = wp::max(normal.dot((to_light + to_eye).unit()), 0.0f);
                sum = sum + Maths::vec(p + 4) * (specular * powf(mirrored, shininess) * weight);
            }
        }
        return sum;
    }
    static CUDA_CALLABLE Word byte(Real value) {
        return (Word)(wp::min(wp::max(value, 0.0f), 1.0f) * 255.0f);
    }
};

#if defined(__CUDA_ARCH__)
#define PUREWARD_SHARED __shared__
#define PUREWARD_BARRIER __syncthreads()
#define PUREWARD_LANE_BITS(condition, lane) __ballot_sync(~0u, condition)
const int image = index / THREADS, thread = index % THREADS, threads = THREADS, lanes = 32;
#else
#define PUREWARD_SHARED
#define PUREWARD_BARRIER
#define PUREWARD_LANE_BITS(condition, lane) ((Word)(condition) << (lane))
const int image = index, thread = 0, threads = 1, lanes = 1;
#endif

constexpr int GEOMS = PRIMITIVES + MESHES, GROUPS = (PRIMITIVES + 31) / 32, PIXELS = SIZE * SIZE;
// 16 bytes aligned: the last pass reads four pixels at once.
alignas(16) PUREWARD_SHARED Word pixels[PIXELS];
PUREWARD_SHARED Pose poses[GEOMS];
PUREWARD_SHARED Box boxes[PRIMITIVES + 1];
PUREWARD_SHARED Lamp lamps[LIGHTS + 1];

const int cameras = tables.cameras.shape[0];
const int world = image / cameras, camera = tables.cameras.data[image % cameras];
const Real *rectangle = tables.rectangles.data + 4 * (image % cameras);
const View view = {rectangle[0], rectangle[1], rectangle[2], rectangle[3]};
const Vec eye = Maths::vec((const Real *)(cam_xpos.data + world * cam_xpos.shape[1] + camera));
const Mat look_at = Maths::mat((const Real *)(cam_xmat.data + world * cam_xmat.shape[1] + camera));

// 1. Poses in the camera's frame, pixels that each primitive may cover, an empty depth buffer.
for (int pixel = thread; pixel < PIXELS; pixel += threads) pixels[pixel] = ~0u;
for (int geom = thread; geom < GEOMS; geom += threads) {
    const int pose_index = world * geom_xpos.shape[1] + tables.kinds.data[geom * KIND_NUMBERS];
    Mat turn = Maths::mat((const Real *)(geom_xmat.data + pose_index));
    Vec x = look_at.back({turn.a.x, turn.b.x, turn.c.x});
    Vec y = look_at.back({turn.a.y, turn.b.y, turn.c.y});
    Vec z = look_at.back({turn.a.z, turn.b.z, turn.c.z});
    Pose pose;
    pose.turn = {{x.x, y.x, z.x}, {x.y, y.y, z.y}, {x.z, y.z, z.z}};
    pose.place = look_at.back(Maths::vec((const Real *)(geom_xpos.data + pose_index)) - eye);
    pose.eye = pose.turn.back(pose.place) * -1.0f;
    poses[geom] = pose;
    if (geom < PRIMITIVES) {
        const Real *half = tables.looks.data + geom * LOOK_NUMBERS + 9;
        Box box = {0, SIZE - 1, 0, SIZE - 1};
        if (half[0] > 0.0f) {  // otherwise an infinite plane
            Real x0 = FAR, x1 = -FAR, y0 = FAR, y1 = -FAR;
            bool behind = false;
            for (int corner = 0; corner < 8; corner++) {
                Vec at = pose.place + x * (corner & 1 ? half[0] : -half[0]) +
                         y * (corner & 2 ? half[1] : -half[1]) +
                         z * (corner & 4 ? half[2] : -half[2]);
                behind = behind || at.z > -NEAR;
                Real scale = -1.0f / at.z;
                x0 = wp::min(x0, at.x * scale), x1 = wp::max(x1, at.x * scale);
                y0 = wp::min(y0, at.y * scale), y1 = wp::max(y1, at.y * scale);
            }
            if (!behind) box = view.box(x0, x1, y0, y1);
        }
        boxes[geom] = box;
    }
}
for (int light = thread; light < LIGHTS; light += threads) {
    if (light == LIGHTS - 1 && HAS_HEADLIGHT) {
        lamps[light] = {{0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, -1.0f}};
    } else {
        const int lamp = world * light_xpos.shape[1] + tables.light_ids.data[light];
        lamps[light] = {look_at.back(Maths::vec((const Real *)(light_xpos.data + lamp)) - eye),
                        look_at.back(Maths::vec((const Real *)(light_xdir.data + lamp)))};
    }
}
PUREWARD_BARRIER;

// 2. Triangles: each thread takes every THREADS-th one and tests the pixels around it.
for (int number = thread; number < TRIANGLES; number += threads) {
    const Pose pose = poses[PRIMITIVES + tables.owners.data[number]];
    const Real *plane = tables.planes.data + number;
    Vec outward = {plane[0], plane[TRIANGLES], plane[2 * TRIANGLES]};
    if (outward.dot(pose.eye) <= plane[3 * TRIANGLES]) continue;  // seen from behind
    const Triangle triangle(tables.corners.data, number, pose);
    const Box box = triangle.pixels(view);
    const Real volume = triangle.volume();
    for (int row = box.top; row <= box.bottom; row++) {
        for (int column = box.left; column <= box.right; column++) {
            Vec ray = {view.x(column), view.y(row), -1.0f};
            Real a = ray.dot(triangle.edge_a), b = ray.dot(triangle.edge_b);
            Real c = ray.dot(triangle.edge_c);
            if (wp::min(a, wp::min(b, c)) < 0.0f) continue;
            Real depth = volume / (a + b + c);
            if (depth > 0.0f && depth < FAR) {
                Buffer::keep_nearest(pixels + row * SIZE + column, Buffer::word(depth, number));
            }
        }
    }
}
PUREWARD_BARRIER;

// 3. Colours. The 32 threads of a warp take 4 rows of 8 pixels, which see few different geoms.
for (int tile = thread / lanes; tile < PIXELS / 32; tile += threads / lanes) {
    const int first_row = tile / (SIZE / 8) * 4, first_column = tile % (SIZE / 8) * 8;
    // The primitives that may cover some of these pixels, as bits.
    Word near[GROUPS + 1];
    for (int group = 0; group < GROUPS; group++) {
        near[group] = 0;
        for (int lane = thread % lanes; lane < 32; lane += lanes) {
            const int geom = 32 * group + lane;
            const Box box = geom < PRIMITIVES ? boxes[geom] : Box{SIZE, 0, SIZE, 0};
            const bool covers = box.left < first_column + 8 && box.right >= first_column &&
                                box.top < first_row + 4 && box.bottom >= first_row;
            near[group] |= PUREWARD_LANE_BITS(covers, lane);
        }
    }
    for (int lane = thread % lanes; lane < 32; lane += lanes) {
        const int row = first_row + lane / 8, column = first_column + lane % 8;
        const Vec ray = {view.x(column), view.y(row), -1.0f};
        Hit hit = Shapes::miss();
        int seen = -1;
        for (int group = 0; group < GROUPS; group++) {
            for (Word rest = near[group]; rest; rest &= rest - 1) {
                const int geom = 32 * group + Maths::lowest_bit(rest);
                const Pose &pose = poses[geom];
                Hit other = Shapes::any(tables.kinds.data[geom * KIND_NUMBERS + 1], pose.eye,
                                        pose.turn.back(ray),
                                        Maths::vec(tables.looks.data + geom * LOOK_NUMBERS + 6));
                if (other.depth < FAR && other.depth <= hit.depth) hit = other, seen = geom;
            }
        }
        const Word word = pixels[row * SIZE + column];
        if (MESHES > 0 && word != ~0u) {
            const int number = Buffer::triangle(word);
            const int mesh = PRIMITIVES + tables.owners.data[number];
            const Triangle triangle(tables.corners.data, number, poses[mesh]);
            Real a = ray.dot(triangle.edge_a), b = ray.dot(triangle.edge_b);
            Real c = ray.dot(triangle.edge_c);
            Real depth = triangle.volume() / (a + b + c);
            if (depth <= hit.depth) {
                const Real *p = tables.normals.data + number;
                const int n = TRIANGLES;
                Vec normal = Vec{p[0], p[n], p[2 * n]} * a + Vec{p[3 * n], p[4 * n], p[5 * n]} * b +
                             Vec{p[6 * n], p[7 * n], p[8 * n]} * c;
                hit = {depth, normal.unit()}, seen = mesh;
            }
        }
        Vec colour;
        if (seen < 0) {
            colour = Textures::sky(tables.texels.data, look_at * ray);
        } else {
            const Real *look = tables.looks.data + seen * LOOK_NUMBERS;
            const int *kind = tables.kinds.data + seen * KIND_NUMBERS;
            Vec base = Maths::vec(look);
            if (HAS_TEXTURES && kind[3] > 0) {
                Vec at = poses[seen].eye + poses[seen].turn.back(ray) * hit.depth;
                Real u = look[12] * at.x + look[13], v = look[14] * at.y + look[15];
                base = base.times(Textures::sample(tables.texels.data + kind[2], kind[3], kind[4],
                                                   u - floorf(u), v - floorf(v)));
            }
            colour = Lighting::colour(tables.lights.data, lamps, look, base,
                                      Maths::vec(tables.ambient.data), ray * hit.depth,
                                      poses[seen].turn * hit.normal, ray.unit() * -1.0f);
        }
        pixels[row * SIZE + column] = Lighting::byte(colour.x) | Lighting::byte(colour.y) << 8 |
                                      Lighting::byte(colour.z) << 16;
    }
}
PUREWARD_BARRIER;

// 4. Three planes of bytes, four pixels to a word.
Word *out = (Word *)frames.data + (size_t)image * 3 * (PIXELS / 4);
for (int word = thread; word < PIXELS / 4; word += threads) {
    const Word *four = pixels + 4 * word;
    const Word p = four[0], q = four[1], r = four[2], s = four[3];
    for (int channel = 0; channel < 3; channel++) {
        const int shift = 8 * channel;
        out[channel * (PIXELS / 4) + word] = (p >> shift & 255u) | (q >> shift & 255u) << 8 |
                                             (r >> shift & 255u) << 16 | (s >> shift & 255u) << 24;
    }
}
