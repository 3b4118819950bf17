// SPDX-License-Identifier: Apache-2.0
// One control step of one world, all substeps in one thread: the body of a Warp native function,
// compiled for CUDA and for the CPU. small_tree.py writes the model's sizes and topology
// (NB bodies, NV joints of one degree of freedom, NC contact points, NR constraint rows, ...)
// in front of it as constants, so that every loop over them unrolls into registers.
//
// The physics is MuJoCo's (mujoco.readthedocs.io, "Computation"): generalised coordinates,
// soft constraints with pyramidal friction, Newton's method on the convex primal problem,
// semi-implicit Euler with implicit damping. Vectors are in the world's frame; spatial vectors
// are taken about a point that moves with the root body, which keeps float32 accurate far from
// the origin.

typedef float Real;  // Warp defines float(x) as a macro, so function arguments need another name

struct Vec {
    Real x, y, z;
    CUDA_CALLABLE Vec operator+(Vec o) const { return {x + o.x, y + o.y, z + o.z}; }
    CUDA_CALLABLE Vec operator-(Vec o) const { return {x - o.x, y - o.y, z - o.z}; }
    CUDA_CALLABLE Vec operator*(Real s) const { return {x * s, y * s, z * s}; }
    CUDA_CALLABLE Real dot(Vec o) const { return x * o.x + y * o.y + z * o.z; }
    CUDA_CALLABLE Vec cross(Vec o) const {
        return {y * o.z - z * o.y, z * o.x - x * o.z, x * o.y - y * o.x};
    }
};

struct Mat {
    Vec a, b, c;  // rows
    CUDA_CALLABLE Vec operator*(Vec v) const { return {a.dot(v), b.dot(v), c.dot(v)}; }
    CUDA_CALLABLE Mat transposed() const {
        return {{a.x, b.x, c.x}, {a.y, b.y, c.y}, {a.z, b.z, c.z}};
    }
    CUDA_CALLABLE Mat operator*(const Mat &o) const {
        Mat t = o.transposed();
        return {{a.dot(t.a), a.dot(t.b), a.dot(t.c)},
                {b.dot(t.a), b.dot(t.b), b.dot(t.c)},
                {c.dot(t.a), c.dot(t.b), c.dot(t.c)}};
    }
    CUDA_CALLABLE Mat operator+(const Mat &o) const { return {a + o.a, b + o.b, c + o.c}; }
};

// A rotation (or torque) and a translation (or force) at the reference point.
struct Spatial {
    Vec w, v;
    CUDA_CALLABLE Spatial operator+(Spatial o) const { return {w + o.w, v + o.v}; }
    CUDA_CALLABLE Spatial operator*(Real s) const { return {w * s, v * s}; }
    CUDA_CALLABLE Real dot(Spatial o) const { return w.dot(o.w) + v.dot(o.v); }
    // Spatial cross products: rate of change of a motion vector, or a force vector, in this motion.
    CUDA_CALLABLE Spatial carry_motion(Spatial m) const {
        return {w.cross(m.w), w.cross(m.v) + v.cross(m.w)};
    }
    CUDA_CALLABLE Spatial carry_force(Spatial f) const {
        return {w.cross(f.w) + v.cross(f.v), w.cross(f.v)};
    }
};

struct Inertia {
    Real mass;
    Vec moment;  // mass times the centre's offset from the reference point
    Mat rotary;  // about the reference point
    CUDA_CALLABLE Spatial operator*(Spatial m) const {
        return {rotary * m.w + moment.cross(m.v), m.v * mass + m.w.cross(moment)};
    }
    CUDA_CALLABLE Inertia operator+(const Inertia &o) const {
        return {mass + o.mass, moment + o.moment, rotary + o.rotary};
    }
};

// Soft constraint: spring k, damper b, and impedance from d_min to d_max over a width.
struct Softness {
    Real k, b, d_min, d_max, width, middle, power;
    CUDA_CALLABLE Real impedance(Real depth) const {
        Real x = depth / width, y;
        if (x >= 1.0f) return d_max;
        if (x <= middle) y = powf(x, power) / powf(middle, power - 1.0f);
        else y = 1.0f - powf(1.0f - x, power) / powf(1.0f - middle, power - 1.0f);
        return d_min + y * (d_max - d_min);
    }
};

struct Body { Vec pos; Mat rot; Real mass; Vec center; Mat inertia; };
struct Joint {
    Vec pos, axis;
    Real zero, armature, damping, stiffness, rest, low, high, weight;
    Softness limit;
};
struct Contact {
    Vec point, axis, normal, plane;  // point and axis in the body's frame
    Real radius, friction, weight;
    Softness soft;
};
struct Motor { Real gain, low, high; };
struct Params {
    Real step;
    Vec gravity;
    Body body[NB];
    Joint joint[NV];
    Contact contact[NC];
    Motor motor[NU];
};

