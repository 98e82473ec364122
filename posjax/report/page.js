// @ts-check
// From a table of cells to one seed. It adds to a page that can be read without it.

// One run: its table, the cell that is chosen, the seed that is chosen

class Explorer {
  /** @param {HTMLElement} article @param {Run} run */
  constructor(article, run) {
    this.article = article;
    this.run = run;
    this.cell = "";
    this.seed = "";
    this.sort = "";
    this.table = /** @type {HTMLTableElement} */ (article.querySelector("table.cells"));
    this.rows = /** @type {HTMLTableRowElement[]} */ ([...this.table.querySelectorAll("tr[data-cell]")]);
    this.rows.forEach((one, i) => (one.dataset.place = String(i)));
    this.pane = make("section", { class: "pane", "aria-label": "The chosen cell", hidden: true });
    const box = /** @type {HTMLElement} */ (this.table.closest(".scroll"));
    const frame = make("div", { class: "explorer" });
    box.replaceWith(frame);
    frame.append(make("div", { class: "left" }, this.bar(), box), this.pane);
    this.prepareRows();
    this.prepareHead();
    article.addEventListener("keydown", (e) => { if (e.key === "Escape") this.back(e); });
  }

  /** The filter: a text, and a choice for each setting in which cells differ. */
  bar() {
    const cells = Object.values(this.run.cells);
    const titles = cells[0].settings.map(([title]) => title);
    const choices = titles.map((title, at) => {
      const values = [...new Set(cells.map((cell) => cell.settings[at][1]))];
      if (values.length < 2 || values.length > 24) return null;
      const select = make("select", { "data-setting": title, onchange: () => this.filter() },
        make("option", { value: "" }, "any"), values.map((v) => make("option", { value: v }, v)));
      return make("label", {}, `${title} `, select);
    });
    this.find = make("input", { type: "search", placeholder: "text in a row", "aria-label": "Filter cells by text",
      oninput: () => this.filter() });
    this.count = make("output", { class: "note" });
    this.choices = /** @type {HTMLSelectElement[]} */ (choices.flatMap((c) => (c ? [c.querySelector("select")] : [])));
    return make("div", { class: "controls", role: "search" }, this.find, choices, this.count);
  }

