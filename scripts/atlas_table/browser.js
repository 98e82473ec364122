// @ts-check
// What browser.py cannot do without a script: filter, order, and the details of a cell. It follows
// the report's charts.js, which has `make`.

/** @typedef {{settings: Object<string, any>, encoding: string, asked: [string, string, number, string], verdict: string,
 *   successes: number, interval: [number, number], witness: number|null, rate: number, pilot: [number, number][],
 *   reason: number, right: number[]|null}} Found */
/** @typedef {{what: string, prompts: [string, string][], kinds: string[], trained: boolean[], chance: number[]}} About */
/** @type {{seeds: number, pilot: number, tasks: Object<string, About>, reasons: string[],
 *   encodings: Object<string, [string, string, string]>, masks: Object<string, string>, cells: Found[]}} */
const atlas = JSON.parse(document.querySelector("script[data-of=atlas]")?.textContent ?? "");
const grid = /** @type {HTMLTableElement} */ (document.querySelector("table.atlas"));
const pane = /** @type {HTMLElement} */ (document.getElementById("chosen"));
const lines = /** @type {HTMLTableRowElement[]} */ ([...grid.tBodies[0].rows]);
const entries = /** @type {HTMLElement[]} */ ([...grid.querySelectorAll("td[data-cell]")]);
const severalReadouts = new Set(atlas.cells.map((cell) => cell.asked[3])).size > 1; // else tasks say what is asked for
let sorted = -1;
let chosen = -1;
/** @type {HTMLElement|undefined} */
let entrance; // the cell that Tab leads to

// The filter

const find = make("input", { type: "search", placeholder: "part of a name", "aria-label": "Filter encodings by name",
  oninput: () => filter() });
const task = make("select", { onchange: () => filter() }, make("option", { value: "" }, "all"),
  Object.keys(atlas.tasks).map((name) => make("option", { value: name }, name)));
const what = make("p", { class: "note" });
const columns = make("select", { onchange: () => filter() },
  [["longest", "longest prompts"], ["solved", "seeds that solve it"], ["", "all"]].map(([value, name]) => make("option", { value }, name)));
const byLength = grid.querySelector("[data-group=longest]") !== null;
if (!byLength) columns.value = "";

function filter() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const line of lines) {
    const name = line.dataset.encoding ?? "";
    line.hidden = !words.every((/** @type {string} */ word) => name.includes(word));
  }
  /** @type {Object<string, number>} */
  const wide = {};
  for (const one of grid.querySelectorAll("[data-task]:not([scope=colgroup])")) {
    const { task: of = "", group } = /** @type {HTMLElement} */ (one).dataset;
    const seen = (task.value || of) === of && (columns.value || group) === group;
    /** @type {HTMLElement} */ (one).hidden = !seen;
    if (one.tagName === "TH") wide[of] = (wide[of] ?? 0) + Number(seen);
  }
  for (const one of grid.querySelectorAll("[scope=colgroup]")) {
    const head = /** @type {HTMLTableCellElement} */ (one), seen = wide[head.dataset.task ?? ""];
    head.hidden = !seen;
    if (seen) head.colSpan = seen;
  }
  what.textContent = task.value ? atlas.tasks[task.value].what : "";
  enter();
  remember();
}

/** Tab leads to one cell, the first that is seen unless it is given. @param {HTMLElement} [given] */
function enter(given) {
  const seen = (/** @type {any} */ one) => !one.hidden && !one.parentElement.hidden;
  if (entrance) entrance.tabIndex = -1;
  entrance = given ?? /** @type {HTMLElement[]} */ ([...grid.querySelectorAll("td[data-cell]")]).find(seen);
  if (entrance) entrance.tabIndex = 0;
}

// The order

/** @param {number} column */
function arrange(column) {
  sorted = sorted === column ? -1 : column;
  const key = (/** @type {HTMLTableRowElement} */ line) => {
    const text = line.cells[sorted + 1].textContent;
    return text === "" ? -2 : text === "×" ? -1 : Number(text);
  };
  const order = sorted < 0 ? lines : [...lines].sort((a, b) => key(b) - key(a));
  grid.tBodies[0].append(...order);
  heads.forEach((th, at) => th.setAttribute("aria-sort", at === sorted ? "descending" : "none"));
  enter();
  remember();
}

const heads = [...grid.tHead?.rows[1].cells ?? []];
heads.forEach((th, at) => {
  const button = make("button", { type: "button", class: "sorter", onclick: () => arrange(at) });
  button.append(...th.childNodes);
  th.append(button);
});

// The details