// Solves H x = g for a symmetric positive matrix; H's lower half is overwritten by its factor.
struct Cholesky {
    static CUDA_CALLABLE void solve(Real (&h)[NV][NV], const Real (&g)[NV], Real (&x)[NV]) {
#pragma unroll
        for (int i = 0; i < NV; i++) {
#pragma unroll
            for (int j = 0; j <= i; j++) {
                Real s = h[i][j];
#pragma unroll
                for (int k = 0; k < j; k++) s -= h[i][k] * h[j][k];
                // The diagonal stores its inverse: one division for the column and both solves.
                h[i][j] = i == j ? 1.0f / sqrtf(wp::max(s, 1e-15f)) : s * h[j][j];
            }
        }
#pragma unroll
        for (int i = 0; i < NV; i++) {
            Real s = g[i];
#pragma unroll
            for (int k = 0; k < i; k++) s -= h[i][k] * x[k];
            x[i] = s * h[i][i];
        }
#pragma unroll
        for (int i = NV - 1; i >= 0; i--) {
            Real s = x[i];
#pragma unroll
            for (int k = i + 1; k < NV; k++) s -= h[k][i] * x[k];
            x[i] = s * h[i][i];
        }
    }
};

const Params &model = *reinterpret_cast<const Params *>(params.data);
Real *const qpos_row = qpos.data + world * NV;
Real *const qvel_row = qvel.data + world * NV;
Real *const warm_row = warmstart.data + world * NV;
const Real *const ctrl_row = ctrl.data + world * NU;

Real q[NV], v[NV], acc[NV], motor[NV];
#pragma unroll
for (int j = 0; j < NV; j++) {
    q[j] = qpos_row[j];
    v[j] = qvel_row[j];
    acc[j] = warm_row[j];
    motor[j] = 0.0f;
}
#pragma unroll
for (int u = 0; u < NU; u++) {
    const Motor &m = model.motor[u];
    motor[MOTOR_JOINT[u]] += m.gain * wp::min(wp::max(ctrl_row[u], m.low), m.high);
}

