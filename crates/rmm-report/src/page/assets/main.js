// Puts the pictures on the page, and links them.

/** @param {State} state @param {(what: string) => HTMLElement} add */
function controls(state, add) {
  const home = add("controls");
  const button = (/** @type {string} */ text, /** @type {() => void} */ does, /** @type {string} */ title) =>
    make("button", { type: "button", title, click: does }, text);
  if (state.models.length > 1) {
    const options = state.models.map((model, index) => make("option", { value: index }, model.title));
    const select = make("select", { id: "view" }, ...options);
    select.addEventListener("change", () => state.show(Number(select.value)));
    state.listeners.push((what) => {
      if (what === "view") select.value = String(state.index);
    });
    home.append(make("label", { for: "view" }, "Show "), select);
  }
  if (state.models.some((model) => model.times)) {
    const axis = make("select", { id: "axis" }, make("option", { value: "event" }, "by event"), make("option", { value: "time" }, "by time"));
    axis.addEventListener("change", () => {
      state.byTime = axis.value === "time" && state.model.times !== null;
      state.tell("view");
    });
    state.listeners.push((what) => {
      if (what !== "view") return;
      axis.value = state.byTime ? "time" : "event";
      axis.disabled = state.model.times === null;
    });
    home.append(make("label", { for: "axis" }, "Axis "), axis);
  }
  const colouring = make("select", { id: "colouring" });
  const fill = () => {
    colouring.replaceChildren(...colourings(state.model).map(([by, text]) => make("option", { value: by }, text)));
    colouring.value = state.colouring;
  };
  colouring.addEventListener("change", () => {
    state.colouring = /** @type {Colouring} */ (colouring.value);
    state.tell("colour");
  });
  state.listeners.push((what) => what === "view" && fill());
  fill();
  home.append(make("label", { for: "colouring" }, "Colour "), colouring);
  if (state.model.events === 0) return;
  const group = make("span", { class: "buttons", role: "group", "aria-label": "Zoom and places" },
    button("+", () => state.zoom(0.5), "Zoom in (+)"),
    button("\u2212", () => state.zoom(2), "Zoom out (\u2212)"),
    button("All", () => state.setRange(0, state.whole), "Show all (0)"),
    button("Peak", () => state.moveTo(state.model.data.peak), "Cursor to the peak (p)"));
  const failure = button("First failure", () => state.moveTo(state.model.data.failures[0].at), "Cursor to the first failure (f)");
  state.listeners.push((what) => what === "view" && (failure.hidden = state.model.data.failures.length === 0));
  failure.hidden = state.model.data.failures.length === 0;
  group.append(failure);
  home.append(group);
}

/** The slider below the pictures: the cursor by keys, and the range. @param {State} state @param {HTMLElement} home */
function slider(state, home) {
  const input = make("input", { type: "range", id: "cursor", min: 0, step: 1, "aria-label": "Cursor",
    "aria-describedby": "keys" });
  const keys = make("p", { class: "keys", id: "keys" });
  home.append(input, keys);
  input.addEventListener("input", () => state.moveTo(Number(input.value)));
  input.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.max(1, Math.round((state.to - state.from) / (event.shiftKey ? 20 : 300)));
    const failure = state.model.data.failures[0]?.at;
    /** @type {Record<string, () => void>} */
    const does = {
      ArrowRight: () => state.moveTo(state.cursor + step), ArrowUp: () => state.moveTo(state.cursor + step),
      ArrowLeft: () => state.moveTo(state.cursor - step), ArrowDown: () => state.moveTo(state.cursor - step),
      ".": () => state.moveTo(state.cursor + 1), ",": () => state.moveTo(state.cursor - 1),
      "+": () => state.zoom(0.5), "=": () => state.zoom(0.5), "-": () => state.zoom(2), "0": () => state.setRange(0, state.whole),
      p: () => state.moveTo(state.model.data.peak), f: () => failure !== undefined && state.moveTo(failure),
    };
    if (!does[event.key]) return;
    event.preventDefault();
    does[event.key]();
  });
  const update = () => {
    keys.textContent = "Drag in a picture to zoom, click to set the cursor. Keys on this slider: the arrows move the cursor, with Shift "
      + "further; comma and full stop move it by one event; + and \u2212 zoom, 0 shows all; p goes to the peak"
      + (state.model.data.failures.length > 0 ? ", f to the first failure." : ".");
    input.min = String(state.from);
    input.max = String(Math.min(state.model.events, state.to - 1));
    input.value = String(state.cursor);
    input.setAttribute("aria-valuetext", `${state.say(state.cursor)}, ${sizeText(state.model.live[state.cursor])} live`);
  };
  state.listeners.push(update);
  update();
}

/** @param {State} state @param {HTMLElement} home */
function lineLegend(state, home) {
  const { model } = state;
  const items = [keyItem("live", "live")];
  state.models.forEach((other, index) => {
    const isDashed = other === model ? "" : " dashed";
    if (other.data.log === model.data.log && other.reserved) items.push(keyItem(`h${index % 4}${isDashed}`, `held by ${other.data.resource ?? other.title}`));
  });
  items.push(keyItem("peak", "peak"));
  if (model.data.failures.length > 0) items.push(keyItem("bad", "failure, and what was asked for above what was live"));
  if (model.limit !== null) items.push(keyItem("limit", `limit of ${sizeText(model.limit)}`));
  if ((model.reserved?.length ?? 0) > 1) items.push(keyItem("grow", "more held"));
  if (model.waits.length > 0) items.push(keyItem("wait", "wait"));
  home.replaceChildren(...items);
}

