// What will happen to a file before it does: its first rows, what its columns become, its charset and
// delimiter, and how many of its documents are copies: of the first ones at once, then of all.

import { at, call } from "./api.js";
import { CHARSETS, DELIMITERS, fieldsOf, formOf } from "./detect.js";
import { button, field, fill, h, say, show } from "./dom.js";
import { foresee } from "./foresee.js";
import { t } from "./i18n.js";
import { asLine } from "./headlines.js";
import { formatOf, isMember, records } from "./lines.js";
import { about } from "./parquet.js";
import { chosenName } from "./pick.js";
import { problem } from "./problems.js";
import { jsonLines, save } from "./save.js";

// Records that are read, rows that are shown, and characters of documents in the dry run and of a cell.
const FIRST = 200;
const ROWS = 8;
const MOST = 512 * 1024;
const CELL = 80;
const NAMES = { "\t": "preview.tab" };

const option = (value, message) =>
  message ? h("option", { value, t: message }) : h("option", { value }, value);

// The preview. `rule` has the parameters of the import for near-duplicates: none, or `skip` and perhaps k.
export function preview(rule) {
  const node = h("section", { class: "panel", hidden: true });
  const charset = h(
    "select",
    {},
    CHARSETS.map((name) => option(name)),
  );
  const delimiter = h(
    "select",
    {},
    DELIMITERS.map((name) => option(name, NAMES[name])),
  );
  const text = h("select", {});
  const id = h("select", {});
  const rest = h("input", { type: "checkbox", checked: true });
  const delimiterField = field("preview.delimiter", delimiter);
  const charsetField = field("preview.charset", charset);
  const found = h("div", { "aria-live": "polite" });
  const whole = h("div", {});
  const leftOut = h("p", { class: "note", hidden: true });
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", label: "preview.rows" });
  let file = null;
  let turn = 0;
  let ready = Promise.resolve();
  let of = chosenName();
  fill(
    node,
    h("h2", { t: "preview.title" }),
    h(
      "div",
      { class: "row fields" },
      field("import.text", text),
      field("import.id", id),
      charsetField,
      delimiterField,
      h("label", { class: "tick" }, rest, h("span", { t: "preview.rest" })),
    ),
    leftOut,
    found,
    whole,
    table,
  );
  [charset, delimiter].forEach((one) => one.addEventListener("change", () => look(true)));
  [text, id, rest].forEach((one) => one.addEventListener("change", () => look(false)));

  const form = () => ({ charset: charset.value, delimiter: delimiter.value });
  const fields = () => ({ text: text.value, id: id.value, rest: rest.checked });

  async function firstRecords() {
    const all = [];
    for await (const some of records(file, fields(), () => {}, { ...form(), isFirst: true })) {
      all.push(...some.filter((record) => !record.header));
      if (all.length >= FIRST) break;
    }
    return all.slice(0, FIRST);
  }

  // Reads the first records; with new columns, those with text and id are guessed again.
  async function look(isNew, known = () => {}) {
    turn += 1;
    const own = turn;
    fill(whole);
    try {
      let all = await firstRecords();
      if (own !== turn) return;
      if (isNew) {
        offer(all.map((record) => record.object).filter(Boolean));
        all = await firstRecords();
        known();
      }
      if (own !== turn) return;
      draw(all, []);
      const lists = about(file).left_out;
      show(leftOut, lists.length > 0);
      if (lists.length > 0) say(leftOut, ["preview.leftout", { names: lists.join(", ") }]);
      const isAll = await dryRun(all, own);
      if (isAll === false) wholeRun(own).catch((error) => own === turn && fill(whole, problem(error)));
    } catch (error) {
      if (own !== turn) return;
      if (error instanceof TypeError) fill(found, h("p", { class: "note", t: "import.damaged" }));
      else fill(found, problem(error));
    }
  }

  function offer(objects) {
    const columns = [...new Set(objects.flatMap((one) => Object.keys(one)))];
    const guessed = fieldsOf(columns, objects);
    fill(
      text,
      option("", "preview.notext"),
      columns.map((name) => option(name)),
    );
    fill(
      id,
      option("", "preview.noid"),
      columns.map((name) => option(name)),
    );
    [text.value, id.value] = [guessed.text, guessed.id];
  }

  function draw(all, results) {
    const objects = all.filter((record) => record.object);
    const columns = [...new Set(objects.flatMap((record) => Object.keys(record.object)))];
    const role = (name) => {
      if (name === text.value) return "preview.is.text";
      if (name === id.value) return "preview.is.id";
      if (isMember(name)) return "preview.is.known";
      return rest.checked ? "preview.is.metadata" : "preview.is.nothing";
    };
    const head = columns.map((name) =>
      h("th", { scope: "col" }, name, h("div", { class: "note", t: role(name) })),
    );
    const rows = all
      .slice(0, ROWS)
      .map((record, place) =>
        h(
          "tr",
          {},
          h("th", { scope: "row", class: "num" }, String(record.number)),
          record.object
            ? columns.map((name) => h("td", { dir: "auto" }, short(record.object[name])))
            : h("td", { colspan: String(columns.length || 1), t: [record.error, record.values ?? {}] }),
          h("td", {}, state(results[place], isSkip())),
        ),
      );
    fill(
      table,
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", class: "num", t: "import.line" }),
            head,
            h("th", { scope: "col", t: "preview.becomes" }),
          ),
        ),
        h("tbody", {}, rows),
      ),
    );
  }

  // Asks the server what would become of the first documents. Returns whether these are all.
  async function dryRun(all, own) {
    const wanted = [];
    let length = 0;
    all.forEach((record, place) => {
      if (!record.line || length > MOST) return;
      length += record.line.length;
      wanted.push({ place, line: record.line });
    });
    if (all.length === 0) {
      fill(found, h("p", { class: "none", t: "import.empty" }));
      return true;
    }
    fill(found, h("p", { class: "note", t: "preview.asking" }));
    const body = `[${wanted.map((one) => one.line).join(",")}]`;
    const answer = await call("POST", at(chosenName(), `/preview/documents?${new URLSearchParams(rule())}`), {
      body,
      type: "application/json",
    });
    if (own !== turn) return true;
    const results = [];
    wanted.forEach(({ place }, index) => {
      results[place] = answer.results[index];
    });
    const unread = all.filter((record) => !record.line);
    const facts = {
      n: wanted.length + unread.length,
      fresh: answer.new,
      known: answer.known,
      stored: answer.near_stored,
      earlier: answer.near_earlier,
      errors: answer.errors + unread.length,
      ...bySkip(answer.results),
    };
    const why = [
      ...unread.map((record) => [record.error, record.values ?? {}]),
      ...answer.results.filter((one) => one.error).map((one) => one.error.detail),
    ];
    const isAll = all.length < FIRST && wanted.length + unread.length === all.length;
    draw(all, results);
    fill(found, told(isAll, facts), reasons(counted(why)));
    return isAll;
  }

  // Compares all documents, with a bar and a way to stop.
  async function wholeRun(own) {
    const of = file;
    const bar = h("progress", { max: String(Math.max(1, of.size)), value: "0", label: "preview.whole" });
    const line = h("p", { class: "note", "aria-live": "off" });
    const stop = button("preview.stop", () => end(), { class: "quiet" });
    fill(whole, h("div", { class: "row" }, line, h("span", { class: "grow" }), stop), bar);
    const result = await foresee(of, fields(), form(), rule(), {
      isOver: () => own !== turn,
      progress: ({ counts }, bytes) => {
        if (own !== turn) return;
        bar.value = bytes;
        say(line, ["preview.running", counts]);
      },
    });
    if (!result || own !== turn) return;
    const file_ = () => {
      const lines = result.invalid.map(({ record, why }) => ({
        line: record.number,
        why: Array.isArray(why) ? t(...why) : why,
        record: record.object ?? record.line,
      }));
      save(`${of.name}.invalid.jsonl`, jsonLines(lines), "application/x-ndjson");
    };
    fill(
      found,
      told(true, result.counts),
      reasons(result.reasons),
      result.invalid.length > 0 && button("preview.save", file_, { class: "quiet" }),
    );
    fill(whole);
  }

  function end() {
    turn += 1;
    fill(whole);
  }

  const isSkip = () => "on_duplicate" in rule();
  const told = (isAll, facts) => {
    const by = isSkip() ? "skip" : "store";
    return h("p", { class: "lead", t: [isAll ? `preview.found.${by}` : `preview.first.${by}`, facts] });
  };

  return {
    node,
    form,
    fields,
    // Resolves when the fields of the file are known.
    ready: () => ready,
    // Ends the dry run.
    stop: end,
    // Shows a file.
    open(chosen) {
      ready = begin(chosen);
    },
    // Compares by another rule.
    compare() {
      if (file) look(false);
    },
    // Ends the preview of a file that is stored now.
    close() {
      end();
      show(node, false);
      file = null;
    },
    // Compares with another collection.
    fit() {
      if (file && of !== chosenName()) look(false);
      of = chosenName();
    },
  };

  async function begin(chosen) {
    file = chosen;
    show(node, true);
    fill(table);
    const guessed = await formOf(file).catch(() => ({ charset: "utf-8", delimiter: "," }));
    [charset.value, delimiter.value] = [guessed.charset, guessed.delimiter];
    show(delimiterField, ["csv", "tsv"].includes(formatOf(file.name)));
    show(charsetField, formatOf(file.name) !== "parquet");
    await new Promise((done) => look(true, done).finally(done));
  }
}

