// The page of the clusters: which copies a collection has, which document represents each, and the rule that
// decides it.

import { guard } from "./access.js";
import { at, call, clusterPath, documentPath, get, post } from "./api.js";
import { diffView } from "./diff.js";
import {
  button,
  choice,
  field,
  figure,
  fill,
  h,
  notice,
  partOf,
  say,
  show,
  tableHead,
  translated,
} from "./dom.js";
import { number } from "./format.js";
import { headline, headlineField, whole } from "./headlines.js";
import { markButton } from "./marks.js";
import { chosen, chosenName, load, onPick } from "./pick.js";
import { problem } from "./problems.js";
import { address } from "./route.js";

// Clusters and members on a page of their lists, and milliseconds between two looks at a running job.
const CLUSTERS = 25;
const MEMBERS = 20;
const AGAIN = 700;
// The keep rules, and whether a rule reads a field.
const RULES = [
  ["first", false],
  ["longest", false],
  ["newest", true],
  ["oldest", true],
  ["max", true],
  ["min", true],
];

// Builds the page.
export function create() {
  const failure = h("div", {});
  const facts = h("section", { class: "panel" });
  const rows = h("tbody", {});
  const more = h("div", { class: "row" });
  const none = h("p", { class: "none", hidden: true });
  const least = h("input", { type: "number", class: "short", min: "1", value: "2" });
  const detail = h("div", {});
  const rule = ruleForm(() => refresh());
  const removing = removeForm(() => refresh());
  let order = "size";
  let timer = 0;
  let opened = null;

  const orders = [
    ["size", "clusters.size"],
    ["newest", "clusters.newest"],
  ];
  const list = h(
    "section",
    { class: "panel" },
    h(
      "div",
      { class: "row actions" },
      choice("clusters.order", orders, order, (value) => {
        order = value;
        read();
      }),
      field("clusters.least", least),
      button("collections.refresh", () => refresh(), { class: "quiet" }),
    ),
    h(
      "div",
      { class: "scroll tall", tabindex: "0", role: "region", label: "clusters.title" },
      h(
        "table",
        { class: "pickable" },
        tableHead(["clusters.headline", "clusters.representative", "clusters.documents"], 1),
        rows,
      ),
    ),
    none,
    more,
  );
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "clusters.title" }), h("p", { t: "clusters.intro" })),
    failure,
    facts,
    list,
    detail,
    rule.node,
    removing.node,
  );
  least.addEventListener("change", () => read());
  onPick(() => {
    opened = null;
    fill(detail);
    rule.fit();
    removing.fit();
    if (!node.hidden && node.isConnected) read();
  });

  async function refresh() {
    await load();
    await read();
  }

  const path = (cursor) => {
    const wanted = { order, min_size: least.value || "1", limit: CLUSTERS };
    if (cursor) wanted.cursor = cursor;
    return at(chosenName(), `/clusters?${new URLSearchParams(wanted)}`);
  };

  // Reads the first clusters, and again while a job is running.
  async function read() {
    clearTimeout(timer);
    const name = chosenName();
    try {
      const answer = await get(path());
      if (name !== chosenName()) return;
      fill(failure);
      [facts, list].forEach((one) => show(one, true));
      describe(answer);
      fill(rows, answer.clusters.map(row));
      show(none, answer.clusters.length === 0);
      say(none, answer.pending > 0 ? "clusters.building" : "clusters.none");
      offerMore(answer.next);
      if (answer.pending > 0) timer = setTimeout(() => !node.hidden && read(), AGAIN);
    } catch (error) {
      [facts, list].forEach((one) => show(one, false));
      fill(detail);
      if (error.code === "no_clusters") {
        fill(failure, notice("plain", h("span", { t: ["clusters.off", { name }] })));
        rule.open();
      } else fill(failure, problem(error));
    }
  }

  function describe({ rule: { keep, k, check }, pending }) {
    const [keeps, field_] = keep.split(/:(.*)/);
    const all = Math.max(pending, chosen()?.documents ?? 0);
    const n = all - pending;
    const state = pending > 0 ? ["clusters.pending", { n, all }] : "clusters.decided";
    fill(
      facts,
      h(
        "dl",
        { class: "figures" },
        figure("clusters.keep", [h("span", { t: `keep.${keeps}` }), " ", field_ && h("code", {}, field_)]),
        figure("clusters.k", String(check?.k ?? k)),
        check && figure("clusters.similarity", String(check.similarity)),
        figure("clusters.state", h("span", { "aria-live": "polite", t: state })),
      ),
      pending > 0 && h("progress", { max: String(all), value: String(n), label: "review.building.bar" }),
    );
  }

  function offerMore(next) {
    const follow = async () => {
      try {
        const answer = await get(path(next));
        rows.append(...answer.clusters.map(row));
        offerMore(answer.next);
      } catch (error) {
        fill(more, problem(error));
      }
    };
    fill(more, next && button("clusters.more", follow, { class: "quiet" }));
  }

  function row(cluster) {
    const { representative } = cluster;
    const properties = { type: "button", class: "link headline", dir: "auto", data: { id: representative } };
    const link = h("button", properties, representative);
    if (chosen()?.keep_text || headlineField()) {
      const named = (found) => fill(link, (found && headline(found)) || representative);
      whole(representative).then(named, () => {});
    }
    const line = h(
      "tr",
      { "aria-current": representative === opened ? "true" : null },
      h("th", { scope: "row" }, link),
      h("td", { class: "mono" }, representative),
      h(
        "td",
        { class: "num" },
        translated(() => number(cluster.size)),
      ),
    );
    link.addEventListener("click", () => {
      rows.querySelectorAll("tr").forEach((one) => one.removeAttribute("aria-current"));
      line.setAttribute("aria-current", "true");
      open(representative);
    });
    return line;
  }

  async function open(id) {
    opened = id;
    try {
      const cluster = await get(clusterPath(chosenName(), id, { limit: MEMBERS }));
      if (opened !== id) return;
      fill(detail, clusterView(cluster));
      detail.scrollIntoView({ block: "nearest" });
    } catch (error) {
      fill(detail, problem(error));
    }
  }

  return {
    node,
    show(parameters) {
      rule.fit();
      read();
      if (parameters.get("id")) open(parameters.get("id"));
    },
  };
}

