// Curves on a canvas: axes, lines, bands and a legend.

export const LEFT = 44; // pixels beside the axes
export const RIGHT = 10;

// A canvas at the screen's resolution, with colours of the page by name.
export function pen(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = devicePixelRatio;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const draw = canvas.getContext("2d");
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.font = "11px system-ui, sans-serif";
  draw.textBaseline = "middle";
  const style = getComputedStyle(canvas);
  return { draw, width, height, color: (name) => style.getPropertyValue(`--${name}`) };
}

export function line(draw, fromX, fromY, toX, toY) {
  draw.beginPath();
  draw.moveTo(fromX, fromY);
  draw.lineTo(toX, toY);
  draw.stroke();
}

const short = (value) => {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e3) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size && size < 1e-3) return value.toExponential(1);
  return `${+value.toPrecision(2)}`;
};

// Lowest and highest value to show. The interval of few runs may be far larger than the curves, so
// it makes the axis at most three times as long.
function limits(series) {
  const values = series.flatMap(({ y }) => y);
  const low = Math.min(0, ...values);
  const highest = Math.max(...values);
  const high = highest > low ? highest : low + 1;
  const wide = series.flatMap(({ y, half }) => (half ? y.flatMap((v, i) => [v - half[i], v + half[i]]) : []));
  const most = high - low;
  return [Math.max(Math.min(low, ...wide), low - most), Math.min(Math.max(high, ...wide), high + most)];
}

// One panel. series: [{label, x, y, ink, half?, dash?}]; ends: lowest and highest value; range:
// those of x. `ink` names a colour of style.css. Returns the place of an x on the screen.
export function panel({ draw, width, color }, series, { top, bottom, ends, range }) {
  const [low, high] = ends ?? limits(series);
  const [first, last] = range;
  const X = (x) => LEFT + ((width - LEFT - RIGHT) * (x - first)) / Math.max(1e-9, last - first);
  const Y = (y) => bottom - ((bottom - top) * (y - low)) / (high - low);
  draw.strokeStyle = color("line");
  draw.fillStyle = color("faint");
  draw.lineWidth = 1;
  draw.textAlign = "right";
  for (const value of [low, (low + high) / 2, high]) {
    const y = Math.round(Y(value)) + 0.5;
    line(draw, LEFT, y, width - RIGHT, y);
    draw.fillText(short(value), LEFT - 6, Y(value), LEFT - 6); // narrower if it does not fit
  }
  draw.textAlign = "start";
  draw.save();
  draw.beginPath();
  draw.rect(LEFT - 2, top - 2, width - LEFT - RIGHT + 4, bottom - top + 4);
  draw.clip();
  series.forEach(({ x, y, half, ink, dash }) => {
    draw.setLineDash(dash ?? []);
    draw.strokeStyle = draw.fillStyle = color(ink);
    if (half) {
      draw.globalAlpha = 0.14;
      draw.beginPath();
      x.forEach((v, i) => draw.lineTo(X(v), Y(y[i] + half[i])));
      for (let i = x.length - 1; i >= 0; i--) draw.lineTo(X(x[i]), Y(y[i] - half[i]));
      draw.fill();
      draw.globalAlpha = 1;
    }
    draw.lineWidth = 1.6;
    draw.beginPath();
    x.forEach((v, i) => draw.lineTo(X(v), Y(y[i])));
    draw.stroke();
    if (x.length === 1) draw.fillRect(X(x[0]) - 2, Y(y[0]) - 2, 4, 4);
  });
  draw.restore();
  return X;
}

// Labels in their colours, wrapped; returns the height that they take.
export function legend({ draw, width, color }, labels, top, left = 0) {
  let [x, y] = [left, top];
  for (const { label, ink, dash } of labels) {
    const size = draw.measureText(label).width + 26;
    if (x + size > width && x > left) [x, y] = [left, y + 14];
    draw.strokeStyle = color(ink);
    draw.lineWidth = 2.5;
    draw.setLineDash(dash ?? []);
    line(draw, x, y, x + 14, y);
    draw.setLineDash([]);
    draw.fillStyle = color("ink");
    draw.fillText(label, x + 18, y);
    x += size + 2;
  }
  return y - top + 14;
}

// Charts of a grid. Axes of one row begin at one height, below its longest legend.
export function grid(canvases) {
  const tools = canvases.filter((canvas) => canvas.clientWidth).map((canvas) => {
    const tool = pen(canvas);
    return { ...tool, canvas, row: canvas.offsetTop, used: legend(tool, canvas.chart.series, 24) };
  });
  for (const tool of tools) {
    const beside = tools.filter(({ row }) => row === tool.row);
    chart(tool, tool.canvas.chart, 24 + Math.max(...beside.map(({ used }) => used)));
  }
}

function chart(tool, { title, unit, series }, top) {
  tool.draw.fillStyle = tool.color("ink");
  tool.draw.font = "600 12px system-ui, sans-serif";
  tool.draw.fillText(title, 0, 8);
  tool.draw.font = "11px system-ui, sans-serif";
  const shares = /^(P\(|Class|Mean D)/.test(title);
  const bottom = tool.height - 20;
  const last = Math.max(...series.map(({ x }) => x.at(-1)));
  const X = panel(tool, series, { top, bottom, ends: shares ? [0, 1] : null, range: [0, last] });
  tool.draw.fillStyle = tool.color("faint");
  tool.draw.fillText("0", X(0), tool.height - 8);
  tool.draw.textAlign = "right";
  tool.draw.fillText(`${short(last)} ${unit}`, X(last), tool.height - 8);
  tool.draw.textAlign = "start";
}