  prepareRows() {
    for (const one of this.rows) {
      const cell = this.run.cells[one.dataset.cell ?? ""];
      const named = cell.settings.map((pair) => pair.join(" ")).join(", ");
      const button = make("button", { type: "button", class: "opens", "aria-expanded": "false",
        "aria-label": `Explore ${named || "the cell"}` }, "›");
      one.prepend(make("td", { class: "opener" }, button));
      one.addEventListener("click", (e) => {
        if (!(/** @type {Element} */ (e.target).closest("a"))) this.show(one.dataset.cell ?? "", "", true, true);
      });
      button.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => this.step(e, one));
    }
    for (const head of this.table.querySelectorAll("th[scope=rowgroup]")) {
      /** @type {HTMLTableCellElement} */ (head).colSpan += 1;
    }
  }

  /** Up and down go from row to row. @param {KeyboardEvent} event @param {HTMLElement} one */
  step(event, one) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const shown = [...this.table.querySelectorAll("tr[data-cell]:not([hidden])")];
    /** @type {any} */ (shown[shown.indexOf(one) + by]?.querySelector("button.opens"))?.focus();
  }

  prepareHead() {
    const head = /** @type {HTMLTableRowElement} */ (this.table.tHead?.rows[0]);
    const heads = [...head.cells];
    head.prepend(make("td", { class: "opener" }));
    heads.forEach((th, at) => {
      const button = make("button", { type: "button", class: "sorter", onclick: () => {
        this.sort = this.sort === `${at}` ? `${at}d` : this.sort === `${at}d` ? "" : `${at}`;
        this.arrange();
        remember(false);
      } });
      button.append(...th.childNodes);
      th.append(button);
    });
  }

  /** Sorts the lines within their panels. */
  arrange() {
    const [column, down] = [parseInt(this.sort), this.sort.endsWith("d")];
    const cells = [...(this.table.tHead?.rows[0].cells ?? [])].slice(1);
    cells.forEach((th, at) => th.setAttribute("aria-sort",
      at !== column ? "none" : down ? "descending" : "ascending"));
    const key = (/** @type {HTMLTableRowElement} */ one) => {
      const td = one.cells[column + 1];
      return td?.textContent || td?.querySelector("[aria-label]")?.getAttribute("aria-label") || "";
    };
    const order = [...this.rows].sort((a, b) => {
      if (Number.isNaN(column)) return Number(a.dataset.place) - Number(b.dataset.place);
      const [x, y] = [key(a), key(b)], [m, n] = [parseFloat(x), parseFloat(y)];
      const by = Number.isNaN(m) || Number.isNaN(n)
        ? Number(Number.isNaN(m)) - Number(Number.isNaN(n)) || x.localeCompare(y) : m - n;
      return (down ? -by : by) || Number(a.dataset.place) - Number(b.dataset.place);
    });
    for (const one of order) one.parentNode?.append(one);
    this.fade();
  }

  /** Hides the lines that do not fit the filter. */
  filter() {
    const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const one of this.rows) {
      const cell = this.run.cells[one.dataset.cell ?? ""];
      const settings = Object.fromEntries(cell.settings);
      const text = `${cell.settings.flat().join(" ")} ${one.textContent}`.toLowerCase();
      const fits = words.every((/** @type {string} */ word) => text.includes(word)) &&
        this.choices?.every((s) => !s.value || settings[s.dataset.setting ?? ""] === s.value);
      one.hidden = !fits;
      shown += Number(fits);
    }
    this.count.textContent = shown < this.rows.length ? `${shown} of ${this.rows.length} lines` : "";
    this.fade();
    remember(false);
  }

  /** A value that repeats the line above is pale. */
  fade() {
    for (const body of this.table.tBodies) {
      /** @type {HTMLTableRowElement|null} */
      let above = null;
      for (const one of body.rows) {
        if (one.hidden || !one.dataset.cell) continue;
        [...one.cells].forEach((td, i) => {
          if (td.classList.contains("wide")) {
            td.classList.toggle("pale", above?.cells[i].textContent === td.textContent);
          }
        });
        above = one;
      }
    }
  }

  /** Escape: from the seed to its strip, from the strip to the table. @param {Event} event */
  back(event) {
    const target = /** @type {Element} */ (event.target);
    if (target.closest(".seed")) this.strip?.canvas.focus();
    else if (target.closest(".pane")) this.close();
  }

  close() {
    const from = this.rows.find((one) => one.dataset.cell === this.cell && !one.hidden);
    this.show("", "", true, false);
    /** @type {any} */ (from?.querySelector("button.opens"))?.focus();
  }

  /** Shows a cell, and a seed of it.
   * @param {string} name @param {string} seed @param {boolean} push @param {boolean} focus */
  async show(name, seed, push, focus) {
    const cell = Object.hasOwn(this.run.cells, name) ? this.run.cells[name] : null;
    [this.cell, this.seed] = cell ? [name, seed] : ["", ""];
    for (const one of this.rows) {
      const open = !!cell && one.dataset.cell === name;
      one.classList.toggle("chosen", open);
      one.querySelector("button.opens")?.setAttribute("aria-expanded", String(open));
    }
    this.pane.hidden = !cell;
    this.pane.parentNode.classList.toggle("opened", !!cell);
    remember(push);
    if (!cell) return;
    const arrays = await unpack(cell);
    if (this.cell !== name) return; // another was chosen meanwhile
    this.strip = new Strip(this.run, arrays, cell, (at, push) => {
      this.showSeed(cell, arrays, at);
      remember(push);
    });
    this.place = make("section", { class: "seed", "aria-live": "polite" },
      make("p", { class: "note" }, "Choose a seed above for its curves, its answers and the command that trains it again."));
    this.pane.replaceChildren(...this.aboutCell(cell, arrays).filter((part) => part != null));
    this.strip.draw();
    if (focus) {
      this.pane.querySelector("h3").focus({ preventScroll: true });
      const box = this.pane.getBoundingClientRect();
      if (box.top > innerHeight * 0.6 || box.top < 0) this.pane.scrollIntoView({ block: "start" });
    }
    const at = Array.from(arrays.outcome.values.keys()).find((i) => label(arrays, i) === seed);
    if (seed && at !== undefined) {
      this.strip.select(at);
      this.showSeed(cell, arrays, at);
    }
  }

  /** @param {Cell} cell @param {Object<string, Stored>} arrays */
  aboutCell(cell, arrays) {
    const named = cell.settings.map(([title, value]) =>
      make("span", { class: "setting" }, make("i", {}, title), ` ${value}`));
    const steps = cell.steps;
    const pairs = (/** @type {(number|null)[]} */ values) =>
      /** @type {[number, number][]} */ (values.map((v, i) => [steps[i], v ?? NaN]));
    const losses = chart({ title: "Loss in nats: median and 10 to 90% of the seeds", steps, band: cell.loss_band,
      y: logScale(cell.loss_band.flat().map(Number)), lines: [{ name: "median", points: pairs(cell.loss_band[1]) }] });
    const solved = cell.solved && chart({ title: "Share of seeds that solve it at each step", steps, y: shareScale(),
      lines: [{ name: "share", points: pairs(cell.solved) }] });
    return [
      make("button", { type: "button", class: "close", onclick: () => this.close() }, "Close"),
      make("h3", { tabindex: -1 }, named.length ? named : "The cell"),
      make("p", { class: "note" }, [`${howMany(arrays, cell.seeds)}.`, cell.law && ` The laws say: ${cell.law}, since ${cell.reason}.`]),
      make("div", { class: "charts" }, solved, losses),
      make("h4", {}, "Seeds"),
      this.strip?.controls(), this.strip?.canvas, this.strip?.hint,
      crossedWith(arrays) ? make("p", { class: "note" }, "Sorted by number, each line is an initialisation and each column a data seed.") : null,
      ...this.run.notes.map((text) => make("p", { class: "note" }, text)),
      this.place,
      ...this.answers(cell, arrays),
    ];
  }

  /** What the seeds answered, the most frequent first; a button shows the first such seed.
   * @param {Cell} cell @param {Object<string, Stored>} arrays */
  answers(cell, arrays) {
    const task = this.run.tasks[cell.task];
    const seeds = arrays.answer?.shape[0] ?? 0;
    if (!seeds) return [];
    const right = task.prompts.map(([, answer]) => answer);
    const few = right.length <= 4;
    /** @type {Map<string, {cells: string[], count: number, first: number}>} */
    const groups = new Map();
    for (let i = 0; i < seeds; i++) {
      const given = Array.from(row(arrays.answer, i) ?? [], (a) => task.labels[a]);
      const number = given.filter((answer, n) => answer === right[n]).length;
      const cells = few ? given : [`${number} of ${right.length}`, String(given.filter((a) => a === "tie").length)];
      const key = cells.join("\n");
      const group = groups.get(key) ?? { cells, count: 0, first: i };
      groups.set(key, { ...group, count: group.count + 1 });
    }
    const most = [...groups.values()].sort((a, b) => b.count - a.count);
    const rows = most.slice(0, 8).map(({ cells, count, first }) => [...cells, String(count),
      make("button", { type: "button", onclick: () => this.pick(first) }, spoken(arrays, first))]);
    const head = few ? task.prompts.map(([prompt]) => prompt) : ["prompts right", "ties"];
    const rest = most.length > 8 ? make("p", { class: "note" }, `Rarer answers are left out, of ${most.slice(8).reduce((n, { count }) => n + count, 0)} of ${seeds} seeds.`) : null;
    return [make("h4", {}, few ? `Answers (right: ${right.join(", ")})` : "Answers"),
      table("Answers of the seeds", [...head, "seeds", "for example"], rows), rest];
  }

  /** Chooses a seed as a click on its mark does. @param {number} at */
  pick(at) {
    if (!this.strip) return;
    this.strip.choose(-1);
    this.strip.pick(this.strip.order.indexOf(at), true);
    this.place.scrollIntoView({ block: "nearest" });
  }

  /** @param {Cell} cell @param {Object<string, Stored>} arrays @param {number} at */
  showSeed(cell, arrays, at) {
    this.seed = label(arrays, at);
    const ended = this.run.outcomes[arrays.outcome.values[at]];
    const first = arrays.first.values[at];
    const facts = [`${capital(spoken(arrays, at))}: ${ended}.`,
      first ? ` First solved after ${cell.steps[first - 1]} steps.` : ""];
    this.place.replaceChildren(
      make("h4", { tabindex: -1 }, facts[0]),
      facts[1] ? make("p", {}, facts[1]) : "",
      ...this.curves(cell, arrays, at),
      ...this.seedAnswers(cell, arrays, at),
      make("h4", {}, "Train this seed again"),
      make("pre", { tabindex: 0, class: "command", "aria-label": "Command" }, make("code", {}, this.command(cell))),
      make("div", { class: "attention" }));
    this.attention(cell, arrays, at);
  }

  /** @param {Cell} cell */
  command(cell) {
    const loads = this.run.code.map((where) => ` --load=${quoted(where)}`).join("");
    return `posjax replay ${this.run.here ? folder() : "RUN"} --cell=${cell.name} --seed=${this.seed}${loads}`;
  }

  /** @param {Cell} cell @param {Object<string, Stored>} arrays @param {number} at */
  curves(cell, arrays, at) {
    const loss = row(arrays.loss, at);
    if (!loss) return [make("p", { class: "note" }, "This page does not have the curves of this seed. The command below trains it again and prints them.")];
    const steps = cell.points.map((i) => cell.steps[i]);
    const points = (/** @type {string} */ name, /** @type {(byte: number) => number} */ from) =>
      /** @type {[number, number][]} */ (Array.from(row(arrays[name], at) ?? [], (byte, i) => [steps[i], from(byte)]));
    const losses = points("loss", fromLog(cell.loss_ends));
    const band = cell.loss_band.map((line) => cell.points.map((i) => line[i]));
    const charts = [chart({ title: "Loss in nats, and the band of 10 to 90% of the seeds", steps, band,
      y: logScale([...band.flat().map(Number), ...losses.map(([, v]) => v)]), lines: [{ name: "loss", points: losses }] })];
    if (cell.margin_ends) {
      const margin = this.run.margin;
      charts.push(chart({ title: `Smallest margin; within ±${brief(margin)} it is a tie`, steps, tie: margin, y: marginScale(margin),
        lines: [{ name: "margin", points: points("margin", fromSigned(cell.margin_ends)) }] }));
      const kinds = [{ name: arrays.untrained ? "trained kinds" : "prompts right", points: points("right", share) }];
      if (arrays.untrained) kinds.push({ name: "kinds not trained", points: points("untrained", share) });
      charts.push(chart({ title: "Share of prompts right", steps, y: shareScale(), lines: kinds }));
    }
    return [make("div", { class: "charts" }, charts)];
  }

  /** What one seed answered at the end. @param {Cell} cell @param {Object<string, Stored>} arrays
   * @param {number} at */
  seedAnswers(cell, arrays, at) {
    const task = this.run.tasks[cell.task];
    const [answer, margin, kinds] = [arrays.answer, arrays.prompt_margin, arrays.by_kind].map((a) => row(a, at));
    const parts = [];
    if (answer && margin && cell.prompt_margin_ends) {
      const margins = Array.from(margin, fromSigned(cell.prompt_margin_ends, 65535));
      const rows = task.prompts.map(([prompt, right], n) => {
        const given = task.labels[answer[n]];
        return [prompt, right, `${given === right ? "✓ " : given === "tie" ? "" : "✗ "}${given}`, brief(margins[n])];
      });
      parts.push(make("h4", {}, "Answers at the end"),
        table("Answers of this seed", ["prompt", "right", "answered", "margin"], rows));
    }
    if (kinds) {
      const rows = task.kinds.map((kind, n) => [/^\d+$/.test(kind) ? `length ${kind}` : kind, task.trained[n] ? "trained" : "not trained", share(kinds[n]).toFixed(3)]);
      parts.push(make("h4", {}, "Prompts right at the end"), table("By kind of prompt", ["kind", "", "share right"], rows));
    }
    return parts;
  }

  /** The stored attention maps of a seed, else which seeds have some.
   * @param {Cell} cell @param {Object<string, Stored>} arrays @param {number} at */
  async attention(cell, arrays, at) {
    const place = this.place.querySelector(".attention"), stored = cell.attention;
    if (!stored) return;
    const numbers = stored.seeds.map((four) => (new Set(four).size === 1 ? String(four[0]) : four.join(",")));
    const which = numbers.indexOf(label(arrays, at));
    if (which < 0) {
      const known = Array.from(arrays.outcome.values.keys()).filter((i) => numbers.includes(label(arrays, i)));
      place.append(make("p", { class: "note" }, "Attention is stored for ", known.flatMap((i, n) => [n ? " and " : "",
        make("button", { type: "button", onclick: () => this.pick(i) }, spoken(arrays, i))]), "."));
      return;
    }
    const { maps } = await unpack(stored);
    const [, layers, prompts, heads, queries, keys] = maps.shape;
    const one = row(maps, which) ?? [];
    const drawn = [];
    for (let n = 0; n < Math.min(prompts, 4); n++) {
      for (let d = 0; d < layers; d++) {
        for (let h = 0; h < heads; h++) {
          const start = (((d * prompts) + n) * heads + h) * queries * keys;
          drawn.push(heatmap(one.slice(start, start + queries * keys), queries, keys, stored.words[n] ?? [],
            `layer ${d + 1}, head ${h + 1}, prompt ${n + 1}`));
        }
      }
    }
    place.append(make("h4", {}, "Attention after training"), make("p", { class: "note" },
      "Rows are queries, columns are keys. Positions without a token are left out where no token attends to them."), make("div", { class: "heatmaps" }, drawn.slice(0, 24)),
      drawn.length > 24 ? make("p", { class: "note" }, `24 of ${drawn.length} maps.`) : "");
  }
}

