"use strict";
// Numbers for people, and elements of the page. Text goes into elements as text, never as markup.

/** `1234567` as `1,234,567`. @param {number} number */
function thousands(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A size with the unit that suits it. @param {number} bytes */
function sizeText(bytes) {
  const size = Math.abs(bytes);
  const sign = bytes < 0 ? "\u2212" : "";
  if (size < 1024) return `${sign}${Math.round(size)} B`;
  const units = ["KiB", "MiB", "GiB"];
  let unit = 0;
  let value = size / 1024;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const places = unit < 2 ? 1 : 2;
  const [whole, fraction] = value.toFixed(places).split(".");
  return `${sign}${thousands(Number(whole))}.${fraction} ${units[unit]}`;
}

/** A difference of sizes, with its sign. @param {number} bytes */
function changeText(bytes) {
  return bytes === 0 ? "0" : bytes > 0 ? `+${sizeText(bytes)}` : sizeText(bytes);
}

/** `3 blocks`. @param {number} number @param {string} noun */
function countText(number, noun) {
  return `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** A time with the unit that suits it. @param {number} microseconds */
function timeText(microseconds) {
  if (microseconds < 1e4) return `${(microseconds / 1e3).toFixed(2)} ms`;
  if (microseconds < 1e6) return `${(microseconds / 1e3).toFixed(0)} ms`;
  if (microseconds < 1.2e8) return `${(microseconds / 1e6).toFixed(2)} s`;
  return `${(microseconds / 6e7).toFixed(1)} min`;
}

/** A share of a whole, rounded to nearest. @param {number} part @param {number} whole */
function percentText(part, whole) {
  if (whole <= 0) return "0 %";
  const tenths = Math.round((part * 1000) / whole);
  return tenths < 100 ? `${(tenths / 10).toFixed(1)} %` : `${Math.round((part * 100) / whole)} %`;
}

/** A size that a person typed, such as `1.5MiB` or `4096`; NaN if it is none. @param {string} text */
function sizeFrom(text) {
  const match = /^\s*([\d.,]+)\s*([kmgt]?)(i?)b?\s*$/i.exec(text);
  if (!match) return NaN;
  const power = "kmgt".indexOf(match[2].toLowerCase()) + 1;
  return Number(match[1].replace(/,/g, "")) * 1024 ** (match[2] ? power : 0);
}

/**
 * An element with attributes and children.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string | number | boolean | EventListener>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null) element.append(child);
  }
  return element;
}

/**
 * A row of a table: a heading, then cells. A cell in brackets is a number.
 * @param {Node | string} heading
 * @param {...(string | [string])} cells
 */
function makeRow(heading, ...cells) {
  const row = make("tr", {}, make("th", { scope: "row" }, heading));
  for (const cell of cells) {
    if (Array.isArray(cell)) row.append(make("td", { class: "number" }, cell[0]));
    else row.append(make("td", { class: "about" }, cell));
  }
  return row;
}

/** An item of a legend. @param {string} name @param {string} text */
function keyItem(name, text) {
  return make("li", {}, make("i", { class: `swatch k-${name}` }), text);
}

/** A colour of the style sheet. @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