#pragma unroll 1
for (int substep = 0; substep < substeps; substep++) {
    // --- Kinematics.
    Vec pos[NB], axis[NV], anchor[NV];
    Mat rot[NB];
    pos[0] = {0.0f, 0.0f, 0.0f};
    rot[0] = {{1.0f, 0.0f, 0.0f}, {0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}};
#pragma unroll
    for (int b = 1; b < NB; b++) {
        const Body &body = model.body[b];
        const int p = PARENT[b];
        Vec x = pos[p] + rot[p] * body.pos;
        Mat r = rot[p] * body.rot;
#pragma unroll
        for (int j = FIRST_JOINT[b]; j < FIRST_JOINT[b + 1]; j++) {
            const Joint &joint = model.joint[j];
            const Real turn = q[j] - joint.zero;
            axis[j] = r * joint.axis;
            anchor[j] = x + r * joint.pos;
            if (IS_SLIDE[j]) {
                x = x + axis[j] * turn;
            } else {
                const Real s = sinf(turn), c = cosf(turn);
                const Vec e = joint.axis, f = e * (1.0f - c), g = e * s;
                r = r * Mat{{c + f.x * e.x, f.x * e.y - g.z, f.x * e.z + g.y},
                            {f.y * e.x + g.z, c + f.y * e.y, f.y * e.z - g.x},
                            {f.z * e.x - g.y, f.z * e.y + g.x, c + f.z * e.z}};
                x = anchor[j] - r * joint.pos;
            }
        }
        pos[b] = x;
        rot[b] = r;
    }
    const Vec origin = pos[1];

    // --- Velocities, bias forces (gravity among them) and inertias, root to leaves.
    Spatial motion[NV], velocity[NB], bias_acc[NB], force[NB];
    Inertia inertia[NB];
    velocity[0] = {{0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f}};
    bias_acc[0] = {{0.0f, 0.0f, 0.0f}, model.gravity * -1.0f};
#pragma unroll
    for (int b = 1; b < NB; b++) {
        const Body &body = model.body[b];
        Spatial vel = velocity[PARENT[b]], ba = bias_acc[PARENT[b]];
#pragma unroll
        for (int j = FIRST_JOINT[b]; j < FIRST_JOINT[b + 1]; j++) {
            if (IS_SLIDE[j]) motion[j] = {{0.0f, 0.0f, 0.0f}, axis[j]};
            else motion[j] = {axis[j], (anchor[j] - origin).cross(axis[j])};
            ba = ba + vel.carry_motion(motion[j]) * v[j];
            vel = vel + motion[j] * v[j];
        }
        velocity[b] = vel;
        bias_acc[b] = ba;
        const Vec c = pos[b] + rot[b] * body.center - origin;
        const Real cc = c.dot(c);
        const Mat about_center = rot[b] * body.inertia * rot[b].transposed();
        const Mat shift = {{cc - c.x * c.x, -c.x * c.y, -c.x * c.z},
                           {-c.x * c.y, cc - c.y * c.y, -c.y * c.z},
                           {-c.x * c.z, -c.y * c.z, cc - c.z * c.z}};
        inertia[b] = {body.mass, c * body.mass,
                      about_center + Mat{shift.a * body.mass, shift.b * body.mass,
                                         shift.c * body.mass}};
        force[b] = inertia[b] * ba + vel.carry_force(inertia[b] * vel);
    }

    // --- Leaves to root: the mass matrix M and the smooth force f.
    Real M[NV][NV], smooth[NV];
#pragma unroll
    for (int b = NB - 1; b > 0; b--) {
#pragma unroll
        for (int j = FIRST_JOINT[b]; j < FIRST_JOINT[b + 1]; j++) {
            const Joint &joint = model.joint[j];
            const Spatial momentum = inertia[b] * motion[j];
#pragma unroll
            for (int i = 0; i <= j; i++) {
                M[j][i] = MOVES[b][i] ? motion[i].dot(momentum) : 0.0f;
                M[i][j] = M[j][i];
            }
            M[j][j] += joint.armature;
            smooth[j] = motor[j] - motion[j].dot(force[b]) - joint.damping * v[j] -
                        joint.stiffness * (q[j] - joint.rest);
        }
        if (PARENT[b] > 0) {
            force[PARENT[b]] = force[PARENT[b]] + force[b];
            inertia[PARENT[b]] = inertia[PARENT[b]] + inertia[b];
        }
    }

    // --- Constraint rows J acc >= ref, with stiffness D: joint limits, then contacts.
    Real J[NR][NV], D[NR], ref[NR];
    int rows = 0;
#pragma unroll
    for (int j = 0; j < NV; j++) {
        if (!IS_LIMITED[j]) continue;
        const Joint &joint = model.joint[j];
        const Real below = q[j] - joint.low, above = joint.high - q[j];
        const Real dist = wp::min(below, above);
        if (dist < 0.0f) {
            const Real sign = below < above ? 1.0f : -1.0f;
            const Real imp = joint.limit.impedance(-dist);
#pragma unroll
            for (int i = 0; i < NV; i++) J[rows][i] = i == j ? sign : 0.0f;
            D[rows] = imp / wp::max((1.0f - imp) * joint.weight, 1e-15f);
            ref[rows] = -joint.limit.b * sign * v[j] - joint.limit.k * imp * dist;
            rows++;
        }
    }
#pragma unroll
    for (int k = 0; k < NC; k++) {
        const Contact &con = model.contact[k];
        const int b = CONTACT_BODY[k];
        const Vec n = con.normal, p = pos[b] + rot[b] * con.point;
        const Real dist = (p - con.plane).dot(n) - con.radius;
        if (dist < 0.0f) {
            // The tangents follow the capsule's axis, as MuJoCo's do; a sphere has none.
            Vec t = rot[b] * con.axis;
            if (t.dot(t) < 0.25f) t = fabsf(n.y) < 0.5f ? Vec{0.0f, 1.0f, 0.0f} : Vec{0.0f, 0.0f, 1.0f};
            t = t - n * n.dot(t);
            t = t * (1.0f / sqrtf(wp::max(t.dot(t), 1e-20f)));
            const Vec s = n.cross(t);
            const Vec at = p - n * (con.radius + 0.5f * dist) - origin;
            const Real imp = con.soft.impedance(-dist);
            const Real mu = con.friction;
            const Real d = imp / wp::max((1.0f - imp) * con.weight, 1e-15f);
            Real vel[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int i = 0; i < NV; i++) {
                Real along_n = 0.0f, along_t = 0.0f, along_s = 0.0f;
                if (MOVES[b][i]) {
                    const Vec u = motion[i].v + motion[i].w.cross(at);
                    along_n = u.dot(n);
                    along_t = mu * u.dot(t);
                    along_s = mu * u.dot(s);
                }
                const Real row[4] = {along_n + along_t, along_n - along_t,
                                      along_n + along_s, along_n - along_s};
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    J[rows + e][i] = row[e];
                    vel[e] += row[e] * v[i];
                }
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
                D[rows + e] = d;
                ref[rows + e] = -con.soft.b * vel[e] - con.soft.k * imp * dist;
            }
            rows += 4;
        }
    }

    // --- Newton's method on  1/2 (acc - M^-1 f)' M (acc - M^-1 f) + sum of 1/2 D min(0, r)^2,
    //     r = J acc - ref. Piecewise quadratic: a full step that leaves the set of active rows
    //     as it was has found the minimum.
    Real residual[NR], slope[NR], trace = 0.0f;
