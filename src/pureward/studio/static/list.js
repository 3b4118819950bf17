// A list that draws only the rows that can be seen.
import { element as make } from "./viewer.js";

const HEIGHT = 28;

export class List {
  // fill(row, index) writes a row; chosen(index) is called when one is clicked, or when the arrow
  // keys move to it; it may not exist.
  constructor(element, fill, chosen) {
    Object.assign(this, { element, fill, chosen, count: 0, selected: -1 });
    this.inner = make("div");
    element.append(this.inner);
    element.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation(); // elsewhere these keys change a reward
      chosen(this.selected + by);
    });
    element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  show(count, selected) {
    this.count = count;
    this.selected = selected;
    this.inner.style.height = `${count * HEIGHT}px`;
    const top = selected * HEIGHT;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + HEIGHT > scrollTop + clientHeight)
      this.element.scrollTop = top + HEIGHT - clientHeight;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - 2);
    const last = Math.min(this.count, first + Math.ceil(this.element.clientHeight / HEIGHT) + 4);
    const rows = [];
    for (let index = first; index < last; index++) {
      const row = make("div", "", "row");
      row.style.top = `${index * HEIGHT}px`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", index === this.selected);
      row.addEventListener("click", () => this.chosen(index));
      this.fill(row, index);
      rows.push(row);
    }
    this.inner.replaceChildren(...rows);
  }
}
