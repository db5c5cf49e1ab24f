// The heap at one position: what is held, in parts, as the answers have it.

/** With more blocks than this, holes are looked for once the cursor rests. */
const MANY = 60000;

/**
 * @typedef {{ from: number, bytes: number }} Hole
 * @typedef {{ position: number, blocks: Uint32Array, live: number, asked: number, held: number | null,
 *   holes: Hole[] | null, count: number, inHoles: number, wholeFree: number, other: number }} Moment
 */

/**
 * @param {Model} model @param {number} position
 * @param {boolean} isBrief whether holes may wait
 * @returns {Moment}
 */
function momentOf(model, position, isBrief) {
  const blocks = model.liveAt(position);
  let asked = 0;
  let live = 0;
  for (const block of blocks) {
    asked += model.size[block];
    live += aligned(model.size[block]);
  }
  const held = model.reservedAt(position);
  /** @type {Moment} */
  const moment = { position, blocks, live, asked, held, holes: null, count: 0, inHoles: 0, wholeFree: 0, other: 0 };
  if (isBrief && blocks.length > MANY) return moment;
  const ranges = rangesOf(model, blocks);
  const holes = holesIn(memoryAt(model, position, ranges), ranges);
  for (const hole of holes) {
    const first = Math.ceil(hole.from / PAGE) * PAGE;
    const last = Math.floor((hole.from + hole.bytes) / PAGE) * PAGE;
    const whole = Math.max(0, last - first);
    moment.wholeFree += whole;
    moment.inHoles += hole.bytes - whole;
  }
  moment.count = holes.length;
  moment.holes = holes.sort((a, b) => b.bytes - a.bytes).slice(0, 5);
  moment.other = held === null ? 0 : Math.max(0, held - live - moment.wholeFree - moment.inHoles);
  return moment;
}

/** Addresses and ends of blocks, by address. @param {Model} model @param {Uint32Array} blocks */
function rangesOf(model, blocks) {
  const count = blocks.length;
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  /** @type {number[] | Float64Array} */
  let order;
  if (model.span * Math.max(1, count) < Number.MAX_SAFE_INTEGER) {
    // Place and index in one number: sorting numbers is many times faster than with a function.
    const keys = new Float64Array(count);
    for (let i = 0; i < count; i += 1) keys[i] = model.place[blocks[i]] * count + i;
    order = keys.sort().map((key) => key % count);
  } else {
    order = [...blocks.keys()].sort((a, b) => model.place[blocks[a]] - model.place[blocks[b]]);
  }
  let length = 0;
  for (const index of order) {
    const block = blocks[index];
    if (model.size[block] === 0) continue;
    starts[length] = model.addressOf(model.place[block]);
    ends[length] = starts[length] + aligned(model.size[block]);
    length += 1;
  }
  return { starts: starts.subarray(0, length), ends: ends.subarray(0, length) };
}

/**
 * The memory at a position: segments where they are known, else the pages that blocks are in.
 * @param {Model} model @param {number} position @param {{ starts: Float64Array, ends: Float64Array }} ranges
 */
function memoryAt(model, position, ranges) {
  /** @type {[number, number][]} */
  const memory = [];
  if (model.segments) {
    for (const segment of model.segments) {
      if (segment.start > position || segment.end <= position) continue;
      const from = model.addressOf(segment.place);
      memory.push([from, from + segment.units * model.data.unit]);
    }
    return memory.sort((a, b) => a[0] - b[0]);
  }
  if (model.reserved) return memory;
  for (let i = 0; i < ranges.starts.length; i += 1) {
    const from = Math.floor(ranges.starts[i] / PAGE) * PAGE;
    const to = Math.ceil(ranges.ends[i] / PAGE) * PAGE;
    const last = memory[memory.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else memory.push([from, to]);
  }
  return memory;
}

/** @param {[number, number][]} memory @param {{ starts: Float64Array, ends: Float64Array }} ranges */
function holesIn(memory, ranges) {
  /** @type {Hole[]} */
  const holes = [];
  const add = (/** @type {number} */ from, /** @type {number} */ to) => {
    if (to > from) holes.push({ from, bytes: to - from });
  };
  let next = 0;
  for (const [start, end] of memory) {
    let free = start;
    while (next < ranges.starts.length && ranges.starts[next] < end) {
      add(free, ranges.starts[next]);
      free = Math.max(free, ranges.ends[next]);
      next += 1;
    }
    add(free, end);
  }
  return holes;
}

/** The largest of some blocks. @param {Model} model @param {Uint32Array} blocks @param {number} count */
function largestOf(model, blocks, count) {
  /** @type {number[]} */
  const largest = [];
  let least = -1;
  for (const block of blocks) {
    if (largest.length === count && model.size[block] <= least) continue;
    let at = largest.length;
    while (at > 0 && model.size[largest[at - 1]] < model.size[block]) at -= 1;
    largest.splice(at, 0, block);
    if (largest.length > count) largest.pop();
    least = model.size[largest[largest.length - 1]];
  }
  return largest;
}
