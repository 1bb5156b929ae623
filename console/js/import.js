// The page that stores the documents of a file: streamed in chunks, with progress, the invalid lines, and
// a way to stop and to go on.

import { guard } from "./access.js";
import { at, check, send, Unreachable } from "./api.js";
import {
  button,
  choice,
  field,
  figure,
  fill,
  h,
  notice,
  say,
  show,
  tableHead,
  translated,
} from "./dom.js";
import { bytes, number, percent, span } from "./format.js";
import { formatOf, records } from "./lines.js";
import { chosenName, load, onPick } from "./pick.js";
import { isAborted, problem } from "./problems.js";

// A request has at most this many characters of documents, and at most this many documents.
const CHARACTERS = 1 << 20;
const DOCUMENTS = 2000;
// Invalid lines that are listed; all are counted.
const LISTED = 200;
// If none of the first lines is a document, the file has another format.
const FIRST = 50;
// Times that a chunk is offered to a busy server, and the longest wait in seconds between two of them.
const PATIENCE = 30;
const WAIT = 10;

// Builds the page.
export function create() {
  const text = h("input", { type: "text", class: "mono short", value: "text", spellcheck: "false" });
  const id = h("input", { type: "text", class: "mono short", value: "id", spellcheck: "false" });
  const k = h("input", { type: "number", min: "0", max: "256", class: "short", disabled: true });
  const file = h("input", { type: "file", accept: ".jsonl,.ndjson,.json,.csv,.tsv,.gz", class: "sr" });
  const named = h("p", { class: "lead", t: "import.drop" });
  const run = button("import.run", () => begin(), { class: "primary" });
  const stop = button("import.cancel", () => job?.stop(), { class: "quiet" });
  const state = h("div", {});
  const target = h("p", { class: "note" });
  let rule = "store";
  let picked = null;
  let job = null;
  let isRunning = false;
  const drop = h(
    "label",
    { class: "dropzone" },
    file,
    named,
    h("p", { class: "note", t: "import.formats" }),
  );
  const reason = guard(run, "write", chosenName);
  const duplicates = choice(
    "import.duplicates",
    [
      ["store", "import.store"],
      ["skip", "import.skip"],
    ],
    rule,
    (value) => {
      rule = value;
      k.disabled = value !== "skip";
    },
  );
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "import.title" }), h("p", { t: "import.intro" })),
    h(
      "section",
      { class: "panel" },
      drop,
      h(
        "div",
        { class: "row fields" },
        field("import.text", text),
        field("import.id", id),
        h("div", { class: "field" }, h("span", { class: "label", t: "import.duplicates" }), duplicates),
        field("import.k", k),
      ),
      h("div", { class: "row actions" }, run, stop, target),
      reason,
    ),
    state,
  );
  onPick(() => {
    say(target, ["import.target", { name: chosenName() }]);
    fit();
  });
  file.addEventListener("change", () => file.files[0] && pick(file.files[0]));
  for (const [event, isOver] of [
    ["dragover", true],
    ["dragleave", false],
    ["drop", false],
  ]) {
    node.addEventListener(event, (dropped) => {
      dropped.preventDefault();
      drop.classList.toggle("over", isOver);
      if (event === "drop" && dropped.dataTransfer.files[0]) pick(dropped.dataTransfer.files[0]);
    });
  }

  function pick(chosen) {
    picked = chosen;
    say(named, [
      "import.picked",
      { name: chosen.name, size: () => bytes(chosen.size), format: formatOf(chosen.name).toUpperCase() },
    ]);
    fill(state);
  }

  function begin() {
    if (isRunning) return;
    if (!picked) return fill(state, notice("warn", h("span", { t: "import.nofile" })));
    const settings = { fields: { text: text.value.trim(), id: id.value.trim() }, rule, k: k.value };
    job = importJob(picked, chosenName(), settings, ran);
    fill(state, job.node);
    job.run();
  }

  // Shows whether an import runs. Afterwards the numbers of the collections are read again.
  function ran(isNow) {
    isRunning = isNow;
    fit();
    if (!isNow) load().catch(() => {});
  }

  function fit() {
    run.checkAccess();
    run.disabled ||= isRunning;
    show(stop, isRunning);
  }

  return { node };
}

