// The page of the collections: what each holds, how its index and its answers are distributed, and how to
// make and to delete one.

import { guard } from "./access.js";
import { at, call, get } from "./api.js";
import { columns } from "./charts.js";
import { button, field, figure, fill, h, notice, say, tableHead, translated } from "./dom.js";
import { bytes, number, percent, span, time } from "./format.js";
import { t } from "./i18n.js";
import { markList } from "./marks.js";
import { choose, chosen, chosenName, collections, knownProfiles, load, onPick } from "./pick.js";
import { problem } from "./problems.js";
import { profileTable } from "./profiles.js";
import { rates } from "./rates.js";
import { go } from "./route.js";
import { settingsForm } from "./settings.js";

// Builds the page.
export function create() {
  const table = h("tbody", {});
  const facts = h("div", {});
  const spread = h("div", { class: "columns" });
  const shared = h("section", { class: "panel" });
  const failure = h("div", {});
  const live = rates(() => !node.hidden && node.isConnected);
  const making = makeForm();
  const marks = markList();
  const removing = deleteForm();
  const changing = settingsForm();
  const heads = [
    "collections.name",
    "collections.profile",
    "collections.documents",
    "collections.hashes",
    "collections.memory",
  ];
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "collections.title" }), h("p", { t: "collections.intro" })),
    h(
      "section",
      { class: "panel" },
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", label: "collections.title" },
        h("table", { class: "pickable" }, tableHead(heads, 3), table),
      ),
      h("div", { class: "row" }, button("collections.refresh", refresh, { class: "quiet" })),
    ),
    making,
    failure,
    facts,
    changing.node,
    h("section", { class: "panel" }, h("h2", { t: "rates.title" }), live.node),
    spread,
    shared,
    marks.node,
    removing.node,
  );

  onPick(() => {
    fill(table, collections().map(row));
    marks.fit();
    removing.fit();
    changing.fit();
    if (!node.hidden && node.isConnected) describe();
  });

  async function refresh() {
    try {
      await load();
    } catch (error) {
      fill(failure, problem(error));
    }
  }

  async function describe() {
    const collection = chosen();
    if (!collection) return fill(facts);
    fill(facts, figures(collection));
    try {
      const stats = await get(at(collection.name, "/stats"));
      const { hashes } = await get(at(collection.name, "/shared-hashes"));
      if (collection.name !== chosenName()) return;
      fill(failure);
      fill(facts, figures(stats.collection, stats));
      fill(spread, buckets(stats.buckets), distances(stats.answered_distances));
      fill(
        shared,
        h("h2", { t: "shared.title" }),
        h("p", { class: "note", t: "shared.intro" }),
        sharedTable(hashes),
      );
    } catch (error) {
      fill(failure, problem(error));
    }
  }

  return {
    node,
    show() {
      refresh();
      live.read();
    },
  };
}

function row(collection) {
  const isChosen = collection.name === chosenName();
  const pick = h("button", { type: "button", class: "link mono" }, collection.name);
  pick.addEventListener("click", () => choose(collection.name));
  return h(
    "tr",
    { "aria-current": isChosen ? "true" : null },
    h("th", { scope: "row" }, pick),
    h("td", {}, h("code", {}, collection.profile)),
    h(
      "td",
      { class: "num" },
      translated(() => number(collection.documents)),
    ),
    h(
      "td",
      { class: "num" },
      translated(() => number(collection.distinct_hashes)),
    ),
    h(
      "td",
      { class: "num" },
      translated(() => bytes(collection.index_bytes)),
    ),
  );
}

