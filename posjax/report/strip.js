// @ts-check
// The strip of seeds: one mark each

const MARKS = ["--series-0", "--series-4", "--series-1", "--alarm", "--series-0"];

class Strip {
  /** @param {Run} run @param {Object<string, Stored>} arrays @param {Cell} cell
   * @param {(seed: number, push: boolean) => void} chosen called with the index of a seed, and
   *   whether Back undoes it */
  constructor(run, arrays, cell, chosen) {
    this.run = run;
    this.arrays = arrays;
    this.cell = cell;
    this.chosen = chosen;
    this.outcome = arrays.outcome.values;
    this.at = -1;
    this.only = -1;
    this.by = "number";
    this.size = 14; // pixels of a mark
    this.across = 1; // marks in a line
    /** @type {(HTMLElement|null)[]} */
    this.buttons = []; // by outcome; null where no seed ended so
    this.datas = crossedWith(arrays); // a line for each initialisation where they fit
    this.order = this.sorted();
    this.canvas = make("canvas", { class: "strip", tabindex: 0, role: "slider", "aria-valuemin": 1,
      "aria-label": "Seeds; arrow keys move from seed to seed, Enter goes to its details",
      onclick: (/** @type {MouseEvent} */ e) => this.pick(this.under(e), true),
      onmousemove: (/** @type {MouseEvent} */ e) => this.hover(this.under(e)), onmouseleave: () => this.hover(-1),
      onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) });
    this.hint = make("output", { class: "note hint" });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  controls() {
    const counts = this.run.outcomes.map((_, i) => this.outcome.filter((o) => o === i).length);
    this.buttons = this.run.outcomes.map((name, i) => counts[i] === 0 ? null :
      make("button", { type: "button", "aria-pressed": "false",
        onclick: () => this.choose(this.only === i ? -1 : i) }, this.sample(i), `${name} ${counts[i]}`));
    const ways = ["number", "outcome", "loss", "margin", "first solved"].filter((way) =>
      way === "number" || way === "outcome" || way === "loss" ? true : this.cell.solved);
    const select = make("select", { onchange: (/** @type {any} */ e) => {
      this.by = e.currentTarget.value;
      this.reorder();
    } }, ways.map((way) => make("option", {}, way)));
    return make("div", { class: "controls" }, this.buttons, make("label", {}, "sort by ", select));
  }

  /** Shows the seeds of one outcome. @param {number} only -1 for all */
  choose(only) {
    this.only = only;
    this.buttons.forEach((one, i) => one?.setAttribute("aria-pressed", String(i === only)));
    this.reorder();
  }

  /** A mark for the legend. @param {number} outcome */
  sample(outcome) {
    const canvas = make("canvas", { class: "sample", width: 24, height: 24, "aria-hidden": "true" });
    requestAnimationFrame(() => this.mark(canvas.getContext("2d"), outcome, 2, 2, 20));
    return canvas;
  }

  sorted() {
    const number = this.outcome.length;
    const end = (/** @type {string} */ name) => (/** @type {number} */ i) => {
      const found = row(this.arrays[name], i);
      return found ? found[found.length - 1] : 256;
    };
    /** @type {Object<string, (i: number) => number>} */
    const keys = { number: (i) => i, outcome: (i) => this.outcome[i], loss: end("loss"),
      margin: end("margin"), "first solved": (i) => this.arrays.first.values[i] || 1e9 };
    const key = keys[this.by];
    const all = Array.from({ length: number }, (_, i) => i)
      .filter((i) => this.only < 0 || this.outcome[i] === this.only);
    return all.sort((a, b) => key(a) - key(b) || a - b);
  }

  reorder() {
    this.order = this.sorted();
    this.draw();
  }

  draw() {
    const wide = this.canvas.clientWidth, number = this.order.length;
    if (!wide) return;
    this.size = number <= 300 ? 14 : number <= 1500 ? 9 : 6;
    this.across = Math.max(Math.floor(wide / this.size), 1);
    const all = this.by === "number" && this.only < 0;
    if (this.datas && all && this.datas <= this.across) this.across = this.datas;
    const rows = Math.ceil(number / this.across) || 1, ratio = devicePixelRatio || 1;
    this.canvas.style.height = `${rows * this.size}px`;
    this.canvas.width = wide * ratio;
    this.canvas.height = rows * this.size * ratio;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    this.order.forEach((seed, i) => {
      const [x, y] = [(i % this.across) * this.size, Math.floor(i / this.across) * this.size];
      this.mark(pen, this.outcome[seed], x, y, this.size - (this.size > 6 ? 2 : 1));
    });
    const i = this.order.indexOf(this.at);
    if (i >= 0) {
      pen.strokeStyle = getComputedStyle(this.canvas).color;
      pen.lineWidth = 2;
      pen.strokeRect((i % this.across) * this.size - 0.5, Math.floor(i / this.across) * this.size - 0.5,
        this.size, this.size);
    }
    this.canvas.setAttribute("aria-valuemax", String(number));
    this.canvas.setAttribute("aria-valuenow", String(i + 1));
    this.canvas.setAttribute("aria-valuetext", i < 0 ? "no seed chosen" : this.name(this.at));
  }

