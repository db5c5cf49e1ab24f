// Two: another view beside the one that is shown, with differences.

class TwoPanel {
  /** @param {HTMLElement} home @param {State} state */
  constructor(home, state) {
    this.state = state;
    this.home = home;
    const options = state.models.map((model, index) => make("option", { value: index }, model.title));
    this.select = make("select", { id: "two-select" }, make("option", { value: -1 }, "none"), ...options);
    this.select.addEventListener("change", () => {
      state.other = Number(this.select.value);
      state.tell("view");
    });
    /** @type {{ mine: Model, other: Model, groups: [string, number, number][] } | null} */
    this.known = null;
    this.map = make("div", { class: "picture map" });
    this.body = make("tbody");
    this.head = make("tr");
    this.table = make("table", {}, make("caption", {}, "Differences, first less second"), make("thead", {}, this.head), this.body);
    this.rest = make("div", { hidden: true }, this.map, make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Differences" }, this.table));
    home.append(make("h3", {}, "Two side by side"), make("label", { for: "two-select" }, "Compare with "), this.select, this.rest);
    this.picture = new MapPicture(this.map, state, () => state.models[Math.max(0, state.other)], false);
  }

  get isShown() {
    return this.state.other >= 0 && this.state.other !== this.state.index;
  }

  draw() {
    this.rest.hidden = !this.isShown;
    if (!this.isShown) return;
    this.picture.draw();
    this.fill();
  }

  moved() {
    if (!this.isShown) return;
    this.picture.moved();
    this.fill();
  }

  fill() {
    const { state } = this;
    const [mine, other] = [state.model, state.models[state.other]];
    const isSame = mine.data.log === other.data.log;
    const place = isSame ? state.cursor : Math.round((state.cursor * other.events) / Math.max(1, mine.events));
    const head = (/** @type {string} */ text) => make("th", { scope: "col", class: "number" }, text);
    this.head.replaceChildren(make("th", { scope: "col" }, "what"), head(mine.title), head(other.title), head("difference"));
    /** @type {HTMLElement[]} */
    const rows = [];
    const add = (/** @type {string} */ what, /** @type {number | null} */ a, /** @type {number | null} */ b, /** @type {(n: number) => string} */ show) => {
      const text = (/** @type {number | null} */ value) => (value === null ? "-" : show(value));
      const by = a === null || b === null ? "-" : show === sizeText ? changeText(a - b) : a === b ? "0" : `${a > b ? "+" : "\u2212"}${show(Math.abs(a - b))}`;
      rows.push(makeRow(what, [text(a)], [text(b)], [by]));
    };
    const most = (/** @type {Model} */ model) => (model.reserved ? model.reserved.reduce((sum, [, bytes]) => Math.max(sum, bytes), 0) : null);
    add("events", mine.events, other.events, thousands);
    add("live at the peak", mine.live[mine.data.peak], other.live[other.data.peak], sizeText);
    add("held at most", most(mine), most(other), sizeText);
    add("live at the cursor", mine.live[state.cursor], other.live[place], sizeText);
    add("held at the cursor", mine.reservedAt(state.cursor), other.reservedAt(place), sizeText);
    add("failures", mine.data.failures.length, other.data.failures.length, thousands);
    add("waits", total(mine), total(other), thousands);
    for (const [name, a, b] of this.groups(mine, other)) add(`${name}, at the peak`, a, b, sizeText);
    this.body.replaceChildren(...rows);
  }

  /** The groups that differ most at the peaks. @param {Model} mine @param {Model} other @returns {[string, number, number][]} */
  groups(mine, other) {
    if (this.known?.mine === mine && this.known.other === other) return this.known.groups;
    const [a, b] = [mine, other].map((model) => groupsOf(model, [model.liveAt(model.data.peak)]).below);
    const names = new Set([...a.keys(), ...b.keys()]);
    const pairs = [...names].map((name) => /** @type {[string, number, number]} */ ([name, a.get(name)?.bytes[0] ?? 0, b.get(name)?.bytes[0] ?? 0]));
    const groups = pairs.filter(([, x, y]) => x !== y).sort((x, y) => Math.abs(y[1] - y[2]) - Math.abs(x[1] - x[2])).slice(0, 8);
    this.known = { mine, other, groups };
    return groups;
  }
}

/** @param {Model} model */
function total(model) {
  return model.waits.reduce((sum, [, count]) => sum + count, 0);
}
