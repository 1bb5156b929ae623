// The page of the documents: search, the list, one document beside it, and what can be done with a selection.

import { refusal } from "./access.js";
import { at, check, get, send } from "./api.js";
import { documentView } from "./document.js";
import { button, choice, fill, h, notice, say, show, translated } from "./dom.js";
import { filterForm } from "./filters.js";
import { time } from "./format.js";
import {
  asLine,
  headline,
  headlineField,
  readHeadlines,
  setHeadlineField,
  whole as readWhole,
} from "./headlines.js";
import { clusterOf } from "./members.js";
import { chosen, chosenName, onPick } from "./pick.js";
import { byFilter, planner } from "./planned.js";
import { problem } from "./problems.js";
import { address, here } from "./route.js";
import { documentsCsv, exportCsv, jsonLines, save } from "./save.js";
import { virtualList } from "./vlist.js";

// Documents on a page of the list, metadata fields shown in a row, and characters of each.
const PAGE = 200;
const TAGS = 3;
const TAG = 32;
// Fields that are offered in place of one that no document has.
const OFFERED = 8;

// Builds the page.
export function create() {
  let filter = null;
  let isStale = true;
  let filtered = chosenName();
  const fields = new Set();
  const failure = h("div", {});
  const unknown = h("div", { "aria-live": "polite" });
  const summary = h("p", { class: "note", "aria-live": "polite" });
  const planned = planner((ids) => (ids ? reread(ids) : restart()));
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
  const ids = (rows) => rows.map((row) => row.id);
  // Changes all documents of the list by its filter, or these rows.
  const change = async (all, some) => {
    if (!list.isWhole()) return some([...list.selected.values()]);
    return filter?.cluster ? some(await membersOf(filter.cluster)) : all(filter);
  };
  const actions = selectionBar(list, {
    filter: () => filter,
    // A deletion that is planned already is not ours to undo.
    remove: () =>
      change(planned.removeAll, (rows) => planned.remove(ids(rows.filter((row) => !row.deletion_at)))),
    keep: () => change(planned.keepAll, (rows) => planned.keep(ids(rows))),
    failed: (error) => fill(failure, problem(error)),
  });
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "documents.title" }), h("p", { t: "documents.intro" })),
    form.node,
    unknown,
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
    const page = filter?.cluster ? await clusterOf(filter.cluster, cursor) : await readPage(cursor);
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
    fill(unknown);
    offerFields();
    missingFields(filter).catch((error) => fill(failure, problem(error)));
    return list.restart();
  }

  // Says which fields of a filter no document has, and offers those that documents have.
  async function missingFields(of) {
    for (const name of Object.keys(of?.metadata ?? {})) {
      if (fields.has(name) || (await isField(name)) || of !== filter) continue;
      const isLike = (one) => one.toLowerCase() === name.toLowerCase();
      const offered = [...fields].sort((a, b) => isLike(b) - isLike(a) || (a < b ? -1 : 1));
      const buttons = offered
        .slice(0, OFFERED)
        .map((one) => h("button", { type: "button", on: { click: () => form.rename(name, one) } }, one));
      const said = h("span", { t: ["documents.unknown", { name }] });
      const instead = buttons.length > 0 && h("span", { t: "documents.unknown.offer" });
      unknown.append(notice("warn", h("div", { class: "row" }, said, instead, buttons)));
    }
  }

  // What the list has, and how many documents are selected.
  function describe() {
    const { count: n, isAll: isEnd } = list.size();
    const all = chosen()?.documents ?? 0;
    const isAll = isEnd || (!filter && n === all);
    const found = isAll ? "all" : "some";
    say(summary, filter ? [`documents.found.${found}`, { n }] : [`documents.shown.${found}`, { n, all }]);
    show(total, Boolean(filter) && !filter.cluster && !isAll && !refusal("write", chosenName()));
    show(list.node, n > 0 || !isEnd);
    actions.fit();
  }

  // Counts the documents that pass the filter, as a deletion without an effect.
  async function count() {
    const counting = ({ matched }) => say(summary, ["documents.counting", { n: matched }]);
    try {
      const { matched } = await byFilter(chosenName(), filter, { dry_run: true }, counting);
      say(summary, ["documents.counted", { n: matched }]);
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
      const found = await readWhole(id).catch(() => null);
      if (found) list.update(id, { deletion_at: found.deletion_at, expires_at: found.expires_at });
    }
    if (ids.includes(detail.id())) detail.open(detail.id());
  }

  return {
    node,
    show(parameters) {
      const cluster = parameters.get("cluster");
      if (cluster) form.setCluster(cluster);
      else if (isStale) restart();
      const id = parameters.get("id");
      if (id && id !== detail.id() && here().page === "documents") detail.open(id);
    },
  };
}