// The members of a cluster, and a comparison of one with the representative.
function clusterView(cluster) {
  const { representative, size, pending, members } = cluster;
  const compared = h("div", {});
  const list = h("ol", { class: "matches" });
  const more = h("div", {});
  const rule = chosen()?.clusters;
  const k = rule?.check?.k ?? rule?.k ?? 1;
  const share = (distance) => ({ "--share": `${(100 * distance) / Math.max(1, k)}%` });
  const entry = (member) =>
    h(
      "li",
      { class: "match" },
      h(
        "div",
        { class: "row" },
        h("span", {
          class: "far mono",
          t: [chosen()?.signatures ? "find.cells" : "find.bits", { n: member.distance }],
        }),
        h("div", { class: "distance", "aria-hidden": "true", style: share(member.distance) }, h("i", {})),
        h("span", { class: "id mono" }, member.id),
        partOf(member.relation, `clusters.${member.relation}`),
        h("span", { class: "grow" }),
        markButton(representative, member.id),
        button("clusters.diff", () => compare(member.id), {
          class: "quiet",
          label: ["clusters.diff.with", { id: member.id, other: representative }],
        }),
        h("a", {
          class: "small",
          href: address("compare", { collection: chosenName(), a: representative, b: member.id }),
          t: "clusters.compare",
        }),
      ),
    );
  const offer = (next) =>
    fill(more, next && button("clusters.members.more", () => nextPage(next), { class: "quiet" }));
  async function nextPage(cursor) {
    try {
      const page = await get(clusterPath(chosenName(), representative, { limit: MEMBERS, cursor }));
      list.append(...page.members.map(entry));
      offer(page.next);
    } catch (error) {
      fill(more, problem(error));
    }
  }
  async function compare(member) {
    try {
      const wanted = { a: { id: representative }, b: { id: member }, whole_diff: true };
      const answer = await post(at(chosenName(), "/compare"), wanted);
      const title = h("h3", { t: ["clusters.diff.title", { id: member, other: representative }] });
      if (!answer.diff) {
        fill(compared, title, h("p", { class: "note", t: "diff.unknown" }));
      } else {
        const { form, pane } = diffView(answer.diff);
        fill(compared, h("div", { class: "row" }, title, h("span", { class: "grow" }), form), pane);
      }
      compared.scrollIntoView({ block: "nearest" });
    } catch (error) {
      fill(compared, problem(error));
    }
  }
  fill(list, members.map(entry));
  if (members.length === 0) fill(list, h("li", { class: "none", t: "clusters.alone" }));
  offer(cluster.next);
  const text = h("p", { class: "snippet", dir: "auto", hidden: true });
  if (chosen()?.keep_text) start(representative, text);
  return h(
    "section",
    { class: "panel" },
    h("h2", { class: "mono" }, representative),
    h(
      "div",
      { class: "row" },
      h("p", { class: "note", t: ["clusters.of", { n: size }] }),
      h("a", {
        href: address("review", { collection: chosenName(), id: representative }),
        t: "document.review",
      }),
    ),
    pending && notice("warn", h("span", { t: "clusters.changing" })),
    text,
    list,
    more,
    compared,
  );
}

