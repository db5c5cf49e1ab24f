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
    this.title = make("h4");
    this.caption = make("caption");
    this.colours = make("ul", { class: "legend" });
    this.table = make("table", {}, this.caption, make("thead", {}, this.head), this.body);
    this.rest = make("div", { hidden: true }, this.title, this.map, this.colours, make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Differences" }, this.table));
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
    this.picture.legend(this.colours);
    this.title.textContent = `Map of addresses of ${this.state.models[this.state.other].title}`;
    this.fill();
  }

  moved() {
    if (!this.isShown) return;
    this.picture.moved();
    this.fill();
  }

  fill() {
    const { state } = this;
    // The difference is the later one on the page less the earlier, as in the answers.
    const [low, high] = [state.index, state.other].sort((a, b) => a - b);
    const [one, next] = [state.models[low], state.models[high]];
    const [atOne, atNext] = [one, next].map((model) => this.cursorOf(model));
    const head = (/** @type {string} */ text) => make("th", { scope: "col", class: "number" }, text);
    this.caption.textContent = `Differences: ${next.title} less ${one.title}`;
    this.head.replaceChildren(make("th", { scope: "col" }, "what"), head(one.title), head(next.title), head("difference"));
    /** @type {HTMLElement[]} */
    const rows = [];
    const add = (/** @type {string} */ what, /** @type {number | null} */ a, /** @type {number | null} */ b, /** @type {(n: number) => string} */ show) => {
      const text = (/** @type {number | null} */ value) => (value === null ? "-" : show(value));
      const by = a === null || b === null ? "-" : show === sizeText ? changeText(b - a) : a === b ? "0" : `${b > a ? "+" : "\u2212"}${show(Math.abs(a - b))}`;
      rows.push(makeRow(what, [text(a)], [text(b)], [by]));
    };
    const most = (/** @type {Model} */ model) => (model.reserved ? model.reserved.reduce((sum, [, bytes]) => Math.max(sum, bytes), 0) : null);
    add("events", one.events, next.events, thousands);
    add("live at the peak", one.live[one.data.peak], next.live[next.data.peak], sizeText);
    add("held at most", most(one), most(next), sizeText);
    add("live at the cursor", one.live[atOne], next.live[atNext], sizeText);
    add("held at the cursor", one.reservedAt(atOne), next.reservedAt(atNext), sizeText);
    add("failures", one.data.failures.length, next.data.failures.length, thousands);
    add("growth", one.data.growth[2], next.data.growth[2], sizeText);
    add("waits", one.data.waited, next.data.waited, thousands);
    for (const [name, a, b] of this.groups(one, next)) add(`${name}, at the peak`, a, b, sizeText);
    this.body.replaceChildren(...rows);
  }

  /** The position of the cursor in a model; of another log, by the share of it. @param {Model} model */
  cursorOf(model) {
    const { cursor, model: shown } = this.state;
    if (model.data.log === shown.data.log) return cursor;
    return Math.round((cursor * model.events) / Math.max(1, shown.events));
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
