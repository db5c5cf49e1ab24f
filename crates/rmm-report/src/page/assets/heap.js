// The moment: what is held at the cursor, in parts, and the largest blocks and holes.

class HeapPicture {
  /** @param {HTMLElement} home @param {State} state */
  constructor(home, state) {
    this.state = state;
    this.heading = make("h3", { id: "moment-heading" }, "The heap at the cursor");
    this.place = make("p", { class: "place", id: "moment-place" });
    this.bar = make("div", { class: "bar", "aria-hidden": "true" });
    this.parts = make("tbody");
    this.counted = make("tbody");
    this.blocks = make("tbody");
    this.holes = make("tbody");
    const table = (/** @type {string} */ caption, /** @type {HTMLElement} */ body) =>
      make("table", {}, make("caption", {}, caption), body);
    this.ofCounted = table("As the pools count it", this.counted);
    home.append(
      this.heading, this.place, this.bar,
      table("In parts", this.parts), this.ofCounted, table("Largest blocks", this.blocks), table("Longest free ranges, with the whole pages in them", this.holes),
    );
    this.timer = 0;
  }

  /** Shows the moment; holes of very many blocks once the cursor rests. */
  draw() {
    const { state } = this;
    const { model } = state;
    const moment = momentOf(model, state.cursor, true);
    this.show(model, moment);
    clearTimeout(this.timer);
    if (moment.holes === null) {
      this.timer = setTimeout(() => this.show(model, momentOf(model, state.cursor, false)), 120);
    }
  }

  /** @param {Model} model @param {Moment} moment */
  show(model, moment) {
    this.moment = moment;
    const { state } = this;
    this.place.textContent = this.words(model, moment);
    const rounding = moment.live - moment.asked;
    const known = moment.holes !== null;
    const whole = moment.held ?? moment.live + moment.inHoles + moment.wholeFree;
    /** @type {[string, string, number, string][]} */
    const parts = [
      ["live", "live", moment.asked, countText(moment.blocks.length, "block")],
      ["rounding", "rounding", rounding, "to 256 bytes"],
    ];
    if (known) {
      parts.push(["holes", "holes", moment.inHoles, "free parts of pages in use"]);
      if (moment.held !== null) {
        parts.push(["free", "whole free pages", moment.wholeFree, "of 2 MiB"]);
        parts.push(["other", "other", moment.other, "caches, padding"]);
      }
    }
    const total = Math.max(1, parts.reduce((sum, [, , bytes]) => sum + bytes, 0));
    this.bar.replaceChildren(...parts.filter(([, , bytes]) => bytes > 0).map(([name, , bytes]) => {
      const part = make("i", { class: `part-${name}` });
      part.style.width = `${(bytes / total) * 100}%`;
      return part;
    }));
    const label = moment.held === null ? "pages in use" : "held";
    this.parts.replaceChildren(
      ...(known || moment.held !== null ? [makeRow(label, [sizeText(whole)], "")] : []),
      ...parts.map(([name, text, bytes, note]) => {
        const heading = make("span", {}, make("i", { class: `swatch part-${name}` }), text);
        return makeRow(heading, [sizeText(bytes)], `${percentText(bytes, whole)}, ${note}`);
      }),
    );
    const counted = model.data.counted.find(({ at }) => at === moment.position);
    this.ofCounted.hidden = counted === undefined;
    this.counted.replaceChildren(...(counted?.parts ?? []).map(({ what, bytes }) =>
      makeRow(what, [sizeText(bytes)], percentText(bytes, whole))));
    if (counted?.parts.length === 0) {
      this.counted.replaceChildren(makeRow("nothing in caches, waiting for a stream, kept for graphs, or asleep"));
    }
    const largest = largestOf(model, moment.blocks, 6);
    this.blocks.replaceChildren(...largest.map((block) => blockRow(model, block, state)));
    this.holes.replaceChildren(...(moment.holes ?? []).map((hole) =>
      makeRow(sizeText(hole.bytes), `at 0x${hole.from.toString(16)}`)));
    if (known && moment.count === 0) this.holes.replaceChildren(makeRow("none"));
  }

  /** @param {Model} model @param {Moment} moment */
  words(model, moment) {
    if (model.events === 0) return "Now";
    const place = this.state.say(moment.position);
    const failure = model.data.failures.find(({ at }) => at === moment.position);
    const notes = [];
    if (failure) notes.push(`a request of ${sizeText(failure.size)} failed`);
    if (moment.position === model.data.peak) notes.push("the peak");
    const text = [place, ...notes].join(": ");
    return text[0].toUpperCase() + text.slice(1);
  }
}

/** A row about a block, with a button that moves the cursor to where it is allocated. @param {Model} model @param {number} block @param {State} state */
function blockRow(model, block, state) {
  const about = model.describe(block);
  const life = about.to === null ? `from event ${thousands(about.from)}, never freed` : `events ${thousands(about.from)} to ${thousands(about.to)}`;
  const from = model.events === 0 ? about.address : life;
  const names = [about.tag, about.site.split(" < ")[0]].filter((name) => name);
  if (names.length === 0 && model.events > 0) names.push(`stream ${about.stream}`);
  if (model.events === 0) return makeRow(sizeText(about.size), from);
  const go = make("button", { type: "button", class: "link", click: () => state.moveTo(about.from) }, sizeText(about.size));
  go.setAttribute("aria-label", `${sizeText(about.size)}: to its allocation at event ${about.from}`);
  return makeRow(go, [from, ...names].join(", "));
}
