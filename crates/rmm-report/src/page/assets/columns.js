// The columns of the page: base64, inflated, then numbers of seven bits a byte.

/** @param {string} text @returns {Uint8Array} */
function fromBase64(text) {
  const made = /** @type {any} */ (Uint8Array);
  if (made.fromBase64) return made.fromBase64(text);
  const table = new Uint8Array(128);
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (let i = 0; i < 64; i += 1) table[digits.charCodeAt(i)] = i;
  let length = text.length;
  while (length > 0 && text.charCodeAt(length - 1) === 61) length -= 1;
  const bytes = new Uint8Array(Math.floor((length * 3) / 4));
  let at = 0;
  for (let i = 0; i < length; i += 4) {
    const a = table[text.charCodeAt(i)];
    const b = table[text.charCodeAt(i + 1)];
    const c = i + 2 < length ? table[text.charCodeAt(i + 2)] : 0;
    const d = i + 3 < length ? table[text.charCodeAt(i + 3)] : 0;
    bytes[at] = (a << 2) | (b >> 4);
    bytes[at + 1] = (b << 4) | (c >> 2);
    bytes[at + 2] = (c << 6) | d;
    at += 3;
  }
  return bytes;
}

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
async function inflate(bytes) {
  const part = /** @type {BlobPart} */ (/** @type {unknown} */ (bytes));
  const stream = new Blob([part]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Numbers of seven bits a byte, one after the other. */
class Numbers {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  get isDone() {
    return this.at >= this.bytes.length;
  }

  next() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let number = byte & 127;
    let factor = 128;
    do {
      byte = bytes[this.at++];
      number += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    return number;
  }

  /** A number with a sign. */
  nextSigned() {
    const number = this.next();
    return number % 2 === 1 ? -(number + 1) / 2 : number / 2;
  }

  /** All that are left. @returns {number[]} */
  rest() {
    const numbers = [];
    while (!this.isDone) numbers.push(this.next());
    return numbers;
  }
}

/**
 * What the page says of a view beside its columns; numbers stand for columns.
 * @typedef {{ title: string, log: string, resource: string | null, events: number, blocks: number,
 *   leftOut: { blocks: number, bytes: number } | null, unit: number, page: number, pages: number,
 *   start: number, length: number, size: { plain?: number, table?: number, index?: number },
 *   address: number, stream: number | { all: number }, thread: number | { all: number },
 *   tag: number | { all: number }, site: number | { all: number }, streams: string[],
 *   threads: string[], tags: string[], sites: string[], reserved: number | null, waits: number,
 *   segments: number | null, times: { step: number, column: number } | null,
 *   counted: { at: number, parts: { what: string, bytes: number }[] }[],
 *   failures: { at: number, size: number, text: string, limit: number | null, stream: number, tag: number, site: number }[],
 *   waited: number, peak: number, growth: [number, number, number], growers: [number, number, number][],
 *   tagsGrow: [string, number][] }} ViewData
 */

/** Reads the data of the page; the text of a column leaves the document once it is read. */
async function readPage() {
  const text = document.getElementById("data")?.textContent ?? '{"views":[]}';
  const views = /** @type {ViewData[]} */ (JSON.parse(text).views);
  const scripts = [...document.querySelectorAll("script.column")];
  const columns = await Promise.all(scripts.map((script) => {
    const bytes = inflate(fromBase64(script.textContent ?? ""));
    script.remove();
    return bytes;
  }));
  return { views, columns };
}
