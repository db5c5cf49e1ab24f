// Search: blocks by tag, call site, stream, size or address; the map fades the others.

class Finder {
  /** @param {HTMLElement} home @param {State} state */
  constructor(home, state) {
    this.state = state;
    this.field = make("input", { id: "find", type: "search", placeholder: "tag, site, stream, 1.5MiB, 0x\u2026", autocomplete: "off", spellcheck: "false" });
    this.said = make("span", { role: "status", class: "said" });
    this.body = make("tbody");
    this.table = make("table", { hidden: true }, make("caption", {}, "Found, the largest first"), this.body);
    home.append(make("label", { for: "find" }, "Find blocks "), this.field, this.said, this.table);
    this.field.addEventListener("input", () => this.find());
  }

  find() {
    const { state } = this;
    const { model } = state;
    const text = this.field.value.trim();
    state.found = text === "" ? null : search(model, text);
    this.table.hidden = !state.found || state.found.count === 0;
    this.said.textContent = "";
    if (state.found) {
      const blocks = new Uint32Array(state.found.count);
      let length = 0;
      for (let block = 0; block < model.count; block += 1) if (state.found.index[block]) blocks[length++] = block;
      const bytes = blocks.reduce((sum, block) => sum + model.size[block], 0);
      this.said.textContent = state.found.count === 0 ? "None found." : `${countText(state.found.count, "block")}, ${sizeText(bytes)} in all`;
      this.body.replaceChildren(...largestOf(model, blocks, 8).map((block) => blockRow(model, block, state)));
    }
    state.tell("colour");
  }
}

/** The blocks that a text names. @param {Model} model @param {string} text */
function search(model, text) {
  const index = new Uint8Array(model.count);
  let count = 0;
  const keep = (/** @type {(block: number) => boolean} */ isFound) => {
    for (let block = 0; block < model.count; block += 1) {
      if (isFound(block)) {
        index[block] = 1;
        count += 1;
      }
    }
    return { index, count };
  };
  if (/^0x[0-9a-f]+$/i.test(text) && !model.data.streams.includes(text.toLowerCase())) {
    const address = Number(text);
    return keep((block) => {
      const start = model.addressOf(model.place[block]);
      return address >= start && address < start + Math.max(1, model.size[block]);
    });
  }
  const size = sizeFrom(text);
  // What is shown is rounded, so that what is within half of the last digit is meant.
  const slack = /[.kmgt]/i.test(text) ? size * 0.005 : 0;
  const word = text.toLowerCase();
  const named = (/** @type {string[]} */ names) => names.map((name) => name.toLowerCase().includes(word));
  const isTag = named(model.data.tags);
  const isSite = named(model.data.sites);
  const isStream = model.data.streams.map((name) => name.toLowerCase() === word || `stream ${name}` === word);
  return keep((block) =>
    isTag[model.tag[block]] || isSite[model.site[block]] || isStream[model.stream[block]]
    || Math.abs(model.size[block] - size) <= slack);
}
