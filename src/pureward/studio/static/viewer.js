// What both views share: elements of the page, and an episode with the frame that is shown.
import { Frames } from "./frames.js";

// Keys → frames to move by.
const MOVES = {
  ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity,
};

export const byId = (id) => document.getElementById(id);

export function element(kind, text = "", name = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = name;
  return made;
}

// A view has show(), which draws it, and keyed(event): what a key does, or nothing.
export class Viewer {
  // view and canvas: their ids; tell(sentence): a problem, "" for none.
  constructor(view, canvas, tell) {
    Object.assign(this, { view: byId(view), canvas: byId(canvas), tell, frame: 0 });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  // Take an episode. info: what the server says of it.
  take(path, info, frame) {
    this.frames?.close();
    const [changed, failed] = [() => this.requestShow(), (error) => this.tell(error.message)];
    this.frames = new Frames(path, info, changed, failed);
    [this.info, this.frame] = [info, frame];
    delete this.canvas.dataset.frame;
  }

  move(frame) {
    this.frame = Math.min(this.info.steps, Math.max(0, frame));
    this.requestShow();
  }

  step(by) {
    this.move(this.frame + by);
  }

  key(event) {
    if (!this.info || this.view.hidden) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.altKey || ((event.ctrlKey || event.metaKey) && !/^[zy]$/i.test(event.key))) return;
    const by = MOVES[event.key];
    const act = by ? () => this.step(by, event.shiftKey) : this.keyed(event);
    if (!act) return;
    event.preventDefault();
    act();
  }

  // The largest size that fits, a whole multiple of the frame's if that is larger than it.
  fit() {
    if (!this.frames) return;
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    let scale = Math.min(clientWidth / this.frames.width, clientHeight / this.info.height);
    if (scale > 1) scale = Math.floor(scale);
    this.canvas.style.width = `${this.frames.width * scale}px`;
    this.canvas.style.height = `${this.info.height * scale}px`;
  }

  requestShow() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      this.show();
    });
  }
}
