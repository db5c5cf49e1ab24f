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
    const failures = state.found ? failuresFound(model, text) : [];
    this.table.hidden = !state.found || state.found.count + failures.length === 0;
    this.said.textContent = "";
    if (state.found) {
      const blocks = new Uint32Array(state.found.count);
      let length = 0;
      for (let block = 0; block < model.count; block += 1) if (state.found.index[block]) blocks[length++] = block;
      const bytes = blocks.reduce((sum, block) => sum + model.size[block], 0);
      const said = [
        ...(state.found.count > 0 ? [`${countText(state.found.count, "block")}, ${sizeText(bytes)} in all`] : []),
        ...(failures.length > 0 ? [`${countText(failures.length, "request")} that failed`] : []),
      ];
      this.said.textContent = said.join("; ") || "None found.";
      this.body.replaceChildren(
        ...failures.slice(0, 4).map((failure) => failureRow(model, failure, state)),
        ...largestOf(model, blocks, 8).map((block) => blockRow(model, block, state)));
    }
    state.tell("colour");
  }
}

/** Whether a text names something with a size, a tag, a site and a stream. @param {Model} model @param {string} text */
function matcher(model, text) {
  const size = sizeFrom(text);
  // What is shown is rounded, so that what is within half of the last digit is meant.
  const slack = /[.kmgt]/i.test(text) ? size * 0.005 : 0;
  const word = text.toLowerCase();
  const named = (/** @type {string[]} */ names) => names.map((name) => name.toLowerCase().includes(word));
  const isTag = named(model.data.tags);
  const isSite = named(model.data.sites);
  const isStream = model.data.streams.map((name) => name.toLowerCase() === word || `stream ${name}` === word);
  return (/** @type {number} */ bytes, /** @type {number} */ tag, /** @type {number} */ site, /** @type {number} */ stream) =>
    isTag[tag] || isSite[site] || isStream[stream] || Math.abs(bytes - size) <= slack;
}

/** The requests that failed and that a text names, the first ones first. @param {Model} model @param {string} text */
function failuresFound(model, text) {
  const isNamed = matcher(model, text);
  const isAll = "failed request".includes(text.toLowerCase()) && text.length > 3;
  return model.data.failures.filter(({ size, tag, site, stream }) => isAll || isNamed(size, tag, site, stream));
}

/** A row about a request that failed. @param {Model} model @param {ViewData["failures"][0]} failure @param {State} state */
function failureRow(model, failure, state) {
  const go = make("button", { type: "button", class: "link", click: () => state.moveTo(failure.at) }, sizeText(failure.size));
  go.setAttribute("aria-label", `${sizeText(failure.size)} failed: to event ${failure.at}`);
  const names = [model.data.tags[failure.tag], model.data.sites[failure.site]?.split(" < ")[0]].filter((name) => name);
  return makeRow(go, [`failed at event ${thousands(failure.at)}`, ...names].join(", "));
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
  const isNamed = matcher(model, text);
  return keep((block) => isNamed(model.size[block], model.tag[block], model.site[block], model.stream[block]));
}