const short = (value) => {
  const line = value === undefined ? "" : asLine(value);
  return line.length > CELL ? `${line.slice(0, CELL)}\u2026` : line;
};

// Whether a document is left out if near-duplicates are.
const isLeftOut = (one) => Boolean(one.near_stored) || one.near_earlier !== undefined;

// How many are left out if near-duplicates are, and how many then replace stored ones.
export function bySkip(results) {
  const valid = results.filter((one) => !one.error);
  const left = valid.filter(isLeftOut).length;
  return { left, replaced: valid.filter((one) => one.known && !isLeftOut(one)).length };
}

// What becomes of one row.
function state(result, isSkip) {
  if (!result) return null;
  if (result.error) return h("span", { class: "tag bad" }, result.error.detail);
  if (isSkip && isLeftOut(result)) return h("span", { class: "tag warn", t: "preview.left" });
  if (result.known) return h("span", { class: "tag", t: "preview.known" });
  if (result.near_stored)
    return h("span", { class: "tag warn", t: ["preview.stored", { id: result.near_stored.id }] });
  if (result.near_earlier !== undefined)
    return h("span", { class: "tag warn", t: ["preview.earlier", { n: result.near_earlier + 1 }] });
  return h("span", { class: "tag good", t: "preview.new" });
}

// Reasons, each once with how many rows have it, the most frequent first.
export function counted(all) {
  const found = new Map();
  for (const why of all) {
    const key = JSON.stringify(why);
    found.set(key, { why, n: (found.get(key)?.n ?? 0) + 1 });
  }
  return [...found.values()].sort((a, b) => b.n - a.n);
}

// The most frequent reasons as a list; a reason is a text of the server or a message.
export function reasons(all) {
  if (all.length === 0) return null;
  const line = ({ why, n }) =>
    h("li", { class: "note" }, h("b", {}, String(n)), " ", Array.isArray(why) ? h("span", { t: why }) : why);
  return h("ul", {}, all.slice(0, ROWS).map(line));
}