/** What words of pools mean. */
const WORDS = "Kept for graphs: freed while a stream was captured, and reserved until its CUDA graph is gone. "
  + "Asleep: addresses of a pool that was put to sleep, which gave their memory back.";

/** @param {Model} model */
function notes(model) {
  const all = [];
  if (model.data.leftOut) {
    all.push(`The pictures leave out ${countText(model.data.leftOut.blocks, "block")} of at most ${sizeText(model.data.leftOut.bytes)}; the answers above count them.`);
  }
  if (model.data.resource === null && model.events > 0) {
    const held = model.reserved ? "" : "what was held from the driver, nor ";
    all.push(`Addresses are those that were recorded. The log does not say ${held}what was in caches of threads, waiting for a stream, kept for graphs, or asleep. ${WORDS}`);
  }
  if (model.data.counted.length > 0 && model.events > 0) {
    all.push("What is in caches of threads, waits for a stream, is kept for graphs, or is asleep is known at the first failure, at the peak, and where most is held. " + WORDS);
  }
  return all.join(" ");
}

async function start() {
  const home = /** @type {HTMLElement} */ (document.getElementById("picture"));
  const status = /** @type {HTMLElement} */ (document.getElementById("state"));
  const { views, columns } = await readPage();
  if (views.length === 0) return;
  const data = await Promise.all(columns);
  const models = views.map((view) => new Model(view, data));
  const state = new State(models);
  const add = (/** @type {string} */ name, /** @type {HTMLElement} */ to = home) => {
    const element = make("div", { class: name });
    to.append(element);
    return element;
  };
  home.append(make("h2", {}, "The picture"));
  controls(state, add);
  const finder = new Finder(add("finder"), state);
  const grid = add("grid");
  const left = add("left", grid);
  const right = make("section", { class: "moment", "aria-labelledby": "moment-heading" });
  grid.append(right);
  const list = () => {
    const element = make("ul", { class: "legend" });
    left.append(element);
    return element;
  };
  const hasEvents = models.some((model) => model.events > 0);
  if (hasEvents) left.append(make("h3", {}, "Bytes"));
  const bytesAxes = make("p", { class: "axes" });
  if (hasEvents) left.append(bytesAxes);
  const bytesHome = add("picture bytes", left);
  const lines = list();
  const bytes = hasEvents ? new BytesPicture(bytesHome, state) : null;
  const mapAxes = make("p", { class: "axes" });
  left.append(make("h3", {}, "Map of addresses"), mapAxes);
  const map = new MapPicture(add("picture map", left), state, () => state.model, true);
  if (hasEvents) slider(state, add("slider", left));
  const colours = list();
  const note = make("p", { class: "note" });
  left.append(note);
  const heap = new HeapPicture(right, state);
  const who = hasEvents ? new WhoTable(add("who-home"), state) : null;
  const two = models.length > 1 ? new TwoPanel(add("two"), state) : null;
  const drawAll = () => {
    bytes?.draw();
    map.draw();
    heap.draw();
    who?.draw();
    two?.draw();
    if (hasEvents) lineLegend(state, lines);
    map.legend(colours);
    bytesAxes.textContent = `Upwards: bytes. To the right: ${state.acrossText}.`;
    mapAxes.textContent = `Each block is a rectangle. Upwards: addresses, without those that are never used. To the right: ${state.acrossText}.`;
    note.textContent = notes(state.model);
    hints();
  };
  let wanted = 0;
  state.listeners.push((what) => {
    if (what === "view") return drawAll();
    if (what === "colour") {
      map.draw();
      two?.draw();
      return map.legend(colours);
    }
    if (what === "range") {
      bytes?.zoomed();
      map.draw();
      return two?.draw();
    }
    bytes?.moved();
    map.moved();
    heap.draw();
    two?.moved();
    // The table is large, and may come a moment later.
    clearTimeout(wanted);
    wanted = setTimeout(() => who?.draw(), 60);
  });
  drawAll();
  places(state, home);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll();
    width = innerWidth;
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // On paper the pictures have its width and light colours, whatever the screen has.
  const print = (/** @type {boolean} */ isPrinted) => {
    document.documentElement.classList.toggle("printed", isPrinted);
    drawAll();
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", ({ matches }) => print(matches));
  status.textContent = "";
  document.documentElement.dataset.drawn = String(Math.round(performance.now()));
}

/** Marks tables of which a part is out of sight. */
function hints() {
  for (const wide of document.querySelectorAll(".wide")) {
    wide.toggleAttribute("data-more", wide.scrollWidth > wide.clientWidth + 1);
  }
}

/** Places in the answers become buttons that move the cursor there. @param {State} state @param {HTMLElement} home */
function places(state, home) {
  for (const row of document.querySelectorAll("tr[data-at]")) {
    const cell = /** @type {HTMLElement} */ (row.querySelector("th"));
    const text = cell.textContent ?? "";
    const position = Number(row.getAttribute("data-at"));
    const view = Number(row.getAttribute("data-view"));
    if (!state.models[view] || state.models[view].events === 0) continue;
    const go = make("button", { type: "button", class: "link", click: () => {
      if (state.index !== view) state.show(view);
      state.moveTo(position);
      home.scrollIntoView();
    } }, text);
    go.setAttribute("aria-label", `${text}: show event ${position} in the picture`);
    cell.replaceChildren(go);
  }
}

start().catch((error) => {
  const status = document.getElementById("state");
  if (status) status.textContent = `The picture could not be drawn: ${error}. The answers above are complete.`;
  throw error;
});
