// Bytes: what is live as an area, what each resource holds as a line, on one scale.

/** The dashes of a line of a resource that is not the one shown. */
const DASH = [6, 4];
/** Pixels for two points: the most of the positions there has all of them but one. */
const SPIKE = 3;

class BytesPicture {
  /** @param {HTMLElement} home @param {State} state */
  constructor(home, state) {
    this.state = state;
    this.home = home;
    this.line = make("div", { class: "cursor" });
    this.plotHome = make("div", { class: "plot" });
    this.tip = make("div", { class: "tip", hidden: true });
    home.append(this.plotHome, this.line, this.tip);
    /** @type {any} */
    this.plot = null;
    /** Of the picture when it was drawn: to ask for it at each move would lay out the page anew. */
    this.width = 0;
    followPointer(home, state, () => state.model, (part, _, event) => this.hover(part, event), () => (this.tip.hidden = true));
  }

  /** The views that are drawn: those of the same log. */
  get models() {
    const { state } = this;
    return state.models.filter((model) => model.data.log === state.model.data.log && model.reserved !== null);
  }

  draw() {
    this.plot?.destroy();
    const { state } = this;
    const models = this.models;
    this.width = this.home.clientWidth;
    const width = Math.max(200, this.width);
    const grid = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: colour("quiet"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const step = uPlot.paths.stepped({ align: 1 });
    const series = [
      {},
      { label: "live", stroke: colour("live"), fill: colour("live-area"), width: 1, paths: step, points: { show: false } },
      ...models.map((model) => ({
        label: `held by ${model.data.resource ?? model.data.log}`,
        stroke: colour(`h${state.models.indexOf(model) % 4}`),
        width: model === state.model ? 2 : 1.5,
        dash: model === state.model ? undefined : DASH,
        paths: step,
        points: { show: false },
      })),
    ];
    this.plot = new uPlot({
      width,
      height: 220,
      padding: [14, RIGHT, 0, 0],
      cursor: { show: false },
      legend: { show: false },
      select: { show: false },
      scales: { x: { time: false }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, this.top(most)] } },
      axes: [
        { ...axis, size: 28, space: 90, values: (/** @type {any} */ plot, /** @type {number[]} */ values) => values.map((value) => this.label(value, plot)) },
        { ...axis, size: LEFT, incrs: binarySteps(), values: (/** @type {any} */ _, /** @type {number[]} */ values) => values.map(sizeLabel) },
      ],
      series,
      hooks: { draw: [(/** @type {any} */ plot) => this.marks(plot)] },
    }, this.points(width), this.plotHome);
    this.moved();
  }

  /** The top of the picture: above what is drawn, the limit and the requests that failed, unless they are far above. @param {number} most */
  top(most) {
    const { model, from, to } = this.state;
    const seen = model.data.failures.filter(({ at }) => at >= from && at < to);
    const above = [model.limit ?? 0, ...seen.map(({ at, size }) => model.live[at] + size)];
    const far = Math.max(1, most) * 4;
    return Math.max(1, most, ...above.filter((bytes) => bytes <= far)) * 1.05;
  }

  /** A label of the axis, unless it would leave the picture. @param {number} value @param {any} plot */
  label(value, plot) {
    if (plot.valToPos(value, "x") > plot.width - LEFT - RIGHT - 24) return "";
    if (!this.state.byTime) return thousands(value);
    return value < 1e6 ? `${+(value / 1e3).toFixed(3)} ms` : `${+(value / 1e6).toFixed(3)} s`;
  }

  /** At most two points for some pixels: the least of the positions there, and, wide enough to be seen, the most. @param {number} width */
  points(width) {
    const { state } = this;
    const { model, from, to } = state;
    const models = this.models;
    const size = Math.max(1, Math.ceil(((to - from) * SPIKE) / Math.max(1, width - LEFT - RIGHT)));
    /** @type {number[]} */
    const xs = [];
    /** @type {number[]} */
    const live = [];
    const held = models.map(() => /** @type {number[]} */ ([]));
    const last = Math.min(to, model.events + 1);
    for (let at = from; at < last; at += size) {
      const next = Math.min(last, at + size);
      const { least, most } = model.extremes(at, next);
      const reserved = models.map((other) => mostReserved(other, at, next));
      const points = size === 1 ? [[at, most]] : [[at, least], [at + size / SPIKE, most]];
      for (const [position, bytes] of points) {
        xs.push(state.value(model, position));
        live.push(bytes);
        reserved.forEach((bytes, index) => held[index].push(bytes));
      }
    }
    xs.push(state.value(model, last));
    live.push(live[live.length - 1] ?? 0);
    held.forEach((values) => values.push(values[values.length - 1] ?? 0));
    return [xs, live, ...held];
  }

  /** Shows the bytes below the pointer. @param {number} part @param {PointerEvent} event */
  hover(part, event) {
    const { state } = this;
    const position = state.near(state.model, part, this.width - LEFT - RIGHT);
    const held = this.models.map((model) => `${sizeText(model.reservedAt(position) ?? 0)} held by ${model.data.resource ?? model.title}`);
    const lines = [`${sizeText(state.model.live[position])} live`, ...held];
    this.tip.replaceChildren(make("strong", {}, state.say(position)), ...lines.map((line) => make("span", {}, line)));
    placeTip(this.tip, this.home, event, this.home.clientHeight);
  }

  /** The range has changed. */
  zoomed() {
    if (!this.plot) return;
    const { state } = this;
    this.plot.batch(() => {
      this.plot.setData(this.points(this.width), false);
      this.plot.setScale("x", { min: state.value(state.model, state.from), max: state.value(state.model, state.to) });
      const most = Math.max(...this.plot.data.slice(1).map((/** @type {number[]} */ values) => values.reduce((a, b) => Math.max(a, b), 0)));
      this.plot.setScale("y", { min: 0, max: this.top(most) });
    });
    this.moved();
  }

  /** The cursor has moved. */
  moved() {
    placeCursor(this.line, this.state, this.width);
  }

  /** Marks of the peak, of failures, of growth and of waits. @param {any} plot */
  marks(plot) {
    const { state } = this;
    const { model } = state;
    const context = /** @type {CanvasRenderingContext2D} */ (plot.ctx);
    const ratio = devicePixelRatio;
    const { left, top, width, height } = plot.bbox;
    const { x } = state.scale(model, width);
    const at = (/** @type {number} */ position) => left + x(position);
    const isSeen = (/** @type {number} */ position) => position >= state.from && position < state.to;
    context.save();
    const ticks = (/** @type {[number, number][]} */ pairs, /** @type {string} */ name, /** @type {number} */ y) => {
      context.fillStyle = colour(name);
      let drawn = -9;
      for (let i = firstAfter(pairs, state.from - 1); i < pairs.length && pairs[i][0] < state.to; i += 1) {
        const place = at(pairs[i][0]);
        if (place - drawn < 1) continue;
        drawn = place;
        context.fillRect(place, y, Math.max(1, ratio), 6 * ratio);
      }
    };
    ticks(model.waits, "wait", top + height - 6 * ratio);
    const grown = /** @type {[number, number][]} */ ((model.reserved ?? []).filter(([, bytes], i, all) => i > 0 && bytes > all[i - 1][1]));
    ticks(grown, "grow", top + height - 13 * ratio);
    context.fillStyle = colour("bad");
    context.strokeStyle = colour("bad");
    if (model.limit !== null) {
      const y = plot.valToPos(model.limit, "y", true);
      if (y >= top) {
        context.lineWidth = ratio;
        context.setLineDash([2 * ratio, 3 * ratio]);
        context.beginPath();
        context.moveTo(left, y);
        context.lineTo(left + width, y);
        context.stroke();
        context.setLineDash([]);
      }
    }
    for (const failure of model.data.failures) {
      if (!isSeen(failure.at)) continue;
      const place = at(failure.at);
      context.fillRect(place - ratio / 2, top, ratio, height);
      // What was asked for, above what was live.
      const [low, high] = [0, failure.size].map((bytes) => plot.valToPos(model.live[failure.at] + bytes, "y", true));
      context.globalAlpha = 0.55;
      context.fillRect(place - 3 * ratio, Math.max(top, high), 6 * ratio, Math.max(0, low - Math.max(top, high)));
      context.globalAlpha = 1;
      context.beginPath();
      context.moveTo(place - 5 * ratio, top - 8 * ratio);
      context.lineTo(place + 5 * ratio, top - 8 * ratio);
      context.lineTo(place, top);
      context.fill();
    }
    if (isSeen(model.data.peak) && model.events > 0) {
      const place = at(model.data.peak);
      const y = plot.valToPos(model.live[model.data.peak], "y", true);
      context.beginPath();
      context.arc(place, y, 4 * ratio, 0, 2 * Math.PI);
      context.fillStyle = colour("paper");
      context.fill();
      context.lineWidth = 2 * ratio;
      context.strokeStyle = colour("ink");
      context.stroke();
    }
    context.restore();
  }
}

/** The most that is held at positions from one up to another, it excluded. @param {Model} model @param {number} from @param {number} to */
function mostReserved(model, from, to) {
  const pairs = model.reserved ?? [];
  let most = model.reservedAt(from) ?? 0;
  for (let i = firstAfter(pairs, from); i < pairs.length && pairs[i][0] < to; i += 1) most = Math.max(most, pairs[i][1]);
  return most;
}

/** Steps of an axis of bytes. */
function binarySteps() {
  const steps = [];
  for (let step = 1; step < 2 ** 52; step *= 2) steps.push(step);
  return steps;
}

/** A size on an axis, without decimals that say nothing. @param {number} bytes */
function sizeLabel(bytes) {
  return bytes === 0 ? "0" : sizeText(bytes).replace(/\.0+ /, " ");
}

/** @param {HTMLElement} line @param {State} state @param {number} width */
function placeCursor(line, state, width) {
  const inner = width - LEFT - RIGHT;
  const { x } = state.scale(state.model, inner);
  const place = x(state.cursor);
  line.hidden = place < 0 || place > inner;
  line.style.transform = `translateX(${LEFT + place}px)`;
}
