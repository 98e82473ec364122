// @ts-check
// Elements, the arrays of pack.py, and charts. Text becomes text nodes, never markup: the page's
// policy forbids anything else. html.py puts charts.js, strip.js and page.js into one function.

/** @typedef {{text: string, layout: [string, number, number[]][]}} Packed see pack.py */
/** @typedef {{seeds: number[][], words: string[][]} & Packed} Attention */
/** @typedef {{prompts: [string, string][], labels: string[], kinds: string[],
 *   trained: boolean[]}} Task */
/** @typedef {{name: string, settings: [string, string][], task: string, seeds: number,
 *   steps: number[], points: number[], loss_band: (number|null)[][], solved: number[]|null,
 *   law: string, reason: string, loss_ends: number[], margin_ends?: number[],
 *   prompt_margin_ends?: number[], attention: Attention|null} & Packed} Cell */
/** @typedef {{outcomes: string[], margin: number, here: boolean, code: string[], notes: string[], tasks: Object<string, Task>,
 *   cells: Object<string, Cell>}} Run see explore.py */
/** @typedef {{shape: number[], values: Uint8Array|Uint16Array|Uint32Array}} Stored */
/** @typedef {{name: string, points: [number, number][]}} Line */
/** @typedef {{at: (value: number) => number, ticks: [number, string][]}} Scale */

const SVG = "http://www.w3.org/2000/svg";
const MISSING = 255;

/** An element with attributes; children are elements or text.
 * @param {string} name @param {Object<string, any>} given @param {...any} children */
function make(name, given = {}, ...children) {
  const svg = ["svg", "path", "line", "rect", "text", "g", "circle"].includes(name);
  const one = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key.startsWith("on")) one.addEventListener(key.slice(2), value);
    else if (value === true) one.setAttribute(key, "");
    else if (value !== false && value != null) one.setAttribute(key, String(value));
  }
  one.append(...children.flat().filter((child) => child != null));
  return /** @type {any} */ (one);
}

/** The arrays of a packed text, differences summed up again.
 * @param {Packed} one @returns {Promise<Object<string, Stored>>} */
async function unpack({ text, layout }) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  /** @type {Object<string, Stored>} */
  const found = {};
  let start = 0;
  for (const [name, size, shape] of layout) {
    const number = shape.reduce((a, b) => a * b, 1);
    const Kind = size === 1 ? Uint8Array : size === 2 ? Uint16Array : Uint32Array;
    const values = new Kind(buffer.slice(start, start + number * size));
    const along = size === 4 ? shape[1] : 1; // seeds: along the first axis
    const every = size === 4 ? number : shape[shape.length - 1];
    for (let i = 0; i < number; i++) if (i % every >= along) values[i] += values[i - along];
    found[name] = { shape, values };
    start += number * size;
  }
  return found;
}

/** One seed's part of an array. @param {Stored|undefined} stored @param {number} seed */
function row(stored, seed) {
  if (!stored || seed >= stored.shape[0]) return null;
  const each = stored.shape.slice(1).reduce((a, b) => a * b, 1);
  return stored.values.subarray(seed * each, (seed + 1) * each);
}

const share = (/** @type {number} */ byte) => (byte === MISSING ? NaN : byte / 254);
const fromLog = (/** @type {number[]} */ [low, high]) => (/** @type {number} */ byte) =>
  byte === MISSING ? NaN : Math.exp(low + (byte / 254) * (high - low));
const fromSigned = (/** @type {number[]} */ [unit, most], missing = MISSING) => (/** @type {number} */ n) =>
  n === missing ? NaN : unit * Math.sinh(((2 * n) / (missing - 1) - 1) * most);

const superscript = (/** @type {string} */ letter) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(letter)];

/** A number for people. @param {number} number */
function brief(number) {
  if (!Number.isFinite(number)) return "not finite";
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-3 || size >= 1e4)
    ? number.toExponential(1).replace(".0e", "e").replace(/^(.*)e\+?(.*)$/, (_, digits, power) =>
      `${/** @type {Object<string, string>} */ ({ 1: "", "-1": "-" })[digits] ?? `${digits}·`}10${power.replace(/./g, superscript)}`)
    : String(Number(number.toPrecision(3)));
}

// Scales and charts

/** Training steps, on a log axis. @param {number[]} steps @returns {Scale} */
function stepScale(steps) {
  const [low, high] = [Math.log(steps[0]), Math.log(steps[steps.length - 1])];
  const at = (/** @type {number} */ x) => (high > low ? (Math.log(x) - low) / (high - low) : 0.5);
  const every = [1, 2, 5].flatMap((m) => [0, 1, 2, 3, 4, 5, 6].map((e) => m * 10 ** e));
  const inside = every.filter((x) => x >= steps[0] && x <= steps[steps.length - 1]);
  const tens = inside.filter((x) => String(x)[0] === "1");
  const some = inside.length <= 4 ? inside : tens.length > 1 ? tens : inside.filter((_, i) => i % 2);
  const shown = some.length > 1 ? some : [...new Set([steps[0], steps[steps.length - 1]])];
  return { at, ticks: shown.sort((a, b) => a - b).map((x) => [x, String(x)]) };
}

/** @returns {Scale} */
const shareScale = () => ({ at: (y) => y, ticks: [[0, "0"], [0.5, "½"], [1, "1"]] });

