// The view in which a person draws the reward of an episode.
import { getJson } from "./api.js";
import { Curve } from "./curve.js";
import { List } from "./list.js";
import { agreement, copyOf, filled, round, smoothed, stretched } from "./merge.js";
import { Store } from "./store.js";
import { Viewer, byId, element } from "./viewer.js";

const PER_SECOND = 20; // frames, when an episode is played
const KEYS = [
  ["← →", "one frame back or forward; with Shift, select a span"],
  ["PageUp, PageDown", "ten frames"],
  ["Home, End", "first or last frame"],
  ["↑ ↓", "raise or lower the reward at this frame by 0.05; in the list, another episode"],
  ["space", "play or stop"],
  ["n, p", "next or previous episode"],
  ["d, e", "draw or erase by dragging; the right button erases too"],
  ["x", "erase the span, or the reward at this frame"],
  ["m", "smooth the span, or the whole curve"],
  ["c", "copy the curve of the episode that was open before"],
  ["s, f, u", "success, failure or no mark: of the span, or of the whole episode"],
  ["z, y", "undo, redo"],
  ["Esc", "drop the span"],
];
// Key → the button that does the same.
const BUTTONS = {
  " ": "play", p: "previous", n: "next", d: "draw", e: "erase", m: "smooth", c: "copy",
  z: "undo", y: "redo", s: "success", f: "failure", u: "unmark",
};

export class Sketching extends Viewer {
  constructor(overview, tell) {
    super("sketch", "frame", tell);
    this.overview = overview;
    this.number = 0; // of the episode that is shown
    this.wanted = { number: 0 }; // that was asked for last
    this.stores = new Map(); // those that are not saved yet, by path
    this.span = null;
    this.erasing = false;
    this.last = null; // the curve of the episode that was open before
    this.source = Number(sessionStorage.getItem("source") ?? 0) % overview.sources.length;
    this.person = localStorage.getItem("annotator") || overview.annotator;
    this.list = new List(byId("episodes"), this);
    this.curve = new Curve(byId("curve"), {
      move: (frame) => this.move(frame),
      begin: () => this.store.begin(),
      draw: (from, to, erase) => this.drawLine(from, to, erase || this.erasing),
      end: () => this.store.save(),
      select: (from, to) => this.select(from, to),
      unselect: () => this.unselect(),
    });
    this.connect();
  }

  get data() {
    return this.overview.sources[this.source];
  }

  connect() {
    // By the id of a button.
    this.actions = {
      back: () => this.step(-1),
      forward: () => this.step(1),
      play: () => this.play(),
      previous: () => this.open(this.wanted.number - 1),
      next: () => this.open(this.wanted.number + 1),
      draw: () => this.tool(false),
      erase: () => this.tool(true),
      smooth: () => this.smooth(),
      copy: () => this.copyLast(),
      undo: () => this.store.undo(),
      redo: () => this.store.redo(),
      success: () => this.mark(true),
      failure: () => this.mark(false),
      unmark: () => this.mark(null),
      mine: () => this.store.settle(true),
      theirs: () => this.store.settle(false),
    };
    for (const [id, act] of Object.entries(this.actions))
      byId(id).addEventListener("click", () => {
        if (this.store || id === "previous" || id === "next") act();
      });
    for (const [index, source] of this.overview.sources.entries()) {
      const option = new Option(source.name, index);
      option.title = source.path;
      byId("source").append(option);
    }
    byId("source").value = this.source;
    byId("source").addEventListener("change", (event) => {
      this.open(0, Number(event.target.value));
      sessionStorage.setItem("source", event.target.value);
    });
    byId("annotator").value = this.person;
    byId("annotator").addEventListener("change", (event) => this.rename(event.target));
    for (const [keys, meaning] of KEYS)
      byId("keys").append(element("dt", keys), element("dd", meaning));
    window.addEventListener("beforeunload", (event) => {
      if ([...this.stores.values()].some((store) => store.dirty)) event.preventDefault();
    });
    new ResizeObserver(() => this.fit()).observe(byId("stage"));
  }

  rename(input) {
    const name = input.value.replace(/[^A-Za-z0-9_-]/g, "");
    input.value = this.person = name || this.overview.annotator;
    localStorage.setItem("annotator", this.person);
    this.open(this.number);
  }

