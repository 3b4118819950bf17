// A list that draws only the rows that can be seen.
import { element } from "./viewer.js";

const HEIGHT = 28;

export class List {
  // view.fillRow(row, index) writes a row; view.open(index) is called when one is clicked, or when
  // the arrow keys move to it; it may not exist.
  constructor(box, view) {
    Object.assign(this, { box, view, count: 0, selected: -1 });
    this.inner = element("div");
    box.append(this.inner);
    box.addEventListener("keydown", (event) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation(); // elsewhere these keys change a reward
      view.open(this.selected + by);
    });
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(box);
  }

  show(count, selected) {
    this.count = count;
    this.selected = selected;
    this.inner.style.height = `${count * HEIGHT}px`;
    const top = selected * HEIGHT;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop) this.box.scrollTop = top;
    else if (top + HEIGHT > scrollTop + clientHeight)
      this.box.scrollTop = top + HEIGHT - clientHeight;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - 2);
    const last = Math.min(this.count, first + Math.ceil(this.box.clientHeight / HEIGHT) + 4);
    const rows = [];
    for (let index = first; index < last; index++) {
      const row = element("div", "", "row");
      row.style.top = `${index * HEIGHT}px`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", index === this.selected);
      row.addEventListener("click", () => this.view.open(index));
      this.view.fillRow(row, index);
      rows.push(row);
    }
    this.inner.replaceChildren(...rows);
  }
}