// What a collection holds and how it is set.
function figures(collection, stats) {
  const yes = (is) => h("span", { t: is ? "collections.yes" : "collections.no" });
  const copies = collection.documents - collection.distinct_hashes;
  const share = () => percent(copies / Math.max(1, collection.documents), 1);
  return h(
    "section",
    { class: "panel" },
    h("h2", { class: "mono" }, collection.name),
    h(
      "dl",
      { class: "figures" },
      figure(
        "collections.documents",
        translated(() => number(collection.documents)),
      ),
      figure(
        "collections.hashes",
        translated(() => number(collection.distinct_hashes)),
        copies > 0 ? ["collections.copies", { n: copies, share }] : null,
      ),
      figure(
        "collections.memory",
        translated(() => bytes(collection.index_bytes)),
      ),
      stats &&
        figure(
          "collections.disk",
          translated(() => bytes(stats.disk_bytes)),
          "collections.disk.note",
        ),
      stats &&
        figure(
          "collections.resident",
          translated(() => bytes(stats.memory.resident_bytes)),
          stats.memory.budget_bytes
            ? ["collections.budget", { size: () => bytes(stats.memory.budget_bytes) }]
            : null,
        ),
      figure("collections.profile", h("code", {}, collection.profile)),
      figure(
        "collections.k",
        collection.threshold === undefined
          ? String(collection.k)
          : h("span", { t: ["collections.threshold", { share: () => percent(collection.threshold) }] }),
      ),
      figure("collections.text", yes(collection.keep_thumbnail ?? collection.keep_text)),
      figure(
        "collections.passages",
        collection.passages === "exact" ? h("span", { t: "collections.exact" }) : yes(collection.passages),
      ),
      figure(
        "collections.expires",
        collection.expires_in
          ? translated(() => span(collection.expires_in))
          : h("span", { t: "collections.never" }),
      ),
      figure(
        "collections.created",
        translated(() => time(collection.created_at)),
      ),
    ),
  );
}

function buckets({ fewer_than: classes, largest }) {
  const bars = Object.entries(classes).map(([below, value]) => {
    const from = Math.floor(below / 2);
    return { label: below - from <= 1 ? String(from) : `${from}\u2013${below - 1}`, value };
  });
  return h(
    "section",
    { class: "panel" },
    h("h3", { t: "buckets.title" }),
    h("p", { class: "note", t: ["buckets.note", { largest }] }),
    columns({
      height: 210,
      label: () => t("buckets.title"),
      bars,
      format: (value) => number(value),
      axis: () => t("buckets.axis"),
    }),
  );
}

function distances(answered) {
  const known = Object.keys(answered).map(Number);
  const panel = h(
    "section",
    { class: "panel" },
    h("h3", { t: "distances.title" }),
    h("p", { class: "note", t: "distances.note" }),
  );
  if (known.length === 0) {
    panel.append(h("p", { class: "none", t: "distances.none" }));
    return panel;
  }
  const bars = Array.from({ length: Math.max(...known) + 1 }, (_, at) => ({
    label: String(at),
    value: answered[at] ?? 0,
  }));
  panel.append(
    columns({
      height: 210,
      label: () => t("distances.title"),
      bars,
      format: (value) => number(value),
      axis: () => t("distances.axis"),
    }),
  );
  return panel;
}

function sharedTable(hashes) {
  if (hashes.length === 0) return h("p", { class: "none", t: "shared.none" });
  // The hash of a signature is only a name: nothing can be found by it.
  const isSigned = Boolean(chosen()?.signatures);
  const open = (hash) => {
    const link = h("button", { type: "button", class: "link mono", tip: "shared.find" }, hash);
    link.addEventListener("click", () => go("find", {}, { kind: "hash", content: hash, k: 0 }));
    return link;
  };
  const row = ({ hash, documents }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, isSigned ? h("code", {}, hash) : open(hash)),
      h(
        "td",
        { class: "num" },
        translated(() => number(documents)),
      ),
    );
  return h(
    "div",
    { class: "scroll tall", tabindex: "0", role: "region", label: "shared.title" },
    h(
      "table",
      {},
      tableHead(["shared.hash", "collections.documents"], 1),
      h("tbody", {}, hashes.map(row)),
    ),
  );
}

