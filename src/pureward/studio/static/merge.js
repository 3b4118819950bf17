// Sketches: {rewards, success, outcome}. Steps without a value are null.

export const emptySketch = (steps) => ({
  rewards: Array(steps).fill(null),
  success: Array(steps).fill(null),
  outcome: "",
});

export const copyOf = (sketch) => ({
  rewards: [...sketch.rewards],
  success: [...sketch.success],
  outcome: sketch.outcome,
});

export const same = (a, b) =>
  a.outcome === b.outcome &&
  a.rewards.every((value, step) => value === b.rewards[step]) &&
  a.success.every((value, step) => value === b.success[step]);

// What two people, or two tabs, made of one sketch. Where both changed it differently, `merged`
// has mine, and the step is in `conflicts`; -1 stands for the mark of the episode.
export function merge(base, mine, theirs) {
  const conflicts = new Set();
  const pick = (b, m, t, step) => {
    if (m === t || t === b) return m;
    if (m === b) return t;
    conflicts.add(step);
    return m;
  };
  const merged = {
    rewards: mine.rewards.map((m, step) => pick(base.rewards[step], m, theirs.rewards[step], step)),
    success: mine.success.map((m, step) => pick(base.success[step], m, theirs.success[step], step)),
    outcome: pick(base.outcome, mine.outcome, theirs.outcome, -1),
  };
  return { merged, conflicts: [...conflicts].sort((a, b) => a - b) };
}

export function takeTheirs(merged, theirs, conflicts) {
  const result = copyOf(merged);
  for (const step of conflicts) {
    if (step < 0) result.outcome = theirs.outcome;
    else {
      result.rewards[step] = theirs.rewards[step];
      result.success[step] = theirs.success[step];
    }
  }
  return result;
}

// Gaps closed by straight lines, as the reader of the file does; null if nothing is drawn.
export function filled(rewards) {
  const at = rewards.flatMap((value, step) => (value === null ? [] : [step]));
  if (!at.length) return null;
  let next = 0;
  return rewards.map((value, step) => {
    if (value !== null) return value;
    while (next < at.length && at[next] < step) next++;
    const [low, high] = [at[next - 1], at[next]];
    if (low === undefined) return rewards[high];
    if (high === undefined) return rewards[low];
    return rewards[low] + ((rewards[high] - rewards[low]) * (step - low)) / (high - low);
  });
}

export const round = (value) => Math.round(Math.min(1, Math.max(0, value)) * 1000) / 1000;

// The mean over five steps, of drawn steps from `start` to `stop`.
export function smoothed(rewards, start, stop) {
  return rewards.map((value, step) => {
    if (value === null || step < start || step >= stop) return value;
    const near = rewards.slice(Math.max(0, step - 2), step + 3).filter((each) => each !== null);
    return round(near.reduce((sum, each) => sum + each, 0) / near.length);
  });
}

// A curve of another length, stretched to so many steps.
export function stretched(rewards, steps) {
  const curve = filled(rewards);
  if (!curve) return Array(steps).fill(null);
  return Array.from({ length: steps }, (_, step) => {
    const place = steps > 1 ? (step * (curve.length - 1)) / (steps - 1) : 0;
    const low = Math.floor(place);
    const high = Math.min(low + 1, curve.length - 1);
    return round(curve[low] + (curve[high] - curve[low]) * (place - low));
  });
}

// How far two curves agree: mean distance, and Pearson's correlation if both vary.
export function agreement(a, b) {
  const [x, y] = [filled(a), filled(b)];
  if (!x || !y) return null;
  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
  const distance = mean(x.map((value, step) => Math.abs(value - y[step])));
  const [mx, my] = [mean(x), mean(y)];
  const product = mean(x.map((value, step) => (value - mx) * (y[step] - my)));
  const spread = Math.sqrt(mean(x.map((v) => (v - mx) ** 2)) * mean(y.map((v) => (v - my) ** 2)));
  return { distance, correlation: spread > 1e-9 ? product / spread : null };
}