  // A new episode is open only when its description is there; a later click wins. "Next" goes on
  // from the one that was asked for, so that it passes one that cannot be opened.
  async open(number, source = this.source) {
    const { splits } = this.overview.sources[source];
    if (number < 0 || number >= splits.length) return;
    const wanted = (this.wanted = { number });
    const path = `/api/sources/${source}/episodes/${number}`;
    let info;
    try {
      info = await getJson(path);
    } catch (error) {
      if (this.wanted !== wanted) return;
      this.tell(error.message);
      byId("source").value = this.source;
      if (this.store) this.requestShow();
      else this.list.show(splits.length, -1);
      return;
    }
    if (this.wanted !== wanted) return;
    this.tell("");
    if (source !== this.source) this.last = null;
    else if (number !== this.number && this.store?.sketch.rewards.some((value) => value !== null))
      this.last = copyOf(this.store.sketch);
    [this.source, this.number] = [source, number];
    this.span = null;
    this.take(path, info, 0);
    this.store = this.storeOf(`${path}/sketches/${this.person}`, info);
    this.tool(false);
    this.fit();
    this.show();
  }

  // One that is still being saved is used again: two of one episode would undo each other's work.
  storeOf(path, info) {
    for (const [each, store] of this.stores) if (!store.saving) this.stores.delete(each);
    const changed = (store) => {
      if (this.store !== store) return;
      this.showSaving(); // at once: who waits for "Saved" must not see the one before
      this.requestShow();
    };
    const store =
      this.stores.get(path) ?? new Store(path, info.steps, info.sketches[this.person], changed);
    this.stores.set(path, store);
    return store;
  }

  fillRow(row, index) {
    const done = index === this.number ? this.store?.revision : this.has(this.person, index);
    row.append(
      element("span", index, "number"),
      element("span", this.data.splits[index], "note"),
      element("span", done ? "✓" : "", "done"),
    );
  }

  has(person, index) {
    return this.data.annotators[person]?.includes(index);
  }

  // With Shift, select from where the span began to the new frame.
  step(by, extend = false) {
    const from = this.span ? this.anchor : this.frame;
    super.step(by);
    if (extend) this.select(from, this.frame);
  }

  // Select the frames between two; the first one has no reward.
  select(from, to) {
    this.anchor = from;
    const [first, last] = [Math.max(1, Math.min(from, to)), Math.max(from, to)];
    this.span = last > 0 ? [first, last] : null;
    this.requestShow();
  }

  unselect() {
    this.span = null;
    this.requestShow();
  }

  tool(erasing) {
    this.erasing = erasing;
    byId("draw").setAttribute("aria-pressed", !erasing);
    byId("erase").setAttribute("aria-pressed", erasing);
  }

  // Every step between two places of the pointer; the first frame has no reward.
  drawLine(from, to, erase) {
    const { rewards } = this.store.sketch;
    const [low, high] = from.frame <= to.frame ? [from, to] : [to, from];
    for (let frame = Math.max(1, low.frame); frame <= high.frame; frame++) {
      const share = high.frame > low.frame ? (frame - low.frame) / (high.frame - low.frame) : 1;
      rewards[frame - 1] = erase ? null : round(low.value + (high.value - low.value) * share);
    }
  }

  change(edit) {
    this.store.begin();
    edit(this.store.sketch);
    this.store.save();
  }

  // First and last step of the span, or of what is given instead.
  steps(otherwise) {
    return this.span ? [this.span[0] - 1, this.span[1]] : otherwise;
  }

  smooth() {
    const [start, stop] = this.steps([0, this.info.steps]);
    this.change((sketch) => (sketch.rewards = smoothed(sketch.rewards, start, stop)));
  }

  copyLast() {
    if (!this.last) return this.tell("There is no curve to copy yet: draw one, then go to the next episode.");
    const rewards = stretched(this.last.rewards, this.info.steps);
    this.change((sketch) => (sketch.rewards = rewards));
  }

  eraseSpan() {
    const [start, stop] = this.steps([this.frame - 1, this.frame]);
    this.change((sketch) => sketch.rewards.fill(null, Math.max(0, start), stop));
  }

  nudge(by) {
    if (this.frame === 0) return;
    const now = filled(this.store.sketch.rewards)?.[this.frame - 1] ?? 0.5;
    this.change((sketch) => (sketch.rewards[this.frame - 1] = round(now + by)));
  }