// The form for a new collection.
function makeForm() {
  const name = h("input", {
    type: "text",
    class: "mono",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    pattern: "[a-z0-9][a-z0-9_\\-]{0,63}",
  });
  const k = h("input", { type: "number", min: "0", max: "256", class: "short" });
  const texts = h("input", { type: "checkbox", checked: true });
  const [parts, quotations] = [h("input", { type: "checkbox" }), h("input", { type: "checkbox" })];
  const expiry = h("input", { type: "text", class: "short", placeholder: "30d" });
  const table = h("div", {});
  const state = h("div", { "aria-live": "polite" });
  let [profile, kept] = [null, "keep_text"];
  const submit = h("button", { type: "submit", class: "primary", t: "make.run" });
  const pickProfile = (chosenProfile) => {
    profile = chosenProfile.profile;
    kept = chosenProfile.takes_images ? "keep_thumbnail" : "keep_text";
    k.placeholder = chosenProfile.threshold === undefined ? chosenProfile.k : "";
    k.disabled = chosenProfile.threshold !== undefined;
  };
  onPick(() => {
    if (profile || knownProfiles().length === 0) return;
    const usual =
      knownProfiles().find((one) => one.profile.startsWith("copies-128@")) ?? knownProfiles()[0];
    pickProfile(usual);
    fill(table, profileTable(knownProfiles(), usual.profile, pickProfile));
  });
  const tick = (input, message) => h("label", { class: "tick" }, input, h("span", { t: message }));
  const form = h(
    "form",
    {},
    h(
      "div",
      { class: "row fields" },
      field("make.name", name, "make.name.note"),
      field("make.k", k, "make.k.note"),
      field("make.expiry", expiry, "make.expiry.note"),
      h(
        "div",
        { class: "options" },
        tick(texts, "make.text"),
        tick(parts, "make.passages"),
        tick(quotations, "make.exact"),
      ),
    ),
    h("h2", { t: "make.profile" }),
    table,
    h("div", { class: "row" }, submit),
    guard(submit, "admin", () => name.value || null),
    state,
  );
  name.addEventListener("input", () => submit.checkAccess());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const passages = quotations.checked ? "exact" : parts.checked;
    const body = { profile, [kept]: texts.checked, passages };
    if (k.value !== "" && !k.disabled) body.k = Number(k.value);
    if (expiry.value.trim() !== "") body.expires_in = expiry.value.trim();
    try {
      const path = at(name.value);
      await call("PUT", path, { body });
      fill(state, notice("good", h("span", { t: ["make.done", { name: name.value }] })));
      const made = name.value;
      name.value = "";
      await load();
      choose(made);
    } catch (error) {
      fill(state, problem(error));
    }
  });
  return h("details", { class: "panel" }, h("summary", { t: "make.title" }), form);
}

// The form that deletes the chosen collection, once its name was typed.
function deleteForm() {
  const name = h("input", { type: "text", class: "mono", autocomplete: "off", spellcheck: "false" });
  const state = h("div", { "aria-live": "polite" });
  const label = h("p", {});
  const run = h("button", { type: "submit", class: "danger", t: "delete.run" });
  const reason = guard(run, "admin", chosenName);
  const fit = () => {
    const collection = chosen();
    if (collection) say(label, ["delete.warning", { name: collection.name, n: collection.documents }]);
    run.checkAccess();
    run.disabled ||= name.value !== chosenName();
  };
  name.addEventListener("input", fit);
  const form = h(
    "form",
    {},
    label,
    h("div", { class: "row actions" }, field("delete.type", name), run),
    reason,
    state,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (name.value !== chosenName()) return;
    try {
      await call("DELETE", at(name.value));
      fill(state, notice("good", h("span", { t: ["delete.done", { name: name.value }] })));
      name.value = "";
      await load();
    } catch (error) {
      fill(state, problem(error));
    }
  });
  return { node: h("details", { class: "panel" }, h("summary", { t: "delete.title" }), form), fit };
}
