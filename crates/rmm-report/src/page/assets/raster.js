// The map as pixels. Blocks do not overlap, so all of them together cover each pixel once; those
// that are smaller than a pixel add up to the part of it that they cover.

/** The least part of a pixel's colour that a block leaves, so that a single small one is seen. */
const LEAST = 0.3;
/** Blocks of at least so many pixels each way have an edge. */
const EDGED = 5;
/** What is added to a colour's number: for the edge of a block, and for what is not looked for. */
const EDGE = 64;
const FADED = 128;

/**
 * @typedef {{ width: number, height: number, from: number, to: number, low: number, high: number,
 *   x: (position: number) => number, pixels: number[], empty: number, hatch: number, held: number,
 *   coloured: Uint8Array, found: Uint8Array | null }} Drawing
 */

/** @param {Model} model @param {Drawing} drawing */
function rasterise(model, drawing) {
  const { width, height, from, to } = drawing;
  const base = new Uint32Array(width * height);
  ground(model, drawing, base);
  const cover = new Float32Array(width * height);
  const most = new Float32Array(width * height);
  const owner = new Uint8Array(width * height);
  const scale = height / (drawing.high - drawing.low);
  const unit = model.data.unit;
  const draw = (/** @type {number} */ block) => {
    const units = Math.max(1, Math.ceil(model.size[block] / unit));
    const bottom = height - (model.place[block] - drawing.low) * scale;
    const top = bottom - units * scale;
    if (bottom <= 0 || top >= height) return;
    const left = Math.max(0, drawing.x(model.start[block]));
    const right = Math.min(width, drawing.x(Math.min(model.end[block], model.events + 1)));
    if (right <= 0 || left >= width) return;
    const isFaded = drawing.found !== null && drawing.found[block] === 0;
    const mine = drawing.coloured[block] + (isFaded ? FADED : 0);
    const [x0, x1, wx] = pixelsOf(left, right, width);
    const [y0, y1, wy] = pixelsOf(Math.max(0, top), Math.min(height, bottom), height);
    const part = wx * wy;
    const hasEdge = x1 - x0 >= EDGED && y1 - y0 >= EDGED;
    for (let y = y0; y < y1; y += 1) {
      const row = y * width;
      if (part === 1) {
        owner.fill(hasEdge && y === y1 - 1 ? mine + EDGE : mine, row + x0, row + x1);
        if (hasEdge) owner[row + x1 - 1] = mine + EDGE;
        cover.fill(1, row + x0, row + x1);
        most.fill(1, row + x0, row + x1);
        continue;
      }
      for (let x = x0; x < x1; x += 1) {
        cover[row + x] += part;
        if (part > most[row + x]) {
          most[row + x] = part;
          owner[row + x] = mine;
        }
      }
    }
  };
  for (const block of model.liveAt(from)) draw(block);
  const last = model.startedAt(to);
  for (let block = model.startedAt(from); block < last; block += 1) draw(block);
  for (let i = 0; i < base.length; i += 1) {
    if (cover[i] === 0) continue;
    const mine = owner[i];
    const colour = drawing.pixels[mine & (EDGE - 1)];
    let part = Math.min(1, Math.max(LEAST, cover[i]));
    if (mine >= FADED) part *= 0.15;
    else if (mine >= EDGE) part *= 0.65;
    base[i] = part === 1 ? colour : mix(base[i], colour, part);
  }
  return new ImageData(new Uint8ClampedArray(base.buffer), width, height);
}

/** Whole pixels from one edge to another, and the part of each that is covered. @param {number} low @param {number} high @param {number} limit @returns {[number, number, number]} */
function pixelsOf(low, high, limit) {
  if (high - low < 1) {
    const at = Math.min(limit - 1, Math.max(0, Math.floor(low)));
    return [at, at + 1, Math.max(1e-6, high - low)];
  }
  const first = Math.round(low);
  return [first, Math.max(first + 1, Math.round(high)), 1];
}

/** What is below the blocks: memory where it is known, and a hatch where there is none. @param {Model} model @param {Drawing} drawing @param {Uint32Array} base */
function ground(model, drawing, base) {
  const { width, height } = drawing;
  if (!model.segments) {
    base.fill(drawing.empty);
    return;
  }
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      base[y * width + x] = (x + y) % 6 === 0 ? drawing.hatch : drawing.empty;
    }
  }
  const scale = height / (drawing.high - drawing.low);
  for (const segment of model.segments) {
    const x0 = Math.max(0, Math.round(drawing.x(segment.start)));
    const x1 = Math.min(width, Math.round(drawing.x(Math.min(segment.end, model.events + 1))));
    const y1 = Math.min(height, Math.round(height - (segment.place - drawing.low) * scale));
    const y0 = Math.max(0, Math.round(height - (segment.place + segment.units - drawing.low) * scale));
    for (let y = y0; y < y1; y += 1) if (x1 > x0) base.fill(drawing.held, y * width + x0, y * width + x1);
  }
}