// Shows the start of a kept text.
async function start(id, place) {
  try {
    const { text } = await get(documentPath(chosenName(), id));
    if (!text) return;
    place.textContent = text.length > 400 ? `${[...text.slice(0, 400)].join("")}\u2026` : text;
    show(place, true);
  } catch {
    // The list is useful without the text.
  }
}

// The form that builds clusters by a rule.
function ruleForm(built) {
  const keep = h(
    "select",
    {},
    RULES.map(([rule]) => h("option", { value: rule, t: `keep.${rule}` })),
  );
  const name = h("input", { type: "text", class: "mono", autocomplete: "off", spellcheck: "false" });
  const of = field("keep.field", name, "keep.field.note");
  const k = h("input", { type: "number", min: "0", class: "short" });
  const state = h("div", { "aria-live": "polite" });
  const run = h("button", { type: "submit", class: "primary", t: "keep.run" });
  const reason = guard(run, "admin", chosenName);
  const needsField = () => RULES.find(([rule]) => rule === keep.value)[1];
  const fit = () => {
    run.checkAccess();
    k.placeholder = chosen()?.k ?? "";
    show(of, needsField());
  };
  keep.addEventListener("change", fit);
  const form = h(
    "form",
    {},
    h("p", { class: "note", t: "keep.note" }),
    h("div", { class: "row fields" }, field("keep.rule", keep), of, field("clusters.k", k, "keep.k.note")),
    h("div", { class: "row" }, run),
    reason,
    state,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { keep: needsField() ? `${keep.value}:${name.value.trim()}` : keep.value };
    if (k.value !== "") body.k = Number(k.value);
    try {
      await call("POST", at(chosenName(), "/clusters"), { body });
      fill(state, notice("good", h("span", { t: "keep.begun" })));
      await built();
    } catch (error) {
      fill(state, problem(error));
    }
  });
  const node = h("details", { class: "panel" }, h("summary", { t: "keep.title" }), form);
  return {
    node,
    fit,
    open() {
      node.open = true;
    },
  };
}

// The form that removes the clusters.
function removeForm(removed) {
  const state = h("div", { "aria-live": "polite" });
  const run = button("clusters.remove.run", remove, { class: "danger" });
  const reason = guard(run, "admin", chosenName);
  async function remove() {
    try {
      await call("DELETE", at(chosenName(), "/clusters"));
      fill(state, notice("good", h("span", { t: "clusters.removed" })));
      await removed();
    } catch (error) {
      fill(state, problem(error));
    }
  }
  const node = h(
    "details",
    { class: "panel" },
    h("summary", { t: "clusters.remove" }),
    h("p", { t: "clusters.remove.note" }),
    h("div", { class: "row" }, run),
    reason,
    state,
  );
  return {
    node,
    fit() {
      run.checkAccess();
      show(node, Boolean(chosen()?.clusters));
    },
  };
}
