"use strict";
// Code that all pages share: the data, colours, numbers as text, tables, and charts as SVG.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

// --- elements --------------------------------------------------------------------------------------------------------

function element(name, text, parent, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

// Colours of canvases: those of page.css at this time, light or dark.
let colourCache = new Map();
function colour(name) {
  if (!colourCache.has(name)) colourCache.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  return colourCache.get(name);
}
// Draws now, and again after a change of width or colours.
function drawWhenever(drawCharts) {
  const draw = () => { fitTables(); drawCharts(); };
  draw();
  window.addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colourCache = new Map(); draw(); });
}

const isNarrow = () => window.innerWidth <= 640;

// --- numbers as text -------------------------------------------------------------------------------------------------

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
function scaled(value, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let i = 0;
  for (; Math.abs(value) >= 999.5 && i + 1 < prefixes.length; ++i) value /= 1000;
  return (i ? digits(value) : String(Math.round(value))) + "\u00a0" + prefixes[i] + unit;
}
function seconds(value) {
  const size = Math.abs(value);
  if (size >= 1) return value.toFixed(3) + "\u00a0s";
  if (size >= 1e-3) return (value * 1e3).toFixed(3) + "\u00a0ms";
  if (size >= 1e-6) return (value * 1e6).toFixed(2) + "\u00a0\u00b5s";
  return value ? (value * 1e9).toFixed(1) + "\u00a0ns" : "0";
}
const percent = (part, whole) => (whole > 0 ? 100 * part / whole : 0).toFixed(1) + "%";
const plural = (count, one, more) => count.toLocaleString("en") + " " + (count === 1 ? one : more || one + "s");

