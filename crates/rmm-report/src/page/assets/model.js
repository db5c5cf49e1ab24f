// A view in memory: its blocks as arrays, and what is live at any position.
//
// Position 0 is before the first event, position n after the nth.

const NEVER = 0xffffffff;
/** The pages in which memory could be given back. */
const PAGE = 2 << 20;
/** How many positions one entry of a level stands for, of the level below. */
const FAN = 16;

class Model {
  /** @param {ViewData} data @param {Uint8Array[]} columns */
  constructor(data, columns) {
    this.data = data;
    this.title = data.title;
    this.events = data.events;
    this.count = data.blocks;
    const numbers = (/** @type {number} */ column) => new Numbers(columns[column]);
    this.start = new Uint32Array(this.count);
    this.end = new Uint32Array(this.count);
    this.size = new Float64Array(this.count);
    this.place = new Float64Array(this.count);
    this.readBlocks(numbers);
    this.pages = Float64Array.from(sums(numbers(data.pages).rest()));
    this.pageUnits = data.page / data.unit;
    this.span = Math.max(1, this.pages.length) * this.pageUnits;
    const column = (/** @type {number | { all: number }} */ column) => {
      if (typeof column !== "number") return new Uint32Array(this.count).fill(column.all);
      return Uint32Array.from(numbers(column).rest());
    };
    this.columns = { stream: data.stream, thread: data.thread, tag: data.tag, site: data.site };
    this.stream = column(data.stream);
    this.thread = column(data.thread);
    this.tag = column(data.tag);
    this.site = column(data.site);
    this.reserved = data.reserved === null ? null : changesOf(numbers(data.reserved));
    this.waits = changesOf(numbers(data.waits));
    this.segments = data.segments === null ? null : segmentsOf(numbers(data.segments));
    this.times = data.times ? Float64Array.from(sums(numbers(data.times.column).rest())) : null;
    this.timeStep = data.times ? data.times.step : 1;
    /** The limit at which the first request failed, if one is known. @type {number | null} */
    this.limit = data.failures.find(({ limit }) => limit !== null)?.limit ?? null;
    this.live = this.addUp();
    this.levels = levelsOf(this.live);
    /** @type {{ index: number, live: Uint32Array }[]} */
    this.checkpoints = [{ index: 0, live: new Uint32Array(0) }];
    this.setCheckpoints();
  }

  /** @param {(column: number) => Numbers} numbers */
  readBlocks(numbers) {
    const { data, count } = this;
    const starts = numbers(data.start);
    const lengths = numbers(data.length);
    const addresses = numbers(data.address);
    const table = data.size.table === undefined ? null : numbers(data.size.table).rest();
    const sizes = numbers(/** @type {number} */ (data.size.plain ?? data.size.index));
    let start = 0;
    let place = 0;
    for (let i = 0; i < count; i += 1) {
      start += starts.next();
      place += addresses.nextSigned();
      const length = lengths.next();
      const size = sizes.next();
      this.start[i] = start;
      this.end[i] = length === 0 ? NEVER : start + length;
      this.size[i] = table ? table[size] : size;
      this.place[i] = place;
    }
  }

  /** Microseconds from the first event to a position, on straight lines between what is known. @param {number} position */
  timeOf(position) {
    if (!this.times) return position;
    const last = this.times.length - 1;
    const index = Math.max(0, position - 1);
    const at = Math.min(last, Math.floor(index / this.timeStep));
    if (at >= last) return this.times[last];
    const from = at * this.timeStep;
    const to = Math.min(this.events - 1, from + this.timeStep);
    const part = to > from ? Math.min(1, (index - from) / (to - from)) : 0;
    return this.times[at] + (this.times[at + 1] - this.times[at]) * part;
  }