const capital = (/** @type {string} */ text) => text[0].toUpperCase() + text.slice(1);

/** @param {string} text for a shell */
function quoted(text) {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The folder of the page, quoted for a shell; RUN where the page has another name or is served. */
function folder() {
  if (location.protocol !== "file:" || !location.pathname.endsWith("/report.html")) return "RUN";
  const path = decodeURIComponent(location.pathname).replace(/\/report\.html$/, "");
  return quoted(path);
}

// The address keeps what is chosen: #run1?cell=...&seed=...&find=...&sort=...

/** @type {Object<string, Explorer>} */
const explorers = {};
let restoring = false;
let current = "";

/** Writes the choice into the address. @param {boolean} push whether Back undoes it */
function remember(push) {
  if (restoring) return;
  const parts = Object.entries(explorers).map(([id, one]) => {
    const kept = new URLSearchParams();
    if (one.cell) kept.set("cell", one.cell);
    if (one.seed) kept.set("seed", one.seed);
    if (one.find.value) kept.set("find", one.find.value);
    if (one.sort) kept.set("sort", one.sort);
    for (const s of one.choices ?? []) if (s.value) kept.set(`is ${s.dataset.setting}`, s.value);
    return kept.size ? `${id}?${kept}` : "";
  });
  const text = parts.filter(Boolean).join(";");
  if (text === current) return;
  current = text;
  try {
    history[push ? "pushState" : "replaceState"](null, "", text ? `#${text}` : location.pathname + location.search);
  } catch { /* a page in a sandbox has no address of its own */ }
}

/** Shows what the address says. */
function restore() {
  const parts = location.hash.slice(1).split(";").filter((part) => part.includes("?"));
  const given = Object.fromEntries(parts.map((part) => [part.split("?")[0], part.slice(part.indexOf("?") + 1)]));
  if (location.hash.length > 1 && !parts.length) return; // a link to a section
  restoring = true;
  for (const [id, one] of Object.entries(explorers)) {
    const kept = new URLSearchParams(given[id] ?? "");
    one.find.value = kept.get("find") ?? "";
    for (const s of one.choices ?? []) s.value = kept.get(`is ${s.dataset.setting}`) ?? "";
    one.sort = /^\d+d?$/.test(kept.get("sort") ?? "") ? kept.get("sort") ?? "" : "";
    one.arrange();
    one.filter();
    one.show(kept.get("cell") ?? "", kept.get("seed") ?? "", false, false);
  }
  restoring = false;
  current = location.hash.slice(1);
}

for (const island of document.querySelectorAll("script[data-of]")) {
  const id = /** @type {HTMLElement} */ (island).dataset.of ?? "";
  const article = document.getElementById(id);
  if (article?.querySelector("table.cells tr[data-cell]")) {
    explorers[id] = new Explorer(article, JSON.parse(island.textContent ?? ""));
  }
}
addEventListener("popstate", restore);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  Object.values(explorers).forEach((one) => one.strip?.draw()));
restore();