// One import: its counts, and the place where they are shown.
function importJob(file, collection, { fields, rule, k }, ran) {
  const counts = { read: 0, lines: 0, created: 0, updated: 0, duplicates: 0, errors: 0 };
  const stopping = new AbortController();
  const query = rule === "skip" ? `?on_duplicate=skip${k === "" ? "" : `&k=${k}`}` : "";
  const path = at(collection, `/documents${query}`);
  const bar = h("progress", {
    max: String(Math.max(1, file.size)),
    value: "0",
    label: "import.progress",
  });
  const line = h("p", { class: "lead", "aria-live": "polite" });
  const rate = h("p", { class: "note" });
  const wait = h("p", { class: "note" });
  const invalid = h("tbody", {});
  const list = h(
    "div",
    { class: "scroll tall", tabindex: "0", role: "region", label: "import.invalid", hidden: true },
    h("table", {}, tableHead(["import.line", "import.why"]), invalid),
  );
  const end = h("div", {});
  const facts = ["created", "updated", "duplicates", "errors"];
  const figures = h(
    "dl",
    { class: "figures" },
    facts.map((name) =>
      figure(
        `import.count.${name}`,
        translated(() => number(counts[name])),
      ),
    ),
  );
  const node = h("section", { class: "panel" }, line, bar, rate, wait, figures, end, list);
  const reading = records(file, fields, (read) => {
    counts.read = read;
  });
  let began = 0;
  let spent = 0;
  let pending = [];
  let place = 0;
  let header = null;

  function draw(message) {
    const seconds = spent + (performance.now() - began) / 1000;
    const done = counts.created + counts.updated + counts.duplicates + counts.errors;
    bar.value = counts.read;
    say(
      line,
      message ?? [
        "import.running",
        { n: counts.lines, share: () => percent(counts.read / Math.max(1, file.size)) },
      ],
    );
    const facts = {
      docs: () => number(done / seconds),
      size: () => bytes(counts.read / seconds),
      time: () => span(seconds),
    };
    say(rate, seconds > 0.2 ? ["import.rate", facts] : null);
    figures.querySelectorAll("dd span").forEach((one) => one.translated.text());
  }

  function addInvalid(place_, message, detail = "") {
    counts.errors += 1;
    list.hidden = false;
    if (invalid.childElementCount >= LISTED) return;
    const why = h("td", {}, message && h("span", { t: message }), message && detail && " ", detail);
    invalid.append(h("tr", {}, h("th", { scope: "row", class: "num" }, String(place_)), why));
  }

  // Stores a chunk. A busy server is offered it again; a chunk that may have been stored is not.
  async function store(chunk) {
    const lines = chunk.records.map((record) => record.line);
    const body = [...(chunk.header ? [chunk.header] : []), ...lines].map((line) => `${line}\n`).join("");
    for (let attempt = 1; ; attempt += 1) {
      const response = await send("POST", path, {
        body,
        type: "application/x-ndjson",
        signal: stopping.signal,
      });
      const isBusy = response.status === 429 || response.status === 503;
      if (!isBusy || attempt === PATIENCE) return take(chunk, await check(response));
      const seconds = Math.min(WAIT, Number(response.headers.get("retry-after")) || 1);
      say(wait, ["import.waiting", { time: () => span(seconds) }]);
      await response.text();
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
      stopping.signal.throwIfAborted();
    }
  }

  async function take(chunk, response) {
    say(wait, null);
    const first = chunk.header ? 1 : 0;
    let listed = 0;
    for (const text of (await response.text()).split("\n")) {
      if (text === "") continue;
      const { index, error, summary } = JSON.parse(text);
      if (error) {
        listed += 1;
        addInvalid(chunk.records[index - first].number, null, error.detail);
      }
      if (!summary) continue;
      counts.created += summary.created;
      counts.updated += summary.updated;
      counts.duplicates += summary.duplicates;
      counts.errors += summary.errors - listed;
    }
  }

  // The next records, at most a request of them, with the header of an export that holds for them; `null` at
  // the end of the file.
  async function next() {
    const found = [];
    const chunk = () => ({ header, records: found });
    let length = 0;
    while (length < CHARACTERS && found.length < DOCUMENTS) {
      if (place === pending.length) {
        const { done, value } = await reading.next();
        if (done) return found.length > 0 ? chunk() : null;
        [pending, place] = [value, 0];
        continue;
      }
      const record = pending[place];
      if (record.header && found.length > 0) return chunk();
      place += 1;
      if (record.header) {
        header = record.header;
        continue;
      }
      counts.lines += 1;
      if (record.error) addInvalid(record.number, [record.error, record.values ?? {}], record.detail);
      else {
        found.push(record);
        length += record.line.length;
      }
      if (counts.lines === FIRST && counts.errors === FIRST)
        throw Object.assign(new Error("format"), { isFormat: true });
    }
    return chunk();
  }

  let held = null;

  async function run() {
    began = performance.now();
    ran(true);
    fill(end);
    try {
      for (held ??= await next(); held; held = await next()) {
        stopping.signal.throwIfAborted();
        if (held.records.length > 0) await store(held);
        draw();
      }
      const isNothing = counts.created + counts.updated + counts.duplicates === 0;
      if (counts.lines === 0) fill(end, notice("warn", h("span", { t: "import.empty" })));
      else if (isNothing && formatOf(file.name) === "jsonl")
        fill(end, notice("bad", h("span", { t: "import.format" })));
      draw(["import.done", { n: counts.lines }]);
    } catch (error) {
      failed(error);
    }
    spent += (performance.now() - began) / 1000;
    ran(false);
  }

  function failed(error) {
    if (isAborted(error)) return draw(["import.cancelled", { n: counts.lines }]);
    draw(["import.stopped", { n: counts.lines }]);
    if (error.isFormat) return fill(end, notice("bad", h("span", { t: "import.format" })));
    if (error instanceof TypeError)
      return fill(end, notice("bad", h("span", { t: "import.damaged" }), " ", error.message));
    const again = held && button("import.again", () => run());
    const note =
      held && error instanceof Unreachable && h("p", { class: "note", t: "import.again.note" });
    fill(end, problem(error), note, again);
  }

  return { node, run, stop: () => stopping.abort() };
}
