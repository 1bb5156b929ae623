// The page of the documents: search, the list, one document beside it, and what can be done with a selection.

import { refusal } from "./access.js";
import { at, check, get, post, send } from "./api.js";
import { documentView } from "./document.js";
import { button, choice, fill, h, say, show, translated } from "./dom.js";
import { filterForm } from "./filters.js";
import { groupOf } from "./group.js";
import { time } from "./format.js";
import { asLine, headline, headlineField, readHeadlines, setHeadlineField, whole } from "./headlines.js";
import { chosen, chosenName, onPick } from "./pick.js";
import { planner } from "./planned.js";
import { problem } from "./problems.js";
import { address, here } from "./route.js";
import { documentsCsv, jsonLines, save } from "./save.js";
import { virtualList } from "./vlist.js";

// Documents on a page of the list, metadata fields shown in a row, and characters of each.
const PAGE = 200;
const TAGS = 3;
const TAG = 32;
// Milliseconds between two looks at a count.
const AGAIN = 300;

// Builds the page.
export function create() {
  let filter = null;
  let isStale = true;
  let filtered = chosenName();
  const fields = new Set();
  const failure = h("div", {});
  const summary = h("p", { class: "note", "aria-live": "polite" });
  const planned = planner((ids) => reread(ids));
  const form = filterForm((wanted) => {
    filter = wanted;
    restart();
  });
  const detail = documentView({
    remove: (id) => planned.remove([id]),
    keep: (id) => planned.keep([id]),
  });
  const list = virtualList("documents.title", {
    read,
    draw,
    open: (row) => open(row.id),
    changed: () => describe(),
    rested: (rows) => readHeadlines(rows, () => list.paint()),
    failed: (error) => fill(failure, problem(error)),
  });
  const line = h("select", { label: "documents.headline" });
  line.addEventListener("change", () => {
    setHeadlineField(line.value);
    list.paint();
  });
  const total = button("documents.count", () => count(), { class: "quiet" });
  const actions = selectionBar({
    selected: () => [...list.selected.keys()],
    // A deletion that is planned already is not ours to undo.
    remove: () => {
      const rows = [...list.selected.values()].filter((row) => !row.deletion_at);
      return planned.remove(rows.map((row) => row.id));
    },
    keep: () => planned.keep([...list.selected.keys()]),
    clear: () => {
      list.selected.clear();
      list.paint();
      describe();
    },
    failed: (error) => fill(failure, problem(error)),
  });
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "documents.title" }), h("p", { t: "documents.intro" })),
    form.node,
    failure,
    planned.node,
    h(
      "div",
      { class: "columns documents" },
      h(
        "section",
        { class: "panel" },
        h(
          "div",
          { class: "row" },
          summary,
          total,
          button(
            "documents.export",
            () => exportAll(chosenName(), filter).catch((error) => fill(failure, problem(error))),
            {
              class: "quiet",
            },
          ),
          h("span", { class: "grow" }),
          h("label", { class: "tick" }, h("span", { t: "documents.headline" }), line),
        ),
        actions.node,
        list.node,
        h("p", { class: "note", t: "documents.keys" }),
      ),
      detail.node,
    ),
  );
  onPick(() => {
    isStale = true;
    if (filtered !== chosenName()) {
      filtered = chosenName();
      filter = null;
      form.clear();
    }
    fields.clear();
    planned.clear();
    detail.clear();
    if (!node.hidden && node.isConnected) restart();
  });

  async function read(cursor) {
    const page = filter?.group ? await groupOf(filter.group, cursor) : await readPage(cursor);
    const before = fields.size;
    page.rows.forEach((one) => Object.keys(one.metadata ?? {}).forEach((name) => fields.add(name)));
    if (fields.size !== before) offerFields();
    return page;
  }

  async function readPage(cursor) {
    const wanted = new URLSearchParams({ limit: PAGE });
    if (cursor) wanted.set("cursor", cursor);
    if (filter) wanted.set("filter", JSON.stringify(filter));
    const { documents, next } = await get(at(chosenName(), `/documents?${wanted}`));
    return { rows: documents, next };
  }

  function offerFields() {
    const names = [...fields].sort();
    form.offer(names);
    const of = headlineField();
    const all = of && !fields.has(of) ? [of, ...names] : names;
    fill(
      line,
      h("option", { value: "", t: "documents.headline.text" }),
      all.map((name) => h("option", { value: name }, name)),
    );
    line.value = of;
  }

  function restart() {
    isStale = false;
    fill(failure);
    offerFields();
    return list.restart();
  }

  // What the list has, and how many documents are selected.
  function describe() {
    const { count: n, isAll: isEnd } = list.size();
    const all = chosen()?.documents ?? 0;
    const isAll = isEnd || (!filter && n === all);
    const found = isAll ? "all" : "some";
    say(summary, filter ? [`documents.found.${found}`, { n }] : [`documents.shown.${found}`, { n, all }]);
    show(total, Boolean(filter) && !filter.group && !isAll && !refusal("write", chosenName()));
    actions.fit();
  }

  // Counts the documents that pass the filter, as a deletion without an effect.
  async function count() {
    const name = chosenName();
    try {
      let answer = await post(at(name, "/deletions"), { filter, dry_run: true });
      while (!answer.ended_at) {
        say(summary, ["documents.counting", { n: answer.matched }]);
        await new Promise((done) => setTimeout(done, AGAIN));
        answer = await get(at(name, "/deletions"));
      }
      say(summary, ["documents.counted", { n: answer.matched }]);
    } catch (error) {
      fill(failure, problem(error));
    }
  }

  function draw(row) {
    const title = headline(row);
    const shown = Object.entries(row.metadata ?? {}).filter(([, value]) => asLine(value) !== title);
    const tags = shown.slice(0, TAGS).map(([name, value]) => {
      const text = asLine(value);
      const short = text.length > TAG ? `${text.slice(0, TAG)}\u2026` : text;
      return h("span", { class: "tag" }, h("b", {}, name), ` ${short}`);
    });
    return h(
      "span",
      { class: "vbody" },
      h("span", { class: "vtitle", dir: "auto" }, title || row.id),
      h(
        "span",
        { class: "vfacts" },
        title && h("span", { class: "mono" }, row.id),
        row.deletion_at && h("span", { class: "tag bad", t: "planned.tag" }),
        translated(() => time(row.written_at)),
        tags,
      ),
    );
  }

  async function open(id) {
    history.replaceState(null, "", address("documents", { collection: chosenName(), id }));
    await detail.open(id);
  }

  // Reads documents again that were changed.
  async function reread(ids) {
    for (const id of ids.slice(0, PAGE)) {
      const found = await whole(id).catch(() => null);
      if (found) list.update(id, { deletion_at: found.deletion_at, expires_at: found.expires_at });
    }
    if (ids.includes(detail.id())) detail.open(detail.id());
  }

  return {
    node,
    show(parameters) {
      const group = parameters.get("group");
      if (group) form.setGroup(group);
      else if (isStale) restart();
      const id = parameters.get("id");
      if (id && id !== detail.id() && here().page === "documents") detail.open(id);
    },
  };
}

