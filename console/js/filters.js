// The filter of the API as a form: the beginning of the id, metadata, times, planned deletions; or the
// cluster of a document, which is no filter of the API and so stands alone.

import { button, choice, field, fill, h, newId, say, show } from "./dom.js";
import { t } from "./i18n.js";

// Names of fields that are offered.
const FIELDS = 12;

// How a metadata field is compared, and whether that takes a value.
const RELATIONS = [
  ["is", true],
  ["not", true],
  ["gte", true],
  ["lt", true],
  ["exists", false],
  ["missing", false],
];

// A typed value as the API compares it: a number or `true` may be stored as such or as a text.
function values(text) {
  const all = [text];
  if (text !== "" && Number.isFinite(Number(text))) all.push(Number(text));
  if (text === "true" || text === "false") all.push(text === "true");
  return all;
}

const bound = (text) => (text !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

const CONDITIONS = {
  is: (text) => values(text),
  not: (text) => ({ not: values(text) }),
  gte: (text) => ({ gte: bound(text) }),
  lt: (text) => ({ lt: bound(text) }),
  exists: () => ({ exists: true }),
  missing: () => ({ exists: false }),
};

// Whether one object can have both conditions on a field.
const fit = (one, other) =>
  ![one, other].some(Array.isArray) && !Object.keys(one).some((name) => name in other);

// The beginning of a day where the user is.
const when = (input) => (input.value ? new Date(`${input.value}T00:00`).toISOString() : undefined);

// The form. `apply` is called with the filter when the user sends it; it is `null` without a condition.
export function filterForm(apply) {
  const names = h("datalist", { id: newId("fields") });
  const prefix = h("input", { type: "text", class: "mono", autocomplete: "off", spellcheck: "false" });
  const cluster = h("input", { type: "text", class: "mono", autocomplete: "off", spellcheck: "false" });
  const from = h("input", { type: "date" });
  const before = h("input", { type: "date" });
  const rows = h("div", { class: "stack" });
  const known = h("p", { class: "note" });
  const conditions = h("div", { class: "stack", hidden: true }, rows, known);
  let which = "all";
  const state = choice(
    "documents.which",
    ["all", "planned", "stay"].map((name) => [name, `documents.which.${name}`]),
    which,
    (value) => {
      which = value;
      apply(filter());
    },
  );

  function condition() {
    const name = h("input", { type: "text", list: names.id, label: "documents.field", class: "mono" });
    const relation = h(
      "select",
      { label: "documents.relation" },
      RELATIONS.map(([of]) => h("option", { value: of, t: `relation.${of}` })),
    );
    const value = h("input", { type: "text", label: "documents.value" });
    const needsValue = () => RELATIONS.find(([of]) => of === relation.value)[1];
    relation.addEventListener("change", () => {
      value.hidden = !needsValue();
    });
    const row = h("div", { class: "row condition" }, name, relation, value);
    const remove = () => {
      row.remove();
      show(conditions, rows.children.length > 0);
    };
    row.append(button("documents.condition.remove", remove, { class: "quiet" }));
    row.read = () => [name.value.trim(), CONDITIONS[relation.value](value.value.trim())];
    return row;
  }

  function filter() {
    if (cluster.value.trim()) return { cluster: cluster.value.trim() };
    const metadata = {};
    for (const row of rows.children) {
      const [name, wanted] = row.read();
      const before = metadata[name];
      const isClash = before !== undefined && !fit(before, wanted);
      row.firstChild.setCustomValidity(isClash ? t("documents.clash", { name }) : "");
      if (isClash) row.firstChild.reportValidity();
      else if (name) metadata[name] = before === undefined ? wanted : { ...before, ...wanted };
    }
    const all = {
      id_prefix: prefix.value.trim() || undefined,
      metadata: Object.keys(metadata).length ? metadata : undefined,
      written_from: when(from),
      written_before: when(before),
      deletion_planned: which === "all" ? undefined : which === "planned",
    };
    const has = Object.values(all).some((value) => value !== undefined);
    return has ? JSON.parse(JSON.stringify(all)) : null;
  }

  const add = button("documents.condition.add", () => {
    const row = condition();
    rows.append(row);
    show(conditions, true);
    row.querySelector("input").focus();
  });
  const node = h(
    "form",
    { class: "panel filters" },
    h(
      "div",
      { class: "row fields" },
      field("documents.prefix", prefix),
      field("documents.from", from),
      field("documents.before", before),
      field("documents.cluster", cluster, "documents.cluster.note"),
    ),
    conditions,
    names,
    h(
      "div",
      { class: "row" },
      h("button", { type: "submit", class: "primary", t: "documents.search" }),
      add,
      h("span", { class: "grow" }),
      state,
    ),
  );
  add.classList.add("quiet");
  // The conditions have no effect beside a cluster.
  const fitCluster = () => {
    const isAlone = cluster.value.trim() !== "";
    node.querySelectorAll("input, select").forEach((one) => {
      one.disabled = isAlone && one !== cluster;
    });
    add.disabled = isAlone;
  };
  cluster.addEventListener("input", fitCluster);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    apply(filter());
  });
  return {
    node,
    filter,
    // Offers the names of the fields that documents have.
    offer(found) {
      fill(
        names,
        found.map((name) => h("option", { value: name })),
      );
      show(known, found.length > 0);
      say(known, ["documents.fields", { names: found.slice(0, FIELDS).join(", ") }]);
    },
    // Takes another field in the conditions on one, and searches again.
    rename(from, to) {
      for (const { firstChild: name } of rows.children) if (name.value.trim() === from) name.value = to;
      apply(filter());
    },
    // No conditions, as for another collection.
    clear() {
      node.reset();
      rows.replaceChildren();
      show(conditions, false);
      which = "all";
      state.set(which);
      fitCluster();
    },
    // Chooses the cluster of a document, or none.
    setCluster(id) {
      cluster.value = id ?? "";
      fitCluster();
      apply(filter());
    },
  };
}
