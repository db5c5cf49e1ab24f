// The colours of blocks: by tag, site, stream, size, age, or whether they are ever freed.

const COLOURS = 8;

/** @typedef {"tag" | "site" | "stream" | "size" | "age" | "freed"} Colouring */
/** @typedef {{ index: Uint8Array, labels: { index: number, text: string }[] }} Coloured */

/** The colours that names of tags, call sites and streams have. @type {Record<"tag" | "site" | "stream", Map<string, number>>} */
const COLOURS_OF_NAMES = { tag: new Map(), site: new Map(), stream: new Map() };

/** The colourings that tell blocks of a view apart, the most telling first. @param {Model} model @returns {[Colouring, string][]} */
function colourings(model) {
  /** @type {[Colouring, string][]} */
  const all = [];
  if (hasNames(model.data.tags)) all.push(["tag", "tag"]);
  if (hasNames(model.data.sites)) all.push(["site", "call site"]);
  if (model.data.streams.length > 1) all.push(["stream", "stream"]);
  all.push(["size", "size"], ["age", "lifetime"], ["freed", "never freed"]);
  return all;
}

/** The colour of each block. @param {Model} model @param {Colouring} by @returns {Coloured} */
function colourBlocks(model, by) {
  if (by === "size") return byClass(model, (block) => model.size[block], sizeText, 4096, 8);
  if (by === "age") {
    const age = (/** @type {number} */ block) => Math.min(model.end[block], model.events + 1) - model.start[block];
    return byClass(model, age, (events) => countText(events, "event"), 8, 6);
  }
  if (by === "freed") return byEnd(model);
  return byName(model, by);
}

/** One of two colours. @param {Model} model */
function byEnd(model) {
  const index = new Uint8Array(model.count);
  for (let i = 0; i < model.count; i += 1) index[i] = model.end[i] === NEVER ? 5 : 8;
  return { index, labels: [{ index: 5, text: "never freed" }, { index: 8, text: "freed" }] };
}

/** The eight that hold most at the peak have colours, the others share one. @param {Model} model @param {"tag" | "site" | "stream"} by */
function byName(model, by) {
  const column = model[by];
  const names = by === "tag" ? model.data.tags : by === "site" ? model.data.sites : model.data.streams;
  /** @type {Map<number, number>} */
  const sums = new Map();
  const add = (/** @type {number} */ block, /** @type {number} */ weight) => {
    const name = column[block];
    sums.set(name, (sums.get(name) ?? 0) + aligned(model.size[block]) * weight);
  };
  for (const block of model.liveAt(model.data.peak)) add(block, 1);
  // Some hold nothing at the peak.
  const step = Math.max(1, Math.floor(model.count / 10000));
  for (let block = 0; block < model.count; block += step) add(block, 1e-6);
  const ranked = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = ranked.slice(0, COLOURS);
  // A name has one colour in all runs of the page.
  const known = COLOURS_OF_NAMES[by];
  /** @type {Map<number, number>} */
  const ranks = new Map();
  // Those that no other run has used come first.
  const all = Array.from({ length: COLOURS }, (_, rank) => rank);
  const used = new Set(known.values());
  const free = new Set([...all.filter((rank) => !used.has(rank)), ...all]);
  for (const name of shown) {
    const rank = known.get(names[name]);
    if (rank !== undefined && free.delete(rank)) ranks.set(name, rank);
  }
  for (const name of shown) {
    if (ranks.has(name)) continue;
    const [rank] = free;
    free.delete(rank);
    ranks.set(name, rank);
    if (!known.has(names[name])) known.set(names[name], rank);
  }
  const rankOf = (/** @type {number} */ name) => ranks.get(name) ?? COLOURS;
  const colours = new Uint8Array(Math.max(1, names.length)).fill(COLOURS);
  for (const name of shown) colours[name] = rankOf(name);
  const index = new Uint8Array(model.count);
  for (let i = 0; i < model.count; i += 1) index[i] = colours[column[i]];
  const unnamed = by === "stream" ? "unknown" : by === "tag" ? "no tag" : "no site";
  const labels = shown.map((name) => ({ index: rankOf(name), text: names[name] ? (by === "stream" ? `stream ${names[name]}` : names[name]) : unnamed }));
  if (ranked.length > COLOURS) labels.push({ index: COLOURS, text: `${ranked.length - COLOURS} others` });
  return { index, labels };
}

/** Classes from small to large, each so many times the one before. @param {Model} model @param {(block: number) => number} value @param {(value: number) => string} show @param {number} first @param {number} ratio */
function byClass(model, value, show, first, ratio) {
  const index = new Uint8Array(model.count);
  const used = new Set();
  for (let i = 0; i < model.count; i += 1) {
    let [rank, limit] = [0, first];
    const mine = value(i);
    while (mine > limit && rank < COLOURS - 1) {
      rank += 1;
      limit *= ratio;
    }
    // Colours 9 to 16 are a scale.
    index[i] = COLOURS + 1 + rank;
    used.add(rank);
  }
  const ranks = [...used].sort((a, b) => a - b);
  const labels = ranks.map((rank) => {
    const limit = first * ratio ** rank;
    return { index: COLOURS + 1 + rank, text: rank === COLOURS - 1 ? `over ${show(limit / ratio)}` : `to ${show(limit)}` };
  });
  return { index, labels };
}

/** The colours of the style sheet: eight for names, one for others, eight of a scale. */
function palette() {
  const names = [];
  for (let i = 0; i <= COLOURS; i += 1) names.push(`c${i}`);
  for (let i = 0; i < COLOURS; i += 1) names.push(`s${i}`);
  return names.map(colour);
}

/** A colour `#rrggbb` as a pixel of a canvas. @param {string} text */
function pixel(text) {
  const value = parseInt(text.slice(1, 7), 16);
  return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/** A pixel between two. @param {number} below @param {number} above @param {number} part */
function mix(below, above, part) {
  const channel = (/** @type {number} */ shift) => {
    const from = (below >>> shift) & 0xff;
    return Math.round(from + (((above >>> shift) & 0xff) - from) * part) << shift;
  };
  return (0xff000000 | channel(16) | channel(8) | channel(0)) >>> 0;
}