// What can be done with the selected documents.
function selectionBar({ selected, remove, keep, clear, failed }) {
  const summary = h("span", { "aria-live": "polite" });
  const removing = button("documents.remove", remove, { class: "danger" });
  const keeping = button("documents.keep", keep, { class: "quiet" });
  let form = "csv";
  const forms = [
    ["csv", "save.csv"],
    ["jsonl", "save.jsonl"],
  ];
  const saving = button("documents.save", () => download().catch(failed), { class: "quiet" });
  const row = h(
    "div",
    { class: "row selection" },
    summary,
    button("documents.clear", clear, { class: "quiet" }),
    h("span", { class: "grow" }),
    choice("save.form", forms, form, (value) => {
      form = value;
    }),
    saving,
    keeping,
    removing,
  );

  async function download() {
    saving.disabled = true;
    try {
      const documents = (await Promise.all(selected().map(whole))).filter(Boolean);
      const name = `${chosenName()}-selection.${form}`;
      if (form === "csv") save(name, documentsCsv(documents), "text/csv");
      else save(name, jsonLines(documents), "application/x-ndjson");
    } finally {
      saving.disabled = false;
    }
  }

  return {
    node: row,
    fit() {
      const n = selected().length;
      show(row, n > 0);
      say(summary, ["documents.selected", { n }]);
      const mayWrite = !refusal("write", chosenName());
      [removing, keeping].forEach((one) => {
        one.disabled = !mayWrite;
      });
    },
  };
}

// Everything that passes a filter as a file of JSON lines.
async function exportAll(name, filter) {
  if (filter?.group) {
    const all = [];
    for (let cursor; cursor !== null;) {
      const page = await groupOf(filter.group, cursor);
      all.push(...page.rows);
      cursor = page.next ?? null;
    }
    return save(`${name}-group.jsonl`, jsonLines(all), "application/x-ndjson");
  }
  const query = filter ? `?${new URLSearchParams({ filter: JSON.stringify(filter) })}` : "";
  const response = await check(await send("GET", at(name, `/export${query}`)));
  save(`${name}.jsonl`, await response.blob());
}