// Picks from units [least, name, scale] the first that the largest value reaches, with as many digits as a table needs.
// Without a scale it is `least`.
function unitFor(values, units) {
  const most = Math.max(0, ...values.map(Math.abs).filter(Number.isFinite));
  const [least, name, scale = least] = units.find(([least]) => most >= least) || units[units.length - 1];
  const places = most / scale >= 10 ? 2 : 3;
  return {scale, name, write: value => (value / scale).toFixed(places)};
}
const timeUnit = values => unitFor(values, [[100, "s", 1], [1e-3, "ms"], [1e-6, "\u00b5s"]]);
const byteUnit = values => unitFor(values, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]);
const flopUnit = values => unitFor(values, [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"]]);
const rateUnit = values => unitFor(values, [[1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"]]);

// --- tables ----------------------------------------------------------------------------------------------------------

// Columns are headings, or {title, text, long, minor}: words, many words, or parts that a narrow screen leaves out. A
// row is an array of texts, or of {bar: 0..1, colour}; row.mark is the colour of a square before its name,
// row.className its class.
function fillTable(table, columns, lines) {
  table.replaceChildren();
  columns = columns.map((column, i) => typeof column === "string" ? {title: column, text: i === 0} : column);
  const headRow = element("tr", "", element("thead", "", table)), body = element("tbody", "", table);
  for (const column of columns) element("th", column.title, headRow, column.text ? "text" : "");
  for (const cells of lines) {
    const row = element("tr", "", body, cells.className || "");
    cells.forEach((cell, i) => {
      const made = element("td", "", row, ["text", "long", "minor"].filter(key => columns[i][key]).join(" "));
      made.dataset.heading = columns[i].title;
      // Long names may be broken after underscores.
      if (typeof cell === "string") cell.split(/(?<=_)/).forEach((part, n) => made.append(...n ? [document.createElement("wbr"), part] : [part]));
      if (cell && cell.bar !== undefined) {
        made.className = "share";
        const bar = element("span", "", made, "share-bar");
        bar.style.width = 100 * cell.bar + "%";
        if (cell.colour) bar.style.background = cell.colour;
      }
      if (i === 0 && cells.mark) {
        const mark = document.createElement("i");
        mark.style.background = cells.mark;
        made.prepend(mark);
      }
    });
  }
  return table;
}

// Turns the rows of tables that do not fit into cards.
function fitTables() {
  for (const table of document.querySelectorAll("table")) {
    table.classList.remove("cards");
    const parent = table.parentElement, style = getComputedStyle(parent), room = parent.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (table.offsetWidth > room + 1 || (isNarrow() && table.querySelectorAll("th").length > 3)) table.classList.add("cards");
  }
}
// A folded table has no width before.
document.addEventListener("toggle", fitTables, true);

// Writes FLOP/s of a device as TFLOP/s, also of a small one.
const teraflops = value => (value >= 1e12 ? (value / 1e12).toFixed(1) : (value / 1e12).toPrecision(2));

function addFact(value, name, title) {
  // A fact that is no number may be long.
  const made = element("div", "", byId("facts"), /^[\d.,]/.test(value) ? "fact" : "fact wide");
  element("b", value, made);
  element("span", name, made);
  if (title) made.title = title;
}

function addSpeed(mfu, flops, tokens) {
  if (mfu > 0) addFact(percent(mfu, 1), "MFU", "model FLOPs utilization: the model's FLOP/s over the device's peak");
  if (flops > 0) addFact(teraflops(flops), "TFLOP/s/GPU", "FLOPs of the model, without recomputation and padding");
  if (tokens > 0) addFact(Math.round(tokens).toLocaleString("en"), "tokens/s/GPU");
}

// Adds a legend's entry; `style` is the square's.
function addKey(parent, text, style, className) {
  const made = element("span", "", parent, "key");
  Object.assign(element("i", "", made, className).style, style);
  made.append(text);
}

// --- axes ------------------------------------------------------------------------------------------------------------

function ticks(low, high, about) {
  const raw = (high - low) / about, power = Math.pow(10, Math.floor(Math.log10(raw)));
  const each = power * [1, 2, 5, 10].find(m => m * power >= raw * (1 - 1e-9));
  const found = [];
  for (let i = Math.ceil(low / each - 1e-9); i * each <= high + 1e-9 * each; ++i) found.push(i * each);
  return found;
}
// Ticks at 1, 2 and 5 times powers of ten, or at powers alone if there are too many.
function logTicks(low, high, about) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    for (const factor of [1, 2, 5]) found.push(factor * Math.pow(10, power));
  const inside = found.filter(value => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
  if (inside.length <= about) return inside;
  const powers = inside.filter(value => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9);
  const chosen = powers.length < 3 ? inside : powers;
  return chosen.filter((value, i) => i % Math.ceil(chosen.length / about) === 0);
}
const plain = value => Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(0) : String(Number(value.toPrecision(6)));

// Makes an axis that fits its values, with a little room at both ends; logarithmic if they are far apart.
function fitAxis(values, fromZero) {
  const low = Math.min(...values), high = Math.max(...values);
  if (!fromZero && low > 0 && high / low > 12) return {low: low / 1.25, high: high * 1.25, log: true};
  if (fromZero) return {low: 0, high: high * 1.08 || 1, log: false};
  const room = (high - low || high || 1) * 0.08;
  return {low: Math.max(0, low - room), high: high + room, log: false};
}

const measuring = document.createElement("canvas").getContext("2d");
function textWidth(text, font) {
  measuring.font = font || "11px system-ui, \"DejaVu Sans\", sans-serif";
  return measuring.measureText(text).width;
}

// --- charts ----------------------------------------------------------------------------------------------------------

// Elements of SVG need its name space.
const svgSpace = (() => { const parent = document.createElement("div"); parent.innerHTML = "<svg></svg>"; return parent.firstChild.namespaceURI; })();

// Makes an empty chart in `target`, as wide as that is, with axes {low, high, log, title, write, ticks}. x and y place
// values.
function makeChart(target, xAxis, yAxis, height) {
  const w = Math.max(240, target.clientWidth), h = height, svg = document.createElementNS(svgSpace, "svg");
  const p = {svg, w, h, y0: 24, y1: h - 40};
  p.add = (name, attributes, text, parent) => {
    const made = document.createElementNS(svgSpace, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    (parent || svg).append(made);
    return made;
  };
  svg.setAttribute("class", "chart");
  svg.setAttribute("viewBox", "0 0 " + w + " " + h);
  svg.setAttribute("height", h);
  svg.setAttribute("role", "img");
  target.replaceChildren(svg);
  const list = (axis, about) => axis.ticks || (axis.log ? logTicks : ticks)(axis.low, axis.high, about);
  const write = (axis, values) => axis.write ? values.map(axis.write) : values.map(plain);
  const ys = list(yAxis, Math.max(3, h / 45)), yTexts = write(yAxis, ys);
  p.x0 = 10 + Math.max(...yTexts.map(text => textWidth(text)), 12);
  p.x1 = w - 12;
  const place = (axis, begin, end) => {
    const f = axis.log ? Math.log10 : value => value, low = f(axis.low), size = f(axis.high) - low;
    return value => begin + (f(value) - low) / size * (end - begin);
  };
  p.x = place(xAxis, p.x0, p.x1);
  p.y = place(yAxis, p.y1, p.y0);
  const xs = list(xAxis, Math.max(3, (p.x1 - p.x0) / 80)), xTexts = write(xAxis, xs);
  for (const x of xs) p.add("line", {class: "grid", x1: p.x(x), x2: p.x(x), y1: p.y0, y2: p.y1});
  for (const y of ys) p.add("line", {class: "grid", x1: p.x0, x2: p.x1, y1: p.y(y), y2: p.y(y)});
  p.add("path", {class: "frame", d: "M" + p.x0 + " " + p.y0 + "V" + p.y1 + "H" + p.x1});
  ys.forEach((y, i) => p.add("text", {x: p.x0 - 5, y: p.y(y) + 4, "text-anchor": "end"}, yTexts[i]));
  xs.forEach((x, i) => {
    const half = textWidth(xTexts[i]) / 2;
    p.add("text", {x: Math.min(p.x(x), w - 2 - half), y: p.y1 + 15, "text-anchor": "middle"}, xTexts[i]);
  });
  p.add("text", {x: p.x1, y: h - 6, "text-anchor": "end"}, xAxis.title);
  p.add("text", {x: 2, y: 13}, yAxis.title);
  // Lines end at the axes.
  const area = {x: p.x0, y: p.y0 - 1, width: p.x1 - p.x0, height: p.y1 - p.y0 + 1};
  p.plot = p.add("svg", {...area, viewBox: [area.x, area.y, area.width, area.height].join(" ")});
  p.line = (points, stroke, dash, width) => p.add("path", {d: "M" + points.map(([x, y]) => x.toFixed(1) + " " + y.toFixed(1)).join("L"), fill: "none",
    stroke, "stroke-width": width || 2, "stroke-dasharray": dash || "none"}, undefined, p.plot);
  p.dot = (x, y, title, style) => {
    const made = p.add("circle", {cx: x.toFixed(1), cy: y.toFixed(1), r: 5, ...style});
    if (title) p.add("title", {}, title, made);
    return made;
  };
  return p;
}

// Returns the place on a piece of a line that is nearest to `at`.
const nearest = (at, from, size) => Math.max(from, Math.min(at, from + size));

// Places boxes for texts beside points {x, y, text}, as near as possible, without overlaps with each other or with
// dots. A text without room is left out: the dot's title and the table have it.
function placeLabels(p, points, dots) {
  const h = 15, gap = 8, placed = [], taken = dots.map(q => ({x: q.x - 6, y: q.y - 6, w: 12, h: 12}));
  const hits = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
  const fits = box => box.x > p.x0 && box.x + box.w <= p.x1 && box.y >= p.y0 && box.y + box.h <= p.y1 && !taken.some(other => hits(box, other));
  for (const q of points) {
    const w = textWidth(q.text) + 6, far = box => Math.hypot(nearest(q.x, box.x, box.w) - q.x, nearest(q.y, box.y, box.h) - q.y);
    const boxes = [];
    for (let up = 0; up < 90; up += 4)
      for (const side of up ? [-up, up] : [0])
        for (const left of [q.x + gap, q.x - gap - w, q.x - w / 2, q.x + 4 * gap, q.x - 4 * gap - w]) boxes.push({x: left, y: q.y - h / 2 + side, w, h});
    const best = boxes.filter(fits).reduce((a, b) => !a || far(b) < far(a) ? b : a, null);
    if (best) taken.push(best);
    placed.push(best);
  }
  return placed;
}

// Draws texts beside points, with a line to points that are not adjacent.
function drawLabels(p, points, dots) {
  placeLabels(p, points, dots || points).forEach((box, i) => {
    if (!box) return;
    const q = points[i], x = nearest(q.x, box.x, box.w), y = nearest(q.y, box.y, box.h);
    if (Math.hypot(x - q.x, y - q.y) > 12) p.add("line", {class: "frame", x1: q.x, y1: q.y, x2: x, y2: y});
    p.add("text", {class: "note", x: box.x + 3, y: box.y + 11}, q.text);
  });
}