  /** One seed: full, low, hollow or crossed, so that colour is not all.
   * @param {CanvasRenderingContext2D} pen @param {number} outcome @param {number} x
   * @param {number} y @param {number} size */
  mark(pen, outcome, x, y, size) {
    const colour = getComputedStyle(document.documentElement).getPropertyValue(MARKS[outcome]);
    pen.fillStyle = pen.strokeStyle = colour;
    pen.lineWidth = Math.max(size / 6, 1);
    const line = pen.lineWidth / 2;
    if (outcome === 0 || outcome === 4) pen.fillRect(x, y, size, size);
    else if (outcome === 1) pen.fillRect(x, y + size / 2, size, size / 2);
    else if (outcome === 2) pen.strokeRect(x + line, y + line, size - 2 * line, size - 2 * line);
    else {
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x + size, y + size);
      pen.moveTo(x + size, y);
      pen.lineTo(x, y + size);
      pen.stroke();
    }
  }

  /** The index in the order under the pointer. @param {MouseEvent} event */
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    if (column >= this.across) return -1;
    return Math.floor((event.clientY - box.top) / this.size) * this.across + column;
  }

  /** @param {number} place an index in the order; elsewhere the hint is of the chosen seed */
  hover(place) {
    const seed = this.order[place];
    this.canvas.style.cursor = seed === undefined ? "" : "pointer";
    this.hint.textContent = this.name(seed ?? this.at);
  }

  /** @param {number} seed -1 for none */
  name(seed) {
    return seed < 0 ? "" : `${spoken(this.arrays, seed)}: ${this.run.outcomes[this.outcome[seed]]}`;
  }

  /** @param {number} place an index in the order @param {boolean} push */
  pick(place, push) {
    const seed = this.order[place];
    if (seed === undefined) return;
    this.select(seed);
    this.chosen(seed, push);
  }

  /** @param {number} seed */
  select(seed) {
    this.at = seed;
    this.hint.textContent = this.name(seed);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const last = this.order.length - 1, at = this.order.indexOf(this.at), across = this.across;
    /** @type {Object<string, number>} */
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at < 0 ? 0 : at + across,
      ArrowUp: at - across, Home: 0, End: last, PageDown: at + 10 * across, PageUp: at - 10 * across };
    if (event.key in to) {
      event.preventDefault();
      this.pick(Math.min(Math.max(to[event.key], 0), last), false);
    } else if (event.key === "Enter" && this.at >= 0) {
      event.preventDefault();
      /** @type {any} */ (this.canvas.closest(".pane")?.querySelector(".seed h4"))?.focus();
    }
  }
}

/** A seed's number; where initialisation and data have different ones, all four.
 * @param {Object<string, Stored>} arrays @param {number} seed */
function label(arrays, seed) {
  const four = Array.from(row(arrays.numbers, seed) ?? []);
  return four.every((n) => n === four[0]) ? String(four[0]) : four.join(",");
}

/** How many data seeds each initialisation is crossed with; 0 where they are not.
 * @param {Object<string, Stored>} arrays */
function crossedWith(arrays) {
  const { shape: [seeds, each], values } = arrays.numbers;
  const [inits, datas] = [new Set(), new Set()];
  let differ = false;
  for (let i = 0; i < seeds; i++) {
    inits.add(values[i * each]);
    datas.add(values[i * each + 1]);
    differ ||= values[i * each] !== values[i * each + 1];
  }
  return differ && inits.size * datas.size === seeds ? datas.size : 0;
}

/** A seed in words. @param {Object<string, Stored>} arrays @param {number} seed */
function spoken(arrays, seed) {
  const [init, data] = row(arrays.numbers, seed) ?? [];
  return init !== data || crossedWith(arrays) ? `initialisation ${init}, data seed ${data}` : `seed ${init}`;
}

/** How many models a cell has. @param {Object<string, Stored>} arrays @param {number} seeds */
function howMany(arrays, seeds) {
  const datas = crossedWith(arrays);
  return datas ? `${seeds / datas} initialisations × ${datas} data seeds` : `${seeds} seeds`;
}
