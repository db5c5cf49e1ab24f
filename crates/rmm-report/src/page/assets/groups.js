// Who holds bytes: blocks by tag and site or, where there are none, by stream and size.

/** @typedef {{ name: string, path: string, bytes: number[], blocks: number[], growth: number, below: Map<string, Group> }} Group */

/** The names of a block, from the outermost group inwards. @param {Model} model @param {number} block */
function namesOf(model, block) {
  const data = model.data;
  const names = [];
  if (hasNames(data.tags)) names.push(data.tags[model.tag[block]] || "no tag");
  if (hasNames(data.sites)) names.push(...(data.sites[model.site[block]] || "no site").split(" < "));
  if (names.length === 0) {
    names.push(`stream ${data.streams[model.stream[block]]}`, sizeText(model.size[block]));
  }
  return names;
}

/** @param {string[]} names */
function hasNames(names) {
  return names.some((name) => name !== "");
}

/** What the groups of a view are. @param {ViewData} data */
function kindOfGroups(data) {
  const kinds = [hasNames(data.tags) ? "tag" : "", hasNames(data.sites) ? "call site" : ""];
  return kinds.filter((kind) => kind).join(", then ") || "stream, then size";
}

/** A number that blocks with the same names share. @param {Model} model @param {number} block */
function keyOf(model, block) {
  const data = model.data;
  if (hasNames(data.tags) || hasNames(data.sites)) {
    return model.tag[block] * data.sites.length + model.site[block];
  }
  return model.size[block] * data.streams.length + model.stream[block];
}

/** How much groups grow, by the numbers of `keyOf`. @param {Model} model */
function growthOf(model) {
  const data = model.data;
  const isNamed = hasNames(data.tags) || hasNames(data.sites);
  /** @type {Map<number, number>} */
  const growth = new Map();
  for (const [one, other, bytes] of data.growers) {
    growth.set(isNamed ? one * data.sites.length + other : other * data.streams.length + one, bytes);
  }
  return growth;
}

/**
 * Bytes and blocks of groups, of several sets of blocks beside each other.
 * @param {Model} model @param {Uint32Array[]} sets
 * @returns {Group}
 */
function groupsOf(model, sets) {
  const zeros = () => sets.map(() => 0);
  const growth = growthOf(model);
  /** @type {Map<number, { block: number, bytes: number[], blocks: number[] }>} */
  const sums = new Map();
  sets.forEach((blocks, set) => {
    for (const block of blocks) {
      const key = keyOf(model, block);
      let sum = sums.get(key);
      if (!sum) sums.set(key, (sum = { block, bytes: zeros(), blocks: zeros() }));
      sum.bytes[set] += aligned(model.size[block]);
      sum.blocks[set] += 1;
    }
  });
  /** @type {(name: string, path: string) => Group} */
  const group = (name, path) => ({ name, path, bytes: zeros(), blocks: zeros(), growth: 0, below: new Map() });
  const all = group("all", "");
  for (const [key, sum] of sums) {
    let at = all;
    for (const name of [null, ...namesOf(model, sum.block)]) {
      if (name !== null) {
        let below = at.below.get(name);
        if (!below) at.below.set(name, (below = group(name, `${at.path}\u0000${name}`)));
        at = below;
      }
      at.growth += growth.get(key) ?? 0;
      sum.bytes.forEach((bytes, set) => (at.bytes[set] += bytes));
      sum.blocks.forEach((blocks, set) => (at.blocks[set] += blocks));
    }
  }
  return all;
}