// What can be done with the selected documents, or with all of the list.
function selectionBar(list, { filter, remove, keep, failed }) {
  const summary = h("span", { "aria-live": "polite" });
  const all = button("documents.select", () => list.select(false), { class: "quiet" });
  const whole = button("documents.select.whole", () => list.select(true), { class: "quiet" });
  const clear = button("documents.clear", () => list.clear(), { class: "quiet" });
  const removing = button("documents.remove", () => remove().catch(failed), { class: "danger" });
  const keeping = button("documents.keep", () => keep().catch(failed), { class: "quiet" });
  const saving = button("documents.export", () => download().catch(failed), { class: "quiet" });
  let form = "csv";
  const forms = [
    ["csv", "save.csv"],
    ["jsonl", "save.jsonl"],
  ];
  const row = h(
    "div",
    { class: "selection" },
    h("div", { class: "row" }, all, whole, clear, summary),
    h(
      "div",
      { class: "row" },
      choice("save.form", forms, form, (value) => {
        form = value;
      }),
      saving,
      h("span", { class: "grow" }),
      keeping,
      removing,
    ),
  );
  const isAny = () => list.isWhole() || list.selected.size > 0;

  async function download() {
    saving.disabled = true;
    try {
      if (list.isWhole() || list.selected.size === 0) return await exportAll(chosenName(), filter(), form);
      const documents = await Promise.all([...list.selected.keys()].map((id) => readWhole(id)));
      await saveAs(form, `${chosenName()}-selection`, documents.filter(Boolean));
    } finally {
      saving.disabled = list.size().count === 0;
    }
  }

  return {
    node: row,
    fit() {
      const n = list.selected.size;
      const { count, isAll } = list.size();
      show(all, n === 0 && count > 0);
      show(whole, n > 0 && !list.isWhole() && !(isAll && n >= count));
      say(whole, filter() ? "documents.select.whole" : "documents.select.every");
      show(clear, isAny());
      const every = filter() ? "documents.selected.whole" : "documents.selected.every";
      say(summary, list.isWhole() ? every : isAny() ? ["documents.selected", { n }] : null);
      saving.disabled = count === 0;
      say(saving, isAny() ? "documents.save" : "documents.export");
      show(removing, isAny());
      show(keeping, list.isWhole() || [...list.selected.values()].some((row) => row.deletion_at));
      const planned = list.isWhole() ? filter()?.deletion_planned : undefined;
      const mayWrite = !refusal("write", chosenName());
      removing.disabled = !mayWrite || planned === true;
      keeping.disabled = !mayWrite || planned === false;
    },
  };
}

// All documents of the cluster of a document.
async function membersOf(id) {
  const all = [];
  for (let cursor; cursor !== null;) {
    const page = await clusterOf(id, cursor);
    all.push(...page.rows);
    cursor = page.next ?? null;
  }
  return all;
}

// Whether any document has a metadata field.
async function isField(name) {
  const filter = JSON.stringify({ metadata: { [name]: { exists: true } } });
  const wanted = new URLSearchParams({ limit: 1, filter });
  for (;;) {
    const { documents, next } = await get(at(chosenName(), `/documents?${wanted}`));
    if (documents.length > 0) return true;
    if (!next) return false;
    wanted.set("cursor", next);
  }
}

const saveAs = async (form, name, documents) =>
  form === "csv"
    ? save(`${name}.csv`, await documentsCsv(documents))
    : save(`${name}.jsonl`, jsonLines(documents), "application/x-ndjson");

// Everything that passes a filter as a file.
async function exportAll(name, filter, form) {
  if (filter?.cluster) return saveAs(form, `${name}-cluster`, await membersOf(filter.cluster));
  const query = filter ? `?${new URLSearchParams({ filter: JSON.stringify(filter) })}` : "";
  const response = await check(await send("GET", at(name, `/export${query}`)));
  const blob = await response.blob();
  save(`${name}.${form}`, form === "csv" ? await exportCsv(blob) : blob);
}