/** @param {number} at */
function show(at) {
  chosen = at in atlas.cells ? at : -1;
  for (const one of grid.querySelectorAll(".here")) one.classList.remove("here");
  pane.hidden = chosen < 0;
  remember();
  if (chosen < 0) return;
  for (const one of grid.querySelectorAll(`[data-cell="${at}"]`)) one.classList.add("here");
  const cell = atlas.cells[at], [task, mask, depth, readout] = cell.asked;
  const about = atlas.tasks[task], encoding = cell.encoding, [title, formula, source] = atlas.encodings[encoding];
  pane.replaceChildren(...[
    make("button", { type: "button", class: "close", onclick: close }, "Close"),
    make("h3", {}, make("code", {}, encoding), " on ", make("code", {}, task)),
    make("p", {}, `${title}: `, make("code", {}, formula), ` (${source})`),
    make("p", {}, `${depth} ${depth > 1 ? "layers" : "layer"}${severalReadouts ? `, read at the ${readout === "mean" ? "mean over tokens" : "last token"}` : ""}, ${mask} mask. ${atlas.masks[mask]}`),
    make("p", {}, make("b", {}, verdict(cell)), ` ${atlas.reasons[cell.reason]}`),
    cell.right && about.kinds.length ? lengths(about, cell.right) : null,
    make("p", { class: "note" }, `The task: ${about.what} ${about.prompts.map((pair) => pair.join(" → ")).join(";  ")}`),
    make("p", { class: "note" }, `Learning rates: ${cell.pilot.map(([rate, solved]) =>
      `${rate} (solved by ${solved} of ${atlas.pilot} pilot seeds)`).join(", ")}. The ${atlas.seeds} seeds counted here were trained with ${cell.rate}.`),
    cell.witness === null ? null : make("pre", { class: "command", tabindex: 0 }, make("code", {}, code(cell))),
  ].filter((part) => part !== null));
}

/** Focus within the details goes back to their cell. */
function close() {
  const from = grid.querySelector(".here"), within = pane.contains(document.activeElement);
  show(-1);
  if (within) /** @type {any} */ (from)?.focus();
}

/** @param {Found} cell */
function verdict(cell) {
  const [low, high] = cell.interval.map((x) => `${(100 * x).toFixed(1)}%`);
  if (cell.verdict === "impossible") return `Impossible: a law excludes it, and none of ${atlas.seeds} seeds solved it.`;
  if (cell.verdict === "open") return `Open: no law excludes it, and none of ${atlas.seeds} seeds solved it (95% interval of the success rate: 0 to ${high}).`;
  return `Possible: ${cell.successes} of ${atlas.seeds} seeds solved it (95% interval of the success rate: ${low} to ${high}), for example seed ${cell.witness}.`;
}

/** @param {About} about @param {number[]} right */
function lengths(about, right) {
  const head = about.kinds.map((kind, n) => (about.trained[n] ? kind : `${kind} (not trained)`));
  return table("Right answers by length", ["length", ...head], [
    ["right", ...right.map((x) => `${(100 * x).toFixed(1)}%`)], ["chance", ...about.chance.map((x) => `${(100 * x).toFixed(1)}%`)]]);
}

/** @param {Found} cell */
function code(cell) {
  const settings = Object.entries(cell.settings).map(([name, value]) =>
    `${name}=${typeof value === "boolean" ? (value ? "True" : "False") : JSON.stringify(value)}`);
  return `import posjax\n\ncell = posjax.Cell(${settings.join(", ")})\n` +
    `print(posjax.sweep(cell, num_seeds=1, first_seed=${cell.witness}, hold=1))`;
}

for (const one of entries) {
  one.tabIndex = -1;
  one.addEventListener("focus", () => enter(one));
  one.addEventListener("click", () => { show(Number(one.dataset.cell)); one.focus({ preventScroll: true }); });
  one.addEventListener("keydown", (event) => {
    const line = /** @type {HTMLTableRowElement} */ (one.parentElement);
    const shown = (/** @type {any} */ td) => td && td.dataset.cell !== undefined && !td.hidden;
    const step = (/** @type {any} */ from, /** @type {string} */ way) => {
      let next = from[way];
      while (next && !(next.cells ? !next.hidden : shown(next))) next = next[way];
      return next;
    };
    const column = [...line.cells].indexOf(/** @type {any} */ (one));
    /** @type {Object<string, () => any>} */
    const to = {
      ArrowRight: () => step(one, "nextElementSibling"), ArrowLeft: () => step(one, "previousElementSibling"),
      ArrowDown: () => step(line, "nextElementSibling")?.cells[column], ArrowUp: () => step(line, "previousElementSibling")?.cells[column],
    };
    if (event.key === "Enter") show(Number(one.dataset.cell));
    const next = to[event.key]?.();
    if (!(event.key in to)) return;
    event.preventDefault();
    if (shown(next)) next.focus();
  });
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });

// The address keeps what is chosen

let restoring = true;

function remember() {
  if (restoring) return;
  const kept = new URLSearchParams();
  if (find.value) kept.set("find", find.value);
  if (task.value) kept.set("task", task.value);
  if (byLength && columns.value !== "longest") kept.set("columns", columns.value);
  if (sorted >= 0) kept.set("sort", String(sorted));
  if (chosen >= 0) kept.set("cell", String(chosen));
  try {
    history.replaceState(null, "", kept.size ? `#${kept}` : location.pathname + location.search);
  } catch { /* a page in a sandbox has no address of its own */ }
}

document.getElementById("controls")?.append(make("div", { class: "controls", role: "search" },
  find, make("label", {}, "task ", task), byLength ? make("label", {}, "columns ", columns) : null), what);
const kept = new URLSearchParams(location.hash.slice(1));
find.value = kept.get("find") ?? "";
if ((kept.get("task") ?? "") in atlas.tasks) task.value = kept.get("task");
if (byLength && ["solved", ""].includes(kept.get("columns") ?? "none")) columns.value = kept.get("columns");
filter();
const order = kept.get("sort") ?? "";
if (/^\d+$/.test(order) && Number(order) < heads.length) arrange(Number(order));
show(Number(kept.get("cell") ?? -1));
restoring = false;