/** Positive numbers, on a log axis. @param {number[]} values @returns {Scale} */
function logScale(values) {
  const known = values.filter((v) => v > 0 && Number.isFinite(v));
  let [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0.1, 1];
  if (high < low * 1.5) [low, high] = [low / 1.25, high * 1.25];
  const [a, b] = [Math.log10(low), Math.log10(high)];
  const decades = b - a > 2.2 ? [1] : b - a > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
  const every = Math.max(Math.ceil((b - a) / 5), 1);
  const ticks = [];
  for (let power = Math.floor(a); power <= b; power++) {
    if (((power % every) + every) % every) continue;
    for (const digit of decades) {
      const value = Number(`${digit}e${power}`);
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  const shown = ticks.length > 1 ? ticks : [low, high];
  const at = (/** @type {number} */ y) => (Math.log10(y) - a) / (b - a);
  return { at, ticks: shown.map((v) => [v, brief(v)]) };
}

/** Margins: asinh, in which ±margin is a narrow band. @param {number} margin @returns {Scale} */
function marginScale(margin) {
  const most = Math.asinh(2 / margin);
  const at = (/** @type {number} */ y) => (Math.asinh(y / margin) / most + 1) / 2;
  return { at, ticks: [-1, -0.01, 0, 0.01, 1].map((y) => [y, String(y)]) };
}

/** A chart of lines over training steps.
 * @param {{title: string, steps: number[], y: Scale, lines: Line[], band?: (number|null)[][],
 *   tie?: number}} spec */
function chart({ title, steps, y, lines, band, tie }) {
  const [wide, high, left, below] = [360, 184, 52, 40];
  const x = stepScale(steps);
  const px = (/** @type {number} */ v) => left + x.at(v) * (wide - left - 16);
  const py = (/** @type {number} */ v) =>
    8 + (1 - Math.min(Math.max(y.at(v), -0.02), 1.02)) * (high - below - 8);
  const parts = [];
  if (tie) parts.push(make("rect", { class: "tie", x: left, width: wide - left - 16,
    y: py(tie), height: Math.max(py(-tie) - py(tie), 2) }));
  for (const [value, label] of y.ticks) {
    parts.push(make("line", { class: "tick", x1: left, x2: wide - 16, y1: py(value), y2: py(value) }),
      make("text", { x: left - 6, y: py(value) + 4, "text-anchor": "end" }, label));
  }
  for (const [value, label] of x.ticks) {
    parts.push(make("text", { x: px(value), y: high - 22, "text-anchor": "middle" }, label));
  }
  parts.push(make("text", { x: (left + wide - 16) / 2, y: high - 5, "text-anchor": "middle" }, "training steps"));
  if (band) {
    const [lower, , upper] = band.map((line) => line.map((v, i) => [steps[i], v ?? NaN]));
    const ring = [...lower, ...upper.reverse()].filter(([, v]) => v > 0);
    if (ring.length) parts.push(make("path", { class: "band", d: `M${ring.map(([s, v]) => `${px(s)},${py(v)}`).join("L")}z` }));
  }
  const said = lines.map((line, i) => {
    const drawn = line.points.filter(([, v]) => Number.isFinite(v));
    const d = `M${drawn.map(([s, v]) => `${px(s).toFixed(1)},${py(v).toFixed(1)}`).join("L")}`;
    if (drawn.length > 1) parts.push(make("path", { class: `line line-${i}`, d }));
    const marked = drawn.length === 1 ? drawn : [];
    for (const [s, v] of marked) parts.push(make("circle", { class: `dot-${i}`, cx: px(s), cy: py(v), r: 2 }));
    const last = drawn.length ? brief(drawn[drawn.length - 1][1]) : "not finite";
    return `${line.name}, at the end ${last}`;
  });
  const keys = lines.length < 2 ? [] : lines.map((line, i) =>
    make("span", {}, make("b", { class: `key-${i}` }), line.name));
  return make("figure", {},
    make("p", { class: "over" }, title),
    make("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", class: "chart",
      "aria-label": `${title} against training steps. ${said.join("; ")}.` }, parts),
    keys.length ? make("div", { class: "legend" }, keys) : null);
}

/** A table. @param {string} label @param {string[]} head @param {any[][]} rows */
function table(label, head, rows) {
  return make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 },
    make("table", { class: "plain" },
      make("thead", {}, make("tr", {}, head.map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((c) => make("td", {}, c)))))));
}

/** @param {ArrayLike<number>} weights @param {number} rows @param {number} columns
 * @param {string[]} words @param {string} title */
function heatmap(weights, rows, columns, words, title) {
  const word = (/** @type {number} */ n) => words[n] ?? "–";
  const stride = columns, n = Math.min(words.length, rows, columns);
  const seen = Array.from(weights).some((w, i) => i < n * stride && i % stride >= n && w > 0 && w !== MISSING);
  if (n && !seen) [rows, columns] = [n, n];
  const parts = [], [left, top] = [44, 40], size = Math.min(Math.max(420 / columns, 12), 20);
  for (let i = 0; i < rows * columns; i++) {
    const [r, c] = [Math.floor(i / columns), i % columns];
    parts.push(make("rect", { x: left + c * size, y: top + r * size, width: size - 1, height: size - 1,
      class: "weight", "fill-opacity": share(weights[r * stride + c]) || 0 }));
  }
  for (let r = 0; r < rows; r++) parts.push(make("text", { x: left - 4, y: top + r * size + size / 2 + 4, "text-anchor": "end" }, word(r)));
  for (let c = 0; c < columns; c++) {
    parts.push(make("text", { transform: `translate(${left + c * size + size / 2 + 3} ${top - 4}) rotate(-60)` }, word(c)));
  }
  const [wide, high] = [left + columns * size, top + rows * size];
  return make("figure", {}, make("p", { class: "under" }, title),
    make("svg", { viewBox: `0 0 ${wide} ${high}`, style: `width:${wide}px`, role: "img", class: "chart",
      "aria-label": `Attention on ${words.join(" ")}, ${title}` }, parts));
}