  /** The position at a time. @param {number} time */
  positionAt(time) {
    let [low, high] = [0, this.events];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.timeOf(middle) < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Live bytes at each position. */
  addUp() {
    const live = new Float64Array(this.events + 1);
    for (let i = 0; i < this.count; i += 1) {
      const bytes = aligned(this.size[i]);
      live[this.start[i]] += bytes;
      if (this.end[i] <= this.events) live[this.end[i]] -= bytes;
    }
    for (let p = 1; p < live.length; p += 1) live[p] += live[p - 1];
    return live;
  }

  /** The least and the most that is live at positions from one up to another, it excluded. @param {number} from @param {number} to */
  extremes(from, to) {
    let [least, most, at] = [Infinity, 0, from];
    while (at < to) {
      let [level, size] = [0, 1];
      while (level + 1 < this.levels.length && at % (size * FAN) === 0 && at + size * FAN <= to) {
        level += 1;
        size *= FAN;
      }
      const entry = at / size;
      least = Math.min(least, this.levels[level].least[entry]);
      most = Math.max(most, this.levels[level].most[entry]);
      at += size;
    }
    return { least, most };
  }

  /** Lists of what is live, at so many blocks that lists are no longer than what lies between. */
  setCheckpoints() {
    let next = 1 << 14;
    while (next < this.count) {
      const live = this.liveAt(this.start[next], next);
      this.checkpoints.push({ index: next, live });
      next += Math.max(1 << 14, live.length);
    }
  }

  /** How many blocks start at a position or before it. @param {number} position */
  startedAt(position) {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The blocks that are live at a position. @param {number} position @param {number} [below] only blocks below this one */
  liveAt(position, below) {
    const started = Math.min(below ?? this.count, this.startedAt(position));
    let [low, high] = [0, this.checkpoints.length];
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      const index = this.checkpoints[middle].index;
      if (index <= started && this.start[index] <= position) low = middle;
      else high = middle;
    }
    const { index, live } = this.checkpoints[low];
    const found = new Uint32Array(live.length + Math.max(0, started - index));
    let length = 0;
    for (const block of live) if (this.end[block] > position) found[length++] = block;
    for (let block = index; block < started; block += 1) {
      if (this.end[block] > position) found[length++] = block;
    }
    return found.subarray(0, length);
  }

  /** What is held at a position, if it is known. @param {number} position */
  reservedAt(position) {
    if (!this.reserved) return null;
    const after = firstAfter(this.reserved, position);
    return after > 0 ? this.reserved[after - 1][1] : 0;
  }

  /** The address of a place. @param {number} place */
  addressOf(place) {
    const rank = Math.min(this.pages.length - 1, Math.floor(place / this.pageUnits));
    return this.pages[rank] * this.data.page + (place - rank * this.pageUnits) * this.data.unit;
  }

  /** What there is to say of a block. @param {number} block */
  describe(block) {
    const data = this.data;
    const ended = this.end[block] === NEVER;
    return {
      size: this.size[block],
      stream: data.streams[this.stream[block]] ?? "",
      thread: data.threads[this.thread[block]] ?? "",
      tag: data.tags[this.tag[block]] ?? "",
      site: data.sites[this.site[block]] ?? "",
      address: `0x${this.addressOf(this.place[block]).toString(16)}`,
      from: this.start[block],
      to: ended ? null : this.end[block],
    };
  }
}

/** Positions and values, each as the difference from the one before. @param {Numbers} reader */
function changesOf(reader) {
  /** @type {[number, number][]} */
  const pairs = [];
  let [position, value] = [0, 0];
  while (!reader.isDone) {
    position += reader.next();
    value += reader.nextSigned();
    pairs.push([position, value]);
  }
  return pairs;
}

/** Memory by address over time. @param {Numbers} reader */
function segmentsOf(reader) {
  const segments = [];
  while (!reader.isDone) {
    const [start, end] = [reader.next(), reader.next()];
    segments.push({ start, end: end || NEVER, place: reader.next(), units: reader.next() });
  }
  return segments;
}

/** The extremes of so many values, of so many of these, and so on. @param {Float64Array} values */
function levelsOf(values) {
  const levels = [{ least: values, most: values }];
  for (let below = levels[0]; below.most.length > FAN; below = levels[levels.length - 1]) {
    const length = Math.ceil(below.most.length / FAN);
    const level = { least: new Float64Array(length).fill(Infinity), most: new Float64Array(length) };
    for (let i = 0; i < below.most.length; i += 1) {
      const to = Math.floor(i / FAN);
      if (below.most[i] > level.most[to]) level.most[to] = below.most[i];
      if (below.least[i] < level.least[to]) level.least[to] = below.least[i];
    }
    levels.push(level);
  }
  return levels;
}

/** @param {number[]} differences */
function sums(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

/** A size rounded up to the alignment of every allocation. @param {number} size */
function aligned(size) {
  return Math.ceil(size / 256) * 256;
}

/** The index of the first pair after a position. @param {[number, number][]} pairs @param {number} position */
function firstAfter(pairs, position) {
  let [low, high] = [0, pairs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pairs[middle][0] <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}
