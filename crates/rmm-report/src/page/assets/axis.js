// What all pictures share: the view that is shown, the range, the cursor, and the axis.

/** So many pixels from the peak or a failure are that place: one event is narrower than a pixel. */
const REACH = 6;

/** The room for labels at the left of pictures, and at their right. */
const LEFT = 76;
const RIGHT = 14;

class State {
  /** @param {Model[]} models */
  constructor(models) {
    this.models = models;
    this.index = 0;
    this.other = -1;
    this.byTime = false;
    /** @type {Colouring} */
    this.colouring = colourings(models[0])[0][0];
    /** @type {{ index: Uint8Array, count: number } | null} */
    this.found = null;
    /** @type {((what: "view" | "range" | "cursor" | "colour") => void)[]} */
    this.listeners = [];
    this.from = 0;
    this.to = this.whole;
    this.cursor = this.first;
  }

  /** Where the cursor is first: at the first failure, else at the peak. */
  get first() {
    return this.model.data.failures[0]?.at ?? this.model.data.peak;
  }

  get model() {
    return this.models[this.index];
  }

  /** Positions at the edges of pictures: a little more than there are, so that all are seen. */
  get whole() {
    return Math.max(1, this.model.events + 1);
  }

  /** @param {number} index */
  show(index) {
    const keeps = this.models[index].data.log === this.model.data.log;
    this.index = index;
    const model = this.model;
    if (!keeps) {
      this.from = 0;
      this.to = this.whole;
      this.cursor = this.first;
    }
    if (!colourings(model).some(([by]) => by === this.colouring)) this.colouring = colourings(model)[0][0];
    this.byTime = this.byTime && model.times !== null;
    this.found = null;
    this.tell("view");
  }

  /** @param {"view" | "range" | "cursor" | "colour"} what */
  tell(what) {
    for (const listener of this.listeners) listener(what);
  }

  /** @param {number} position */
  moveTo(position) {
    const cursor = Math.max(0, Math.min(this.model.events, Math.round(position)));
    if (cursor === this.cursor) return;
    this.cursor = cursor;
    if (cursor < this.from || cursor >= this.to) {
      const span = this.to - this.from;
      this.setRange(cursor - span / 2, cursor + span / 2);
    }
    this.tell("cursor");
  }

  /** @param {number} from @param {number} to */
  setRange(from, to) {
    const span = Math.min(this.whole, Math.max(Math.min(8, this.whole), Math.round(to - from)));
    const first = Math.max(0, Math.min(this.whole - span, Math.round(from)));
    if (first === this.from && first + span === this.to) return;
    this.from = first;
    this.to = first + span;
    this.tell("range");
  }

