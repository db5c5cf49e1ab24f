// The map: addresses upwards, events to the right, each block a rectangle.

class MapPicture {
  /** @param {HTMLElement} home @param {State} state @param {() => Model} shown @param {boolean} isMain */
  constructor(home, state, shown, isMain) {
    this.state = state;
    this.home = home;
    this.shown = shown;
    this.isMain = isMain;
    this.canvas = make("canvas", { role: "img" });
    this.labels = make("div", { class: "labels", "aria-hidden": "true" });
    this.line = make("div", { class: "cursor" });
    this.tip = make("div", { class: "tip", hidden: true });
    home.append(this.canvas, this.labels, this.line, this.tip);
    /** @type {{ model: Model, by: Colouring, coloured: Coloured } | null} */
    this.known = null;
    /** Of the picture when it was drawn. */
    this.width = 0;
    followPointer(home, state, shown, (part, y, event) => this.hover(part, y, event), () => (this.tip.hidden = true));
  }

  get height() {
    return this.isMain ? 420 : 300;
  }

  /** The colours of blocks, which change less often than the range. */
  get coloured() {
    const model = this.shown();
    const by = this.state.colouring;
    if (this.known?.model !== model || this.known.by !== by) {
      this.known = { model, by, coloured: colourBlocks(model, by) };
    }
    return this.known.coloured;
  }

  draw() {
    const model = this.shown();
    const ratio = Math.min(2, devicePixelRatio);
    this.width = this.home.clientWidth;
    const inner = Math.max(100, this.width - LEFT - RIGHT);
    const [width, height] = [Math.round(inner * ratio), Math.round(this.height * ratio)];
    const { canvas } = this;
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.width = `${inner}px`;
      canvas.style.height = `${this.height}px`;
    }
    const { from, to, x } = this.state.scale(model, width);
    const isShown = model === this.state.model;
    const image = rasterise(model, {
      width, height, from, to, x, low: 0, high: model.span,
      pixels: palette().map(pixel),
      empty: pixel(colour("void")), hatch: pixel(colour("hatch")), held: pixel(colour("held")),
      coloured: this.coloured.index,
      found: isShown && this.state.found ? this.state.found.index : null,
    });
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    const live = sizeText(model.live[model.data.peak] ?? 0);
    canvas.setAttribute("aria-label", `Map of ${model.title}: ${countText(model.count, "block")}, ${live} live at the peak`);
    this.label(model);
    this.moved();
  }

  /** Labels of the axis of addresses. @param {Model} model */
  label(model) {
    this.labels.replaceChildren();
    const total = model.span * model.data.unit;
    let step = 1;
    while (total / step > 6) step *= 2;
    for (let at = 0; at < total * 0.97; at += step) {
      const label = make("span", {}, sizeLabel(at));
      label.style.bottom = `${(at / total) * this.height}px`;
      this.labels.append(label);
    }
  }

  /** What the colours mean. @param {HTMLElement} list */
  legend(list) {
    const items = this.coloured.labels.map(({ index, text }) => keyItem(index > COLOURS ? `s${index - COLOURS - 1}` : `c${index}`, text));
    if (this.shown().segments) items.push(keyItem("held", "held, not in use"), keyItem("void", "no memory"));
    list.replaceChildren(...items);
  }

  moved() {
    if (this.isMain) placeCursor(this.line, this.state, this.width);
    else {
      const model = this.shown();
      const inner = this.width - LEFT - RIGHT;
      const same = model.data.log === this.state.model.data.log;
      const cursor = same ? this.state.cursor : (this.state.cursor * model.events) / Math.max(1, this.state.model.events);
      this.line.style.transform = `translateX(${LEFT + this.state.scale(model, inner).x(cursor)}px)`;
    }
  }

  /** Shows the block below the pointer. @param {number} part @param {number} y @param {PointerEvent} event */
  hover(part, y, event) {
    const model = this.shown();
    const position = this.state.near(model, part, this.width - LEFT - RIGHT);
    const place = (1 - y / this.height) * model.span;
    const block = blockAt(model, position, place, model.span / this.height);
    if (block < 0 || y > this.height) {
      this.tip.hidden = true;
      return;
    }
    this.tip.replaceChildren(...tipOf(model, block, this.state));
    placeTip(this.tip, this.home, event, this.height);
  }
}

/** The live block at a place, or the nearest within a pixel; -1 if there is none. @param {Model} model @param {number} position @param {number} place @param {number} reach */
function blockAt(model, position, place, reach) {
  let [best, distance] = [-1, reach];
  for (const block of model.liveAt(position)) {
    const low = model.place[block];
    const high = low + Math.max(1, Math.ceil(model.size[block] / model.data.unit));
    const away = place < low ? low - place : place >= high ? place - high : -1;
    if (away < distance) [best, distance] = [block, away];
    if (away < 0) break;
  }
  return best;
}

/** What there is to say of a block. @param {Model} model @param {number} block @param {State} state */
function tipOf(model, block, state) {
  const about = model.describe(block);
  const until = about.to === null ? "never freed" : `freed at event ${thousands(about.to)}`;
  const events = (about.to ?? model.events + 1) - about.from;
  const times = model.times && about.to !== null ? `, ${timeText(model.timeOf(about.to) - model.timeOf(about.from))}` : "";
  const lines = [
    `${thousands(about.size)} bytes at ${about.address}`,
    `allocated ${about.from === 0 ? "before the first event" : `at event ${thousands(about.from)}`}, ${until}`,
    `lives ${countText(events, "event")}${times}`,
    `stream ${about.stream}, thread ${about.thread}`,
  ];
  if (about.tag) lines.push(`tag ${about.tag}`);
  if (about.site) lines.push(...about.site.split(" < ").map((frame, depth) => `${depth ? "\u2190 " : ""}${frame}`));
  return [make("strong", {}, sizeText(about.size)), ...lines.map((line) => make("span", {}, line))];
}
