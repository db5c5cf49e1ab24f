// Who: bytes and blocks by tag and call site, at the cursor, at the peak, and how they grow.

/** Rows below one group before the others are one row. */
const ROWS = 12;

class WhoTable {
  /** @param {HTMLElement} home @param {State} state */
  constructor(home, state) {
    this.state = state;
    /** @type {Set<string>} */
    this.open = new Set();
    /** @type {{ model: Model, sets: Uint32Array[] } | null} */
    this.known = null;
    this.body = make("tbody");
    this.caption = make("caption");
    const head = make("thead", {}, make("tr", {},
      make("th", { scope: "col" }, "who"),
      ...["at the cursor", "blocks", "at the peak", "blocks", "growth"].map((text) =>
        make("th", { scope: "col", class: "number" }, text))));
    const table = make("table", { class: "who" }, this.caption, head, this.body);
    home.append(make("h3", {}, "Who"), make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Who holds bytes" }, table));
  }

  draw() {
    const { model, cursor } = this.state;
    const { peak, growth } = model.data;
    if (this.known?.model !== model) {
      // Those at the end of the run are for what grows and is live neither at the cursor nor at the peak.
      this.known = { model, sets: [model.liveAt(peak), model.liveAt(growth[1])] };
    }
    const all = groupsOf(model, [model.liveAt(cursor), ...this.known.sets]);
    all.growth = growth[2];
    // A tag may grow by sites that take turns, none of which grows alone.
    for (const [tag, bytes] of model.data.tagsGrow) {
      const group = all.below.get(tag);
      if (group) group.growth = bytes;
    }
    const rises = growth[1] > growth[0] ? ` Growth: by how much the least that is live rises from event ${thousands(growth[0])} to ${thousands(growth[1])}.` : "";
    this.caption.textContent = `By ${kindOfGroups(model.data)}.${rises}`;
    /** @type {HTMLElement[]} */
    const rows = [];
    this.add(rows, all, 0, false);
    const focused = document.activeElement?.getAttribute("data-path");
    this.body.replaceChildren(...rows);
    if (focused) {
      const again = [...this.body.querySelectorAll("button")].find((button) => button.getAttribute("data-path") === focused);
      again?.focus();
    }
  }

  /** @param {HTMLElement[]} rows @param {Group} group @param {number} depth @param {boolean} isAlone */
  add(rows, group, depth, isAlone) {
    // What is the only one is open, unless it is closed.
    const isOpen = depth === 0 || this.open.has(group.path) !== isAlone;
    rows.push(this.row(group, depth, isOpen));
    if (!isOpen) return;
    const weight = (/** @type {Group} */ one) => Math.max(one.bytes[0], one.bytes[1], one.growth);
    const below = [...group.below.values()].sort((a, b) => b.bytes[0] - a.bytes[0] || weight(b) - weight(a));
    for (const one of below.slice(0, ROWS)) this.add(rows, one, depth + 1, depth === 0 && below.length === 1);
    if (below.length > ROWS) {
      const rest = below.slice(ROWS);
      const sum = (/** @type {(one: Group) => number[]} */ of) => rest.reduce((sums, one) => sums.map((value, set) => value + of(one)[set]), [0, 0, 0]);
      const others = { name: countText(rest.length, "other"), path: "", bytes: sum((one) => one.bytes), blocks: sum((one) => one.blocks), growth: rest.reduce((all, one) => all + one.growth, 0), below: new Map() };
      rows.push(this.row(others, depth + 1, false));
    }
  }

  /** @param {Group} group @param {number} depth @param {boolean} isOpen */
  row(group, depth, isOpen) {
    let heading = /** @type {HTMLElement} */ (make("span", {}, group.name));
    if (group.below.size > 0 && depth > 0) {
      heading = make("button", { type: "button", class: "fold", "aria-expanded": String(isOpen), "data-path": group.path,
        click: () => {
          if (!this.open.delete(group.path)) this.open.add(group.path);
          this.draw();
        } }, group.name);
    }
    heading.classList.add(`depth-${Math.min(depth, 6)}`);
    const [now, peak] = group.bytes;
    const growth = group.growth > 0 ? changeText(group.growth) : "-";
    return makeRow(heading, [sizeText(now)], [thousands(group.blocks[0])], [sizeText(peak)], [thousands(group.blocks[1])], [growth]);
  }
}