#pragma unroll
    for (int j = 0; j < NV; j++) trace += M[j][j];
    unsigned long long used = 0;
    bool full_step = false;
#pragma unroll 1
    for (int iteration = 0; iteration <= iterations; iteration++) {
        Real pull[NV], grad[NV], step[NV], H[NV][NV];
#pragma unroll
        for (int i = 0; i < NV; i++) {
            Real s = -smooth[i];
#pragma unroll
            for (int j = 0; j < NV; j++) s += M[i][j] * acc[j];
            pull[i] = grad[i] = s;
#pragma unroll
            for (int j = 0; j <= i; j++) H[i][j] = M[i][j];
        }
        unsigned long long active = 0;
#pragma unroll 1
        for (int r = 0; r < rows; r++) {
            Real s = -ref[r];
#pragma unroll
            for (int j = 0; j < NV; j++) s += J[r][j] * acc[j];
            residual[r] = s;
            if (s < 0.0f) {
                active |= 1ull << r;
#pragma unroll
                for (int i = 0; i < NV; i++) {
                    const Real w = D[r] * J[r][i];
                    grad[i] += w * s;
#pragma unroll
                    for (int j = 0; j <= i; j++) H[i][j] += w * J[r][j];
                }
            }
        }
        if (iteration == iterations || (full_step && active == used)) break;
        used = active;
        Cholesky::solve(H, grad, step);
        // grad' step is the slope of the objective. Stop when it is below single precision.
        Real fall = 0.0f;
#pragma unroll
        for (int i = 0; i < NV; i++) fall += grad[i] * step[i];
        if (fall < 1e-6f * trace) break;

        // Line search: the root of the rising, piecewise linear derivative along -step.
        Real d0 = 0.0f, d1 = 0.0f;
#pragma unroll
        for (int i = 0; i < NV; i++) {
            Real s = 0.0f;
#pragma unroll
            for (int j = 0; j < NV; j++) s += M[i][j] * step[j];
            d0 -= pull[i] * step[i];
            d1 += s * step[i];
        }
#pragma unroll 1
        for (int r = 0; r < rows; r++) {
            Real s = 0.0f;
#pragma unroll
            for (int j = 0; j < NV; j++) s -= J[r][j] * step[j];
            slope[r] = s;
        }
        Real alpha = 1.0f, low = 0.0f, high = 1e30f;
#pragma unroll 1
        for (int search = 0; search < line_search; search++) {
            Real derivative = d0 + alpha * d1, curvature = d1;
#pragma unroll 1
            for (int r = 0; r < rows; r++) {
                const Real at = residual[r] + alpha * slope[r];
                if (at < 0.0f) {
                    const Real w = D[r] * slope[r];
                    derivative += w * at;
                    curvature += w * slope[r];
                }
            }
            full_step = search == 0;
            if (fabsf(derivative) <= 1e-2f * fall) break;
            full_step = false;
            if (derivative < 0.0f) low = alpha;
            else high = alpha;
            Real next = alpha - derivative / wp::max(curvature, 1e-15f);
            if (next <= low || next >= high) next = high < 1e30f ? 0.5f * (low + high) : 2.0f * low;
            alpha = next;
        }
#pragma unroll
        for (int i = 0; i < NV; i++) acc[i] -= alpha * step[i];
    }

    // --- Semi-implicit Euler, damping implicit: (M + h B) a = M acc.
    Real impulse[NV], a[NV];
#pragma unroll
    for (int i = 0; i < NV; i++) {
        Real s = 0.0f;
#pragma unroll
        for (int j = 0; j < NV; j++) s += M[i][j] * acc[j];
        impulse[i] = s;
    }
#pragma unroll
    for (int i = 0; i < NV; i++) M[i][i] += model.step * model.joint[i].damping;
    Cholesky::solve(M, impulse, a);
#pragma unroll
    for (int i = 0; i < NV; i++) {
        v[i] += model.step * a[i];
        q[i] += model.step * v[i];
    }
}

#pragma unroll
for (int j = 0; j < NV; j++) {
    qpos_row[j] = q[j];
    qvel_row[j] = v[j];
    warm_row[j] = acc[j];
}
time.data[world] += substeps * model.step;
