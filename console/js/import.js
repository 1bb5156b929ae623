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
import { t } from "./i18n.js";
import { isImage } from "./image.js";
import { formatOf, records } from "./lines.js";
import { chosen, chosenName, load, onPick } from "./pick.js";
import { counted, preview, reasons } from "./preview.js";
import { isAborted, problem } from "./problems.js";
import { address } from "./route.js";
import { jsonLines, save } from "./save.js";

// A request has at most this many characters of documents, and at most this many documents.
const CHARACTERS = 1 << 20;
const DOCUMENTS = 2000;
// Invalid lines that are listed; all are counted.
const LISTED = 200;
// Refused records that can be had as a file.
const SAVED = 10_000;
// If none of the first lines is a document, the file has another format.
const FIRST = 50;
// Times that a chunk is offered to a busy server, and the longest wait in seconds between two of them.
const PATIENCE = 30;
const WAIT = 10;

// The pages that go on with what was stored.
const NEXT = ["documents", "review", "clusters"];

// Builds the page.
export function create() {
  let isSkip = false;
  const k = h("input", { type: "number", min: "0", max: "256", class: "short", disabled: true });
  // The parameters of the import for near-duplicates, also those of its dry run.
  const rule = () => (isSkip ? { on_duplicate: "skip", ...(k.value === "" ? {} : { k: k.value }) } : {});
  const before = preview(rule);
  k.addEventListener("change", () => before.compare());
  const accept = ".jsonl,.ndjson,.json,.csv,.tsv,.gz,.parquet,image/jpeg,image/png,image/webp,image/gif";
  const file = h("input", { type: "file", accept, class: "sr", multiple: true });
  const named = h("p", { class: "lead", t: "import.drop" });
  const run = button("import.run", () => begin(), { class: "primary" });
  const stop = button("import.cancel", () => job?.stop(), { class: "quiet" });
  const state = h("div", {});
  const target = h("span", {});
  const textless = h(
    "span",
    { hidden: true },
    h("span", { t: "import.notexts" }),
    " ",
    h("a", { href: address("collections"), t: "find.notexts.link" }),
  );
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
    "store",
    (value) => {
      isSkip = value === "skip";
      k.disabled = !isSkip;
      before.compare();
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
        h("div", { class: "field" }, h("span", { class: "label", t: "import.duplicates" }), duplicates),
        field("import.k", k),
      ),
      h("div", { class: "row actions" }, run, stop, h("p", { class: "note" }, target, " ", textless)),
      reason,
    ),
    before.node,
    state,
  );
  onPick(() => {
    say(target, ["import.target", { name: chosenName() }]);
    show(textless, chosen()?.keep_text === false);
    before.fit();
    fit();
  });
  file.addEventListener("change", () => {
    if (file.files[0]) pick([...file.files]);
    // The same file can be chosen again, after a change of it.
    file.value = "";
  });
  for (const [event, isOver] of [
    ["dragover", true],
    ["dragleave", false],
    ["drop", false],
  ]) {
    node.addEventListener(event, (dropped) => {
      dropped.preventDefault();
      drop.classList.toggle("over", isOver);
      if (event === "drop" && dropped.dataTransfer.files[0]) pick([...dropped.dataTransfer.files]);
    });
  }

  function pick(files) {
    fill(state);
    const images = files.filter(isImage);
    if (images.length > 0) {
      picked = images;
      before.close();
      return say(named, ["import.images", { n: images.length }]);
    }
    const chosen = files[0];
    picked = chosen;
    say(named, [
      "import.picked",
      { name: chosen.name, size: () => bytes(chosen.size), format: formatOf(chosen.name).toUpperCase() },
    ]);
    before.open(chosen);
  }

  async function begin() {
    if (isRunning) return;
    if (!picked) return fill(state, notice("warn", h("span", { t: "import.nofile" })));
    if (Array.isArray(picked)) {
      const { imageJob } = await import("./pictures.js");
      job = imageJob(picked, chosenName(), rule(), ran);
      fill(state, job.node);
      return job.run();
    }
    await before.ready();
    before.stop();
    const settings = { fields: before.fields(), form: before.form(), rule: rule() };
    job = importJob(picked, chosenName(), settings, ran);
    fill(state, job.node);
    job.run();
  }

  // Shows whether an import runs. Afterwards the numbers of the collections are read again, and a file that
  // is stored is not offered again.
  function ran(isNow, isDone) {
    isRunning = isNow;
    if (isDone) {
      picked = null;
      say(named, "import.drop");
      before.close();
    }
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

// Where to go on with what was stored.
export function nextSteps(collection) {
  const step = (page) =>
    h("a", { class: "small", href: address(page, { collection }), t: `import.then.${page}` });
  return h("div", { class: "row" }, h("span", { t: "import.then" }), NEXT.map(step));
}

// One import: its counts, and the place where they are shown.
function importJob(file, collection, { fields, form, rule }, ran) {
  const counts = { read: 0, lines: 0, created: 0, updated: 0, duplicates: 0, errors: 0 };
  const stopping = new AbortController();
  const path = at(collection, `/documents?${new URLSearchParams(rule)}`);
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
    { class: "scroll tall refused", tabindex: "0", role: "region", label: "import.invalid", hidden: true },
    h("table", {}, tableHead(["import.line", "import.why"]), invalid),
  );
  const end = h("div", {});
  const refused = [];
  const why = h("div", {});
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
  const then = h("div", {});
  const node = h("section", { class: "panel" }, line, bar, rate, wait, figures, then, end, why, list);
  const onBytes = (read) => {
    counts.read = read;
  };
  const reading = records(file, fields, onBytes, form);
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

  function addInvalid(record, message, detail = "") {
    counts.errors += 1;
    const { number: place_, line, object } = record;
    const words = message ? `${t(...message)} ${detail}`.trim() : detail;
    if (refused.length < SAVED) refused.push({ line: place_, why: words, record: object ?? line });
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
    const answer = await response.text().catch((error) => {
      throw isAborted(error) ? error : new Unreachable();
    });
    for (const text of answer.split("\n")) {
      if (text === "") continue;
      const { index, error, summary } = JSON.parse(text);
      if (error) {
        listed += 1;
        addInvalid(chunk.records[index - first], null, error.detail);
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
      if (record.error) addInvalid(record, [record.error, record.values ?? {}], record.detail);
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
      fill(then, nextSteps(collection));
      explain();
      ran(false, true);
    } catch (error) {
      failed(error);
      ran(false, false);
    }
    spent += (performance.now() - began) / 1000;
  }

  // The reasons of what was refused, and the rows as a file.
  function explain() {
    if (refused.length === 0) return;
    const file_ = () => save(`${file.name}.refused.jsonl`, jsonLines(refused), "application/x-ndjson");
    const saving = button("import.refused", file_, { class: "quiet" });
    fill(why, reasons(counted(refused.map((one) => one.why))), h("div", { class: "row" }, saving));
  }

  function failed(error) {
    explain();
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
