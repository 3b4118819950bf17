// The view of runs: curves, verdicts, and episodes where reward and truth differ.
import { getJson, postJson, putJson } from "./api.js";
import { LEFT, RIGHT, grid, legend, line, panel, pen } from "./chart.js";
import { List } from "./list.js";
import { Viewer, byId, element } from "./viewer.js";

const LIVE = 3000; // milliseconds between two looks at runs in training
const BAD = ["reward hacked", "collapsed", "saturated", "starved", "view mismatch", "distracted", "failures paid"];

export class Evidence extends Viewer {
  constructor(tell) {
    super("evidence", "scored-frame", tell);
    this.run = 0;
    this.rows = [];
    this.list = new List(byId("scored"), this);
    byId("run").addEventListener("change", (event) => this.choose(Number(event.target.value)));
    byId("other").addEventListener("change", () => this.compare());
    byId("search").addEventListener("click", () => this.ask(postJson));
    for (const [id, mark] of [["failure", "failure"], ["success", "success"], ["none", ""]])
      byId(`mark-${id}`).addEventListener("click", () => this.mark(mark));
    const tracks = byId("tracks");
    const follow = (event) => event.buttons && this.move(this.frameAt(event));
    tracks.addEventListener("pointerdown", follow);
    tracks.addEventListener("pointermove", follow);
    const redraw = () => {
      this.drawCharts();
      this.requestShow();
    };
    new ResizeObserver(redraw).observe(byId("evidence"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  async start() {
    await this.look();
    await this.choose(0);
    setInterval(() => {
      if (!byId("evidence").hidden && !document.hidden) this.look().catch(() => {});
    }, LIVE);
  }

  async look() {
    const lines = await getJson("/api/lines");
    const text = JSON.stringify(lines);
    if (text === this.before) return;
    this.before = text;
    this.lines = lines;
    const all = lines.flatMap((line) => line.runs).sort((a, b) => a.number - b.number);
    if (byId("run").options.length !== all.length) {
      const options = () => all.map((run) => new Option(run.name, run.number));
      byId("run").replaceChildren(...options());
      byId("other").replaceChildren(new Option("none"), ...options());
    }
    byId("lines").replaceChildren(...lines.map((line) => this.lineBox(line)));
    this.drawCharts();
  }

  lineBox(line) {
    const box = element("div", "", "line");
    box.append(element("h3", line.label));
    for (const run of line.runs) {
      const row = element("p");
      const state = run.state ? `, ${run.state}` : "";
      row.append(`${run.name}, ${run.steps.toLocaleString("en")} ${line.unit}${state}: `);
      const kind = BAD.includes(run.verdict) ? "bad" : run.verdict === "healthy" ? "good" : "";
      row.append(element("b", run.verdict, kind), `: ${run.sentence}`);
      box.append(row);
    }
    const charts = element("div", "", "charts");
    for (const each of line.charts) {
      const canvas = element("canvas");
      canvas.chart = each;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", each.title);
      charts.append(canvas);
    }
    box.append(charts);
    return box;
  }

  drawCharts() {
    for (const charts of document.querySelectorAll(".charts")) grid([...charts.children]);
  }

  get path() {
    return `/api/runs/${this.run}/episodes`;
  }

  async choose(run) {
    this.run = run;
    this.info = this.opening = null;
    this.rows = [];
    this.list.show(0, -1);
    byId("found").hidden = true;
    await this.ask(getJson);
  }

  // Ask until the search is done; another run may be chosen meanwhile.
  async ask(request) {
    const turn = (this.turn = {});
    let found;
    try {
      found = await request(this.path);
      while (this.turn === turn && found.state === "working") {
        byId("searching").textContent = "The policy acts, and its reward scores the episodes…";
        byId("search").disabled = true;
        await new Promise((done) => setTimeout(done, 500));
        if (this.turn === turn) found = await getJson(this.path);
      }
    } catch (error) {
      found = { error: error.message };
    }
    if (this.turn !== turn) return;
    byId("search").disabled = false;
    byId("searching").textContent = found.error;
    if (!found.episodes) return;
    this.rows = found.episodes;
    this.showMarked(found.marked);
    byId("found").hidden = !this.rows.length;
    if (request === postJson) byId("search").scrollIntoView(); // what was asked for is below it
    if (this.rows.length) await this.open(0);
  }

  fillRow(row, index) {
    const { number, mark, true_return, learned_return, predicted_return } = this.rows[index];
    const promised = predicted_return ?? learned_return;
    row.append(
      element("span", number, "number"),
      element("span", `promised ${promised.toFixed(1)}, true ${true_return.toFixed(1)}`, "note"),
      element("span", mark),
    );
  }

  async open(index) {
    if (index < 0 || index >= this.rows.length) return;
    const path = `${this.path}/${this.rows[index].number}`;
    const opening = (this.opening = {});
    let info;
    try {
      info = await getJson(path);
    } catch (error) {
      if (this.opening === opening) this.tell(error.message);
      return;
    }
    if (this.opening !== opening) return;
    this.index = index;
    this.compared = {};
    this.spans = suspicious(info.tracks);
    this.take(path, info, this.spans.length ? this.spans[0][0] + 1 : 1);
    this.list.show(this.rows.length, this.index);
    this.show();
    await this.compare();
  }

  // Score the same episode by the reward of another run.
  async compare() {
    const other = byId("other").selectedIndex - 1;
    this.compared = {};
    this.tell("");
    const info = this.info;
    if (info && other >= 0 && other !== this.run) {
      try {
        const found = await getJson(`${this.path}/${this.rows[this.index].number}/by/${other}`);
        if (this.info === info && byId("other").selectedIndex - 1 === other) this.compared = found;
      } catch (error) {
        this.tell(error.message);
      }
    }
    this.requestShow();
  }

  frameAt(event) {
    const box = byId("tracks").getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    return Math.round(1 + share * (this.info.steps - 1));
  }

  async mark(mark) {
    if (!this.info) return;
    const row = this.rows[this.index];
    try {
      const marked = await putJson(`${this.path}/${row.number}/mark`, { mark });
      row.mark = mark;
      this.list.show(this.rows.length, this.index);
      this.showMarked(marked);
      this.tell("");
    } catch (error) {
      this.tell(error.message);
    }
    this.show();
  }

  showMarked(marked) {
    byId("marked").replaceChildren(...Object.values(marked).map((text) => element("p", text)));
  }

  keyed({ key }) {
    return {
      n: () => this.open(this.index + 1),
      p: () => this.open(this.index - 1),
      f: () => this.mark("failure"),
      s: () => this.mark("success"),
      u: () => this.mark(""),
    }[key.toLowerCase()];
  }

  show() {
    if (!this.info || this.view.hidden) return;
    this.frames.draw(this.canvas, this.frame);
    this.fit();
    this.drawTracks();
    const values = Object.entries(this.info.tracks)
      .map(([name, track]) => `${name} ${track[this.frame - 1]?.toFixed(2) ?? "–"}`)
      .join(", ");
    byId("instant").textContent = `frame ${this.frame} of ${this.info.steps}: ${values}`;
    const { mark } = this.rows[this.index];
    for (const own of ["failure", "success"])
      byId(`mark-${own}`).setAttribute("aria-pressed", mark === own);
  }

  // Rewards above, D below, on one time axis.
  drawTracks() {
    const tool = pen(byId("tracks"));
    if (!tool.width) return;
    const x = Array.from({ length: this.info.steps }, (_, step) => step + 1);
    const ink = { "true r": "ink", "r_φ": "accent", paid: "warm", D: "good" };
    const names = ["true r", "r_φ", "paid", "D"].filter((name) => name in this.info.tracks);
    const all = names.map((label) => {
      const dash = label === "paid" && this.info.tracks["r_φ"] ? [5, 4] : []; // it may cover r_φ
      return { label, x, y: this.info.tracks[label], ink: ink[label], dash };
    });
    const name = byId("other").selectedOptions[0]?.textContent;
    for (const [label, y] of Object.entries(this.compared))
      all.push({ label: `${label}, ${name}`, x, y, ink: ink[label], dash: [2, 3] });
    const rewards = all.filter(({ label }) => !label.startsWith("D"));
    const trust = all.filter(({ label }) => label.startsWith("D"));
    const { draw, width, height, color } = tool;
    const last = Math.max(1, this.info.steps - 1);
    const X = (frame) => LEFT + ((width - LEFT - RIGHT) * (frame - 1)) / last;
    const top = 16 + legend(tool, all, 12, LEFT);
    const bottom = height - 22;
    draw.fillStyle = color("shade");
    for (const [start, stop] of this.spans)
      draw.fillRect(X(start + 0.5), top, X(stop + 0.5) - X(start + 0.5), bottom - top);
    const range = [1, this.info.steps];
    const split = trust.length ? top + (bottom - top) * 0.6 : bottom;
    panel(tool, rewards, { top, bottom: split, range });
    if (trust.length) panel(tool, trust, { top: split + 20, bottom, ends: [0, 1], range });
    draw.strokeStyle = color("ink");
    draw.lineWidth = 1;
    const at = X(Math.max(1, this.frame));
    line(draw, at, top, at, bottom);
    draw.fillStyle = color("faint");
    draw.fillText("frame 1", LEFT, height - 9);
    draw.textAlign = "right";
    draw.fillText(String(this.info.steps), width - RIGHT, height - 9);
    draw.textAlign = "start";
  }
}

// Steps where more is promised than the middle of the episode's lowest and highest, and D does not
// trust it; without a model and D, where the true reward is below its middle. [start, stop) each.
export function suspicious(tracks) {
  const middle = (track) => (Math.min(...track) + Math.max(...track)) / 2;
  const promised = tracks["r_φ"] ?? tracks.paid;
  const truth = tracks["true r"];
  const gated = tracks["r_φ"] && tracks.D;
  const [high, low] = [middle(promised), middle(truth)];
  const spans = [];
  promised.forEach((value, step) => {
    const doubted = gated ? tracks.D[step] < 0.5 : truth[step] < low;
    if (value <= high || !doubted) return;
    if (spans.length && spans.at(-1)[1] === step) spans.at(-1)[1] = step + 1;
    else spans.push([step, step + 1]);
  });
  return spans;
}
