// The canvas under the frame. From top to bottom: a band to move in, the curve, a band of marks.
import { line, pen } from "./chart.js";
import { filled } from "./merge.js";

const TOP = 22; // pixels of the upper band
const BOTTOM = 24; // of the lower one
const LEFT = 34;
const RIGHT = 12;
const PAD = 8; // above 1 and below 0

export class Curve {
  // on: move(frame), draw(from, to), select(from, to), unselect(), begin(), end(). Steps are frames less one.
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.view = null;
    this.drag = null;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    for (const name of ["pointerup", "pointercancel"])
      canvas.addEventListener(name, () => this.up());
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    new ResizeObserver(() => this.show(this.view)).observe(canvas);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.show(this.view));
  }

  get size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  x(frame) {
    return LEFT + ((this.size.width - LEFT - RIGHT) * frame) / this.view.steps;
  }

  y(value) {
    const low = this.size.height - BOTTOM - PAD;
    return low - (low - TOP - PAD) * value;
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const share = (x - LEFT) / (this.size.width - LEFT - RIGHT);
    const frame = Math.min(this.view.steps, Math.max(0, Math.round(share * this.view.steps)));
    const value = (this.y(0) - y) / (this.y(0) - this.y(1));
    const zone = y < TOP ? "move" : y > this.size.height - BOTTOM ? "select" : "draw";
    return { frame, value: Math.min(1, Math.max(0, value)), zone };
  }

  down(event) {
    if (!this.view || (event.button !== 0 && event.button !== 2)) return;
    const place = this.at(event);
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { zone: place.zone, last: place, first: place, erase: event.button === 2 };
    if (place.zone === "draw") {
      this.on.begin();
      this.on.draw(place, place, this.drag.erase);
    } else if (place.zone === "select") this.on.unselect();
    this.on.move(place.frame);
  }

  moved(event) {
    if (!this.drag) return;
    // A fast hand moves over many steps between two frames of the screen.
    const all = event.getCoalescedEvents?.() ?? [];
    for (const each of all.length ? all : [event]) {
      const place = this.at(each);
      if (this.drag.zone === "draw") this.on.draw(this.drag.last, place, this.drag.erase);
      if (this.drag.zone === "select") this.on.select(this.drag.first.frame, place.frame);
      this.drag.last = place;
    }
    this.on.move(this.drag.last.frame);
  }

  up() {
    if (this.drag?.zone === "draw") this.on.end();
    this.drag = null;
  }

  // view: steps, frame, sketch, span (frames, or null), others ({name: rewards}), theirs
  show(view) {
    this.view = view;
    if (!view || !this.size.width) return;
    const { draw, color } = pen(this.canvas);
    this.color = color;
    this.axes(draw);
    this.marks(draw);
    for (const rewards of Object.values(view.others)) this.line(draw, rewards, "other", 1.2);
    if (view.theirs) this.line(draw, view.theirs.rewards, "bad", 1.5, [2, 3]);
    this.line(draw, view.sketch.rewards, "accent", 2.2);
    this.head(draw);
  }

  axes(draw) {
    const { width, height } = this.size;
    draw.fillStyle = this.color("panel");
    draw.fillRect(0, 0, width, TOP);
    draw.fillRect(0, height - BOTTOM, width, BOTTOM);
    draw.strokeStyle = this.color("line");
    draw.fillStyle = this.color("faint");
    draw.lineWidth = 1;
    for (const value of [0, 0.25, 0.5, 0.75, 1]) {
      const y = Math.round(this.y(value)) + 0.5;
      line(draw, LEFT, y, width - RIGHT, y);
      if (value * 2 === Math.round(value * 2)) draw.fillText(String(value), 10, y);
    }
    draw.textAlign = "center";
    const least = (60 * this.view.steps) / (width - LEFT - RIGHT); // frames between two numbers
    const ten = 10 ** Math.floor(Math.log10(Math.max(1, least)));
    const every = [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= least);
    for (let frame = 0; frame <= this.view.steps; frame += every)
      draw.fillText(String(frame), this.x(frame), TOP / 2);
    draw.textAlign = "start";
  }

  marks(draw) {
    const { height } = this.size;
    const { success, outcome } = this.view.sketch;
    const top = height - BOTTOM;
    const edge = (frame) => this.x(Math.min(this.view.steps, Math.max(0, frame)));
    for (let step = 0; step < success.length; step++) {
      if (success[step] === null) continue;
      let stop = step;
      while (success[stop + 1] === success[step]) stop++;
      draw.fillStyle = this.color(success[step] ? "good" : "bad");
      draw.fillRect(edge(step + 0.5), top + 3, Math.max(2, edge(stop + 1.5) - edge(step + 0.5)), 6);
      step = stop;
    }
    draw.fillStyle = this.color(outcome ? (outcome === "success" ? "good" : "bad") : "faint");
    const hint = this.size.width > 500 ? "drag here to select a span for s or f" : "spans";
    draw.fillText(outcome ? `episode: ${outcome}` : hint, LEFT + 6, top + 16);
    if (this.view.span) {
      const [first, last] = this.view.span;
      draw.fillStyle = this.color("shade");
      draw.fillRect(edge(first - 0.5), TOP, edge(last + 0.5) - edge(first - 0.5), height - TOP);
    }
  }

  // Drawn parts are solid, what fills the gaps is dashed.
  line(draw, rewards, color, width, dash = []) {
    const curve = filled(rewards);
    if (!curve) return;
    draw.strokeStyle = this.color(color);
    for (const solid of [false, true]) {
      draw.lineWidth = solid ? width : 1;
      draw.setLineDash(solid ? dash : [4, 4]);
      draw.beginPath();
      let pen = false;
      curve.forEach((value, step) => {
        const drawn = rewards[step] !== null;
        const joined = solid ? drawn && step > 0 && rewards[step - 1] !== null : step > 0;
        const [x, y] = [this.x(step + 1), this.y(value)];
        if (joined && pen) draw.lineTo(x, y);
        else draw.moveTo(x, y);
        pen = true;
        const alone = drawn && rewards[step - 1] == null && rewards[step + 1] == null;
        if (solid && alone) draw.rect(x - 1, y - 1, 2, 2);
      });
      draw.stroke();
    }
    draw.setLineDash([]);
  }

  head(draw) {
    const x = this.x(this.view.frame);
    draw.strokeStyle = draw.fillStyle = this.color("ink");
    draw.lineWidth = 1;
    line(draw, x, TOP, x, this.size.height);
    const text = String(this.view.frame);
    const half = draw.measureText(text).width / 2 + 5;
    const middle = Math.min(this.size.width - half, Math.max(half, x));
    draw.fillStyle = this.color("panel"); // over the numbers of the axis
    draw.fillRect(middle - half - 6, 0, 2 * half + 12, TOP);
    draw.fillStyle = this.color("ink");
    draw.fillRect(middle - half, 2, 2 * half, TOP - 4);
    draw.fillStyle = this.color("paper");
    draw.textAlign = "center";
    draw.fillText(text, middle, TOP / 2);
    draw.textAlign = "start";
    draw.fillStyle = this.color("ink");
    const value = filled(this.view.sketch.rewards)?.[this.view.frame - 1];
    if (value === undefined) return;
    draw.beginPath();
    draw.arc(x, this.y(value), 3.5, 0, 7);
    draw.fill();
  }
}