  mark(success) {
    const chosen = this.steps(null);
    this.change((sketch) => {
      if (chosen) sketch.success.fill(success, chosen[0], chosen[1]);
      else sketch.outcome = success === null ? "" : success ? "success" : "failure";
    });
  }

  play() {
    this.playing = !this.playing;
    byId("play").textContent = this.playing ? "Stop" : "Play";
    if (this.playing && this.frame === this.info.steps) this.move(0);
    let before = performance.now();
    const turn = (now) => {
      if (!this.playing) return;
      const due = Math.floor(((now - before) / 1000) * PER_SECOND);
      if (due) {
        before += (due * 1000) / PER_SECOND;
        this.move(this.frame + due);
      }
      if (this.frame === this.info.steps) this.play();
      else requestAnimationFrame(turn);
    };
    if (this.playing) requestAnimationFrame(turn);
  }

  keyed({ key, shiftKey, target }) {
    const pressed = key.length === 1 ? key.toLowerCase() : key;
    if (pressed === " " && target.tagName === "BUTTON") return null; // the browser presses it
    if (pressed === "z" && shiftKey) return this.actions.redo;
    const others = {
      ArrowUp: () => this.nudge(0.05),
      ArrowDown: () => this.nudge(-0.05),
      x: () => this.eraseSpan(),
      Escape: () => this.unselect(),
    };
    return others[pressed] ?? this.actions[BUTTONS[pressed]];
  }

  show() {
    const { store, info } = this;
    byId("stage").classList.toggle("waiting", !this.frames.draw(this.canvas, this.frame));
    const others = Object.fromEntries(
      Object.entries(info.sketches)
        .filter(([name]) => name !== this.person)
        .map(([name, sketch]) => [name, sketch.rewards]),
    );
    const theirs = store.conflict?.theirs;
    const { frame, span: chosen } = this;
    this.curve.show({ steps: info.steps, frame, sketch: store.sketch, span: chosen, others, theirs });
    const value = filled(store.sketch.rewards)?.[frame - 1];
    const shown = value === undefined ? "" : `, reward ${value.toFixed(2)}`;
    byId("place").textContent = `frame ${frame} of ${info.steps}${shown}`;
    byId("undo").disabled = !store.before.length;
    byId("redo").disabled = !store.after.length;
    byId("copy").disabled = !this.last;
    byId("previous").disabled = this.wanted.number === 0;
    byId("next").disabled = this.wanted.number === this.data.splits.length - 1;
    this.showAgreement(others);
    this.showSaving();
    const rows = [this.source, this.number, this.person, store.revision > 0].join();
    if (rows !== this.rows) this.list.show(this.data.splits.length, this.number);
    this.rows = rows;
  }

  showAgreement(others) {
    const parts = Object.entries(others).flatMap(([name, rewards]) => {
      const found = agreement(this.store.sketch.rewards, rewards);
      const whose = element("i", name);
      if (!found) return [whose, " has a sketch too. "];
      const { distance, correlation } = found;
      const together = correlation === null ? "" : `, correlation ${correlation.toFixed(2)}`;
      return ["Agreement with ", whose, `: mean distance ${distance.toFixed(2)}${together}. `];
    });
    byId("others").replaceChildren(...parts);
  }

  showSaving() {
    const { store } = this;
    const status = byId("status");
    const problem = store.dirty && store.problem;
    if (store.conflict) status.textContent = "Conflict: not saved";
    else if (problem) status.textContent = `Not saved: ${problem}. Trying again.`;
    else if (store.dirty) status.textContent = "Saving…";
    else status.textContent = store.revision ? "Saved" : "Nothing drawn yet";
    status.title = this.data.sidecar;
    status.classList.toggle("bad", Boolean(store.conflict || problem));
    if (store.revision && !this.has(this.person, this.number))
      (this.data.annotators[this.person] ??= []).push(this.number);
    const done = (this.data.annotators[this.person] ?? []).length;
    byId("tally").textContent = `${done} of ${this.data.splits.length} done`;
    byId("conflict").hidden = !store.conflict;
    if (!store.conflict) return;
    const steps = store.conflict.conflicts.filter((step) => step >= 0).map((step) => step + 1);
    const where = steps.length ? `frames ${steps[0]} to ${steps.at(-1)}` : "the episode's mark";
    byId("conflict").firstElementChild.textContent =
      `Another tab changed ${where} as well. Its curve is dotted.`;
  }
}