  /** Zooms around a position, which stays where it is. @param {number} factor @param {number} [around] */
  zoom(factor, around) {
    const at = around ?? Math.max(this.from, Math.min(this.to, this.cursor));
    this.setRange(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  /** The value on the axis of a position of a model. @param {Model} model @param {number} position */
  value(model, position) {
    return this.byTime ? model.timeOf(position) : position;
  }

  /**
   * Where positions are in a picture of a width; of another log, by the share of it.
   * @param {Model} model @param {number} width
   * @returns {{ from: number, to: number, x: (position: number) => number }}
   */
  scale(model, width) {
    const part = model.data.log === this.model.data.log ? 1 : Math.max(1, model.events + 1) / this.whole;
    const [from, to] = [this.from * part, this.to * part];
    const low = this.value(model, from);
    const factor = width / Math.max(1e-9, this.value(model, to) - low);
    const byTime = this.byTime && model.times !== null;
    const x = byTime
      ? (/** @type {number} */ position) => (model.timeOf(position) - low) * factor
      : (/** @type {number} */ position) => (position - low) * factor;
    return { from: Math.floor(from), to: Math.ceil(to), x };
  }

  /** The position at a place of a picture, from 0 to 1. @param {number} part */
  positionAt(part) {
    const model = this.model;
    if (!this.byTime) return Math.floor(this.from + (this.to - this.from) * part);
    const low = model.timeOf(this.from);
    return model.positionAt(low + (model.timeOf(this.to) - low) * part);
  }

  /**
   * The position below the pointer in a picture of a model: the peak or a failure if one is near,
   * so that what lasts one event can be hit; else that at its place.
   * @param {Model} model @param {number} part @param {number} width
   */
  near(model, part, width) {
    const { x } = this.scale(model, width);
    let [found, distance] = [-1, REACH];
    for (const mark of [model.data.peak, ...model.data.failures.map(({ at }) => at)]) {
      const place = x(mark);
      const away = Math.abs(place - part * width);
      if (away < distance && place >= 0 && place <= width) [found, distance] = [mark, away];
    }
    if (found >= 0) return found;
    const share = model.data.log === this.model.data.log ? 1 : model.events / Math.max(1, this.model.events);
    return Math.max(0, Math.min(model.events, Math.round(this.positionAt(part) * share)));
  }

  /** What the pictures have to the right. */
  get acrossText() {
    if (this.model.events === 0) return "one moment";
    return this.byTime ? "time" : "events";
  }

  /** A position in words. @param {number} position */
  say(position) {
    const event = position === 0 ? "before the first event" : `event ${thousands(position)}`;
    return this.model.times ? `${event}, ${timeText(this.model.timeOf(position))}` : event;
  }
}

/** Mouse and touch on a picture of a model: move, click, drag. @param {HTMLElement} element @param {State} state @param {() => Model} shown @param {(part: number, y: number, event: PointerEvent) => void} hover @param {() => void} leave */
function followPointer(element, state, shown, hover, leave) {
  const band = make("div", { class: "band", hidden: true });
  element.append(band);
  let begun = -1;
  const part = (/** @type {MouseEvent} */ event) => {
    const box = element.getBoundingClientRect();
    const inside = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
    return Math.max(0, Math.min(1, inside));
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    begun = part(event);
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    const now = part(event);
    hover(now, event.clientY - element.getBoundingClientRect().top, event);
    if (begun < 0) return;
    const width = element.clientWidth - LEFT - RIGHT;
    band.hidden = Math.abs(now - begun) * width < 5;
    band.style.left = `${LEFT + Math.min(now, begun) * width}px`;
    band.style.width = `${Math.abs(now - begun) * width}px`;
  });
  const end = (/** @type {PointerEvent} */ event) => {
    if (begun < 0) return;
    const [from, to] = [Math.min(begun, part(event)), Math.max(begun, part(event))];
    begun = -1;
    const wasDrag = !band.hidden;
    band.hidden = true;
    if (wasDrag) state.setRange(state.positionAt(from), state.positionAt(to));
    else {
      const isSame = shown().data.log === state.model.data.log;
      const width = element.clientWidth - LEFT - RIGHT;
      state.moveTo(isSame ? state.near(shown(), to, width) : state.positionAt(to));
    }
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", () => {
    begun = -1;
    band.hidden = true;
  });
  element.addEventListener("pointerleave", leave);
  element.addEventListener("dblclick", () => state.setRange(0, state.whole));
  element.addEventListener("wheel", (event) => {
    // The wheel alone scrolls the page.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    state.zoom(event.deltaY < 0 ? 0.8 : 1.25, state.positionAt(part(event)));
  }, { passive: false });
}

/** Shows a tip beside the pointer, inside its picture. @param {HTMLElement} tip @param {HTMLElement} home @param {PointerEvent} event @param {number} height */
function placeTip(tip, home, event, height) {
  tip.hidden = false;
  const box = home.getBoundingClientRect();
  const right = event.clientX - box.left + 14;
  // Beside the pointer at the left where there is no room at its right.
  const left = right + tip.offsetWidth < box.width ? right : right - 28 - tip.offsetWidth;
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${Math.max(0, Math.min(event.clientY - box.top + 14, height - tip.offsetHeight))}px`;
}
