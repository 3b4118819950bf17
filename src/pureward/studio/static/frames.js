// The frames of an episode, fetched as lossless strips: each pixel is that of the data.
import { getImage } from "./api.js";

const MOST_PIXELS = 48e6; // of decoded strips in memory
const AT_ONCE = 2; // requests

export class Frames {
  // info: count, width, height, cameras, per_strip. changed() is called when a strip arrives.
  constructor(path, info, changed, failed) {
    Object.assign(this, { path, info, changed, failed });
    this.strips = new Map();
    this.waiting = new Set();
    this.lost = new Set(); // strips that failed; they are not asked for again
    this.wanted = 0;
    this.closed = false;
    this.total = Math.ceil(info.count / info.per_strip);
    this.most = Math.max(4, Math.floor(MOST_PIXELS / (this.width * info.height * info.per_strip)));
  }

  get width() {
    return this.info.width * this.info.cameras;
  }

  close() {
    this.closed = true;
    for (const strip of this.strips.values()) strip.close();
    this.strips.clear();
  }

  // Draw a frame; false if it is not there yet, and the canvas keeps what it shows.
  draw(canvas, frame) {
    const { per_strip, height } = this.info;
    this.wanted = Math.floor(frame / per_strip);
    this.fetch();
    const strip = this.strips.get(this.wanted);
    if (!strip) return false;
    if (canvas.width !== this.width || canvas.height !== height) {
      canvas.width = this.width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d", { alpha: false });
    context.imageSmoothingEnabled = false;
    const top = (frame % per_strip) * height;
    context.drawImage(strip, 0, top, this.width, height, 0, 0, this.width, height);
    canvas.dataset.frame = frame;
    return true;
  }

  // Fetch the strips nearest to the wanted one; forget the farthest.
  fetch() {
    const far = (index) => Math.abs(index - this.wanted);
    for (const index of [...this.strips.keys()].sort((a, b) => far(b) - far(a))) {
      if (this.strips.size <= this.most) break;
      this.strips.get(index).close();
      this.strips.delete(index);
    }
    for (let distance = 0; distance < this.most / 2; distance++) {
      for (const index of new Set([this.wanted + distance, this.wanted - distance])) {
        if (this.waiting.size >= AT_ONCE) return;
        if (index < 0 || index >= this.total) continue;
        if (![this.strips, this.waiting, this.lost].some((own) => own.has(index))) this.get(index);
      }
    }
  }

  async get(index) {
    this.waiting.add(index);
    try {
      const strip = await getImage(`${this.path}/strips/${index}`);
      if (this.closed) return strip.close();
      this.strips.set(index, strip);
      this.waiting.delete(index);
      this.changed();
      this.fetch();
    } catch (error) {
      this.waiting.delete(index);
      this.lost.add(index);
      if (!this.closed) this.failed(error);
    }
  }
}
