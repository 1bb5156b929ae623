// The page on which clusters are decided, one at a time, with keys.

import { guard, refusal } from "./access.js";
import { at, call, clusterPath, documentPath, get, post } from "./api.js";
import { differences } from "./document.js";
import { button, fill, h, notice, say, show, translated } from "./dom.js";
import { number, time } from "./format.js";
import { asLine, forget, headline, headlineField, setHeadlineField, whole } from "./headlines.js";
import { chosen, chosenName, load, onPick } from "./pick.js";
import { cancel, plan } from "./planned.js";
import { problem } from "./problems.js";
import { address } from "./route.js";
import { csv, save } from "./save.js";

// Clusters in a request, clusters up to which they are counted, members that are shown, and in one request.
const CLUSTERS = 200;
const COUNTED = 20_000;
const SHOWN = 20;
const MEMBERS = 1000;
// Milliseconds between two looks at clusters that are being built.
const AGAIN = 700;
// How often, and after which pause, it is asked whether documents are in one cluster again.
const ATTEMPTS = 20;
const PAUSE = 150;
// Metadata fields that name the source and the date of a document.
const SOURCES = ["source", "url", "site", "publisher", "author"];
const DATES = ["date", "published", "published_at", "timestamp", "created_at"];

// Builds the page.
export function create() {
  const failure = h("div", {});
  const left = h("p", { class: "lead", "aria-live": "polite" });
  const said = h("div", { "aria-live": "polite" });
  const place = h("div", {});
  const line = h("select", {});
  const saving = button("review.save", () => saveDecisions(), { class: "quiet" });
  const undoing = button("review.undo", () => undo(), { class: "quiet" });
  let decisions = readDecisions(chosenName());
  let of = chosenName();
  const undos = [];
  let queue = [];
  let next = null;
  let isCounted = true;
  let cluster = null;
  let turn = 0;
  let isBusy = false;

  const node = h(
    "div",
    { class: "page review" },
    h("div", { class: "head" }, h("h1", { t: "review.title" }), h("p", { t: "review.intro" })),
    failure,
    h(
      "section",
      { class: "panel" },
      h(
        "div",
        { class: "row" },
        left,
        h("span", { class: "grow" }),
        h("label", { class: "tick" }, h("span", { t: "documents.headline" }), line),
        undoing,
        saving,
      ),
      said,
      h("p", { class: "note", t: "review.keys" }),
    ),
    place,
  );
  line.addEventListener("change", () => {
    setHeadlineField(line.value);
    cluster?.draw();
  });
  onPick(() => {
    if (of !== chosenName()) {
      of = chosenName();
      decisions = readDecisions(of);
      undos.length = 0;
      fill(said);
    }
    if (!node.hidden && node.isConnected) start();
  });

  // Reads the clusters of the collection, those with the most documents first.
  async function start(wanted) {
    turn += 1;
    const own = turn;
    [queue, next, cluster] = [[], null, null];
    fill(failure);
    fill(place);
    try {
      const first = await page();
      if (own !== turn) return;
      if (wanted) queueFirst(wanted);
      if (first.pending > 0) wait(own, first.pending);
      await advance();
      await countRest(own);
    } catch (error) {
      if (own === turn) refused(error);
    }
  }

  function queueFirst(representative) {
    queue = [{ representative }, ...queue.filter((one) => one.representative !== representative)];
  }

  function refused(error) {
    say(left, null);
    if (error.code !== "no_clusters") return fill(failure, problem(error));
    const begin = button("review.build", () => build(), { class: "primary" });
    const reason = guard(begin, "admin", chosenName);
    fill(
      failure,
      notice("plain", h("p", { t: "review.off" }), h("div", { class: "row" }, begin), reason),
    );
  }

  async function build() {
    try {
      await post(at(chosenName(), "/clusters"), { keep: "first" });
      await load();
      await start();
    } catch (error) {
      fill(failure, problem(error));
    }
  }

  function wait(own, pending) {
    const all = chosen()?.documents ?? pending;
    const bar = h("progress", {
      max: String(all),
      value: String(all - pending),
      label: "review.building.bar",
    });
    fill(failure, notice("plain", h("p", { t: ["clusters.pending", { n: all - pending, all }] }), bar));
    setTimeout(() => own === turn && !node.hidden && start(), AGAIN);
  }

  async function page() {
    const own = turn;
    const wanted = { order: "size", min_size: 2, limit: CLUSTERS };
    if (next) wanted.cursor = next;
    const answer = await get(at(chosenName(), `/clusters?${new URLSearchParams(wanted)}`));
    if (own !== turn) return answer;
    queue.push(...answer.clusters);
    next = answer.next ?? null;
    isCounted = !next;
    return answer;
  }

  async function countRest(own) {
    while (next && own === turn && queue.length < COUNTED) {
      await page();
      countLeft();
    }
  }

  function countLeft() {
    const n = queue.length + (cluster ? 1 : 0);
    const done = decisions.length;
    say(left, [isCounted ? "review.left" : "review.left.more", { n, done }]);
    undoing.disabled = undos.length === 0;
    saving.disabled = done === 0;
  }

  // Shows the next cluster that still has two documents to decide about.
  async function advance() {
    const own = turn;
    cluster = null;
    for (;;) {
      if (queue.length === 0 && next) await page();
      const wanted = queue.shift();
      if (!wanted) break;
      const found = await readCluster(wanted.representative);
      if (own !== turn) return;
      if (!found) continue;
      cluster = clusterView(found, { keepAndRemove, markNone, skip });
      break;
    }
    offerFields();
    countLeft();
    if (cluster) {
      fill(place, cluster.node);
      cluster.draw();
      cluster.node.focus({ preventScroll: true });
    } else fill(place, h("section", { class: "panel" }, h("p", { class: "none", t: "review.none" })));
  }

  function offerFields() {
    const names = new Set(cluster?.documents().flatMap((one) => Object.keys(one.metadata ?? {})));
    if (headlineField()) names.add(headlineField());
    fill(
      line,
      h("option", { value: "", t: "documents.headline.text" }),
      [...names].sort().map((name) => h("option", { value: name }, name)),
    );
    line.value = headlineField();
  }

  // Does something once, whatever keys are pressed meanwhile, and goes on with the next cluster.
  async function decide(work) {
    if (isBusy) return;
    isBusy = true;
    try {
      fill(failure);
      await work();
    } catch (error) {
      fill(failure, problem(error));
    } finally {
      isBusy = false;
      countLeft();
    }
  }

  const record = (action, kept, id, of) => {
    const at = new Date().toISOString();
    decisions.push({ at, collection: chosenName(), cluster: of, action, kept, id });
    writeDecisions(chosenName(), decisions);
  };

  function done(message, facts, back) {
    undos.push({ ...back, count: decisions.length });
    const again = button("review.undo", () => undo(), { class: "quiet" });
    fill(said, notice("plain", h("div", { class: "row" }, h("span", { t: [message, facts] }), again)));
  }

  const keepAndRemove = () =>
    decide(async () => {
      const [name, of, kept] = [chosenName(), cluster.id, cluster.kept()];
      const ids = (await cluster.all()).filter((id) => id !== kept);
      const before = decisions.length;
      const { at: when } = await plan(name, ids);
      ids.forEach((id) => record("removed", kept, id, of));
      done(
        "review.removed",
        { n: ids.length, kept, at: () => time(when) },
        { name, of, before, back: async () => void (await cancel(name, ids)) },
      );
      await advance();
    });

  const markNone = () =>
    decide(async () => {
      const [name, of, kept, id] = [chosenName(), cluster.id, cluster.kept(), cluster.current()];
      if (id === kept) return fill(said, notice("warn", h("span", { t: "review.same" })));
      const before = decisions.length;
      await post(at(name, "/marks"), { marks: [{ ids: [kept, id] }] });
      record("no_copies", kept, id, of);
      const query = new URLSearchParams({ id: kept, other: id });
      done(
        "review.marked",
        { a: kept, b: id },
        {
          name,
          of,
          before,
          back: async () => {
            await call("DELETE", at(name, `/marks?${query}`));
            return joined(name, kept, id);
          },
        },
      );
      if (!cluster.leave(id)) await advance();
    });

  const skip = () =>
    decide(async () => {
      const [name, of, before] = [chosenName(), cluster.id, decisions.length];
      record("skipped", cluster.kept(), "", of);
      done("review.skipped", {}, { name, of, before, back: async () => {} });
      await advance();
    });

  // Takes the last step back and shows its cluster again.
  const undo = () =>
    decide(async () => {
      const last = undos.at(-1);
      if (!last || last.name !== chosenName()) return;
      const of = (await last.back()) ?? last.of;
      undos.pop();
      decisions.splice(last.before);
      writeDecisions(last.name, decisions);
      if (cluster) queue.unshift({ representative: cluster.id });
      queueFirst(of);
      fill(said, notice("plain", h("span", { t: "review.undone" })));
      await advance();
    });

  function saveDecisions() {
    const names = ["at", "collection", "cluster", "action", "kept", "id"];
    const rows = decisions.map((one) => names.map((name) => one[name]));
    save(`${chosenName()}-decisions.csv`, csv([names, ...rows]), "text/csv");
  }

  const KEYS = {
    j: () => cluster.step(1),
    k: () => cluster.step(-1),
    h: () => cluster.keep(),
    n: markNone,
    d: keepAndRemove,
    s: skip,
    u: undo,
  };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea");
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    if (node.hidden || isTyping || hasModifier || !(event.key in KEYS)) return;
    if (!cluster && event.key !== "u") return;
    if (event.key !== "j" && event.key !== "k" && refusal("write", chosenName())) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  return { node, show: (parameters) => start(parameters.get("id")) };
}

// The decisions about a collection in this tab, which outlive a reload of the page.
const item = (name) => `lookalike.decisions.${name}`;
const readDecisions = (name) => JSON.parse(sessionStorage.getItem(item(name)) ?? "[]");
const writeDecisions = (name, all) => sessionStorage.setItem(item(name), JSON.stringify(all));

// The cluster of two documents once the server has put them together again; `null` if it does not.
async function joined(name, a, b) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const read = (id) => get(documentPath(name, id));
    const [one, other] = await Promise.all([read(a), read(b)]);
    const [of, also] = [one, other].map(({ cluster }) => cluster?.representative);
    if (of && of === also) return of;
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  return null;
}

// A cluster with its documents; `null` if fewer than two are left to decide about.
async function readCluster(id) {
  let cluster;
  try {
    cluster = await get(clusterPath(chosenName(), id, { limit: SHOWN }));
  } catch (error) {
    if (["no_cluster", "no_document"].includes(error.code)) return null;
    throw error;
  }
  const distances = new Map(cluster.members.map((member) => [member.id, member.distance]));
  const ids = [cluster.representative, ...distances.keys()];
  ids.forEach(forget);
  const found = (await Promise.all(ids.map(whole))).filter((one) => one && !one.deletion_at);
  return found.length < 2 ? null : { cluster, distances, found };
}

// The view of a cluster: the kept document above, the others below, and the differences of the current one.
function clusterView({ cluster, distances, found }, { keepAndRemove, markNone, skip }) {
  let documents = found;
  let kept = documents[0].id;
  let current = documents[1].id;
  const list = h("ol", { class: "matches cluster" });
  const compared = h("div", {});
  const title = h("h2", { dir: "auto" });
  const size = h("span", { class: "note" });
  const removing = button("review.remove", keepAndRemove, { class: "primary" });
  const marking = button("review.mark", markNone);
  const reason = guard(removing, "write", chosenName);
  guard(marking, "write", chosenName);
  const node = h(
    "section",
    { class: "panel", tabindex: "-1" },
    h("div", { class: "row" }, title, h("span", { class: "grow" }), size),
    h(
      "div",
      { class: "row" },
      removing,
      button("review.keep", () => keep()),
      marking,
      button("review.skip", skip),
    ),
    reason,
    list,
    h("h3", { t: "review.differences" }),
    compared,
  );

  function draw() {
    const of = documents.find((one) => one.id === kept);
    fill(title, headline(of) || kept);
    say(size, ["review.size", { n: cluster.size - (found.length - documents.length) }]);
    fill(
      list,
      documents.map((one) =>
        card(one, {
          isKept: one.id === kept,
          isCurrent: one.id === current,
          // The distances are those to the representative.
          distance: kept === cluster.representative ? distances.get(one.id) : undefined,
          choose,
        }),
      ),
    );
    compare();
  }

  async function compare() {
    const [a, b] = [kept, current];
    if (a === b) return fill(compared, h("p", { class: "note", t: "review.same" }));
    const shown = h("div", {});
    await differences(a, b, shown);
    if (a === kept && b === current) fill(compared, shown);
  }

  function choose(id) {
    current = id;
    draw();
  }

  function step(by) {
    const place = documents.findIndex((one) => one.id === current);
    choose(documents[(place + by + documents.length) % documents.length].id);
    list.querySelector(".current")?.scrollIntoView({ block: "nearest" });
  }

  function keep() {
    kept = current;
    const other = documents.find((one) => one.id !== kept);
    current = other.id;
    draw();
  }

  return {
    node,
    id: cluster.representative,
    draw,
    step,
    keep,
    documents: () => documents,
    kept: () => kept,
    current: () => current,
    // Every document of the cluster, also those that are not shown, but for those that left it.
    async all() {
      const ids = documents.map((one) => one.id);
      for (let cursor = cluster.next; cursor;) {
        const of = { limit: MEMBERS, cursor };
        const page = await get(clusterPath(chosenName(), cluster.representative, of));
        ids.push(...page.members.map((member) => member.id));
        cursor = page.next;
      }
      return ids;
    },
    // Takes a document out of the cluster; returns whether two are left.
    leave(id) {
      documents = documents.filter((one) => one.id !== id);
      if (documents.length < 2) return false;
      current = documents.find((one) => one.id !== kept).id;
      draw();
      return true;
    },
  };
}

const first = (metadata, names) =>
  names.map((name) => metadata?.[name]).find((value) => value !== undefined);

// One document of a cluster.
function card(one, { isKept, isCurrent, distance, choose }) {
  const { id, metadata, text, written_at: written } = one;
  const source = first(metadata, SOURCES);
  const date = first(metadata, DATES);
  const pick = h(
    "button",
    { type: "button", class: "link", dir: "auto", on: { click: () => choose(id) } },
    headline(one) || id,
  );
  if (isCurrent) pick.setAttribute("aria-current", "true");
  return h(
    "li",
    { class: `match${isCurrent ? " current" : ""}` },
    h(
      "div",
      { class: "row" },
      isKept && h("span", { class: "tag good", t: "review.kept" }),
      pick,
      h("span", { class: "grow" }),
      distance !== undefined &&
        h("span", {
          class: "note",
          t: [chosen()?.signatures ? "find.cells" : "find.bits", { n: distance }],
        }),
    ),
    h(
      "div",
      { class: "row note" },
      h("a", { class: "mono", href: address("documents", { collection: chosenName(), id }) }, id),
      source !== undefined && h("span", {}, asLine(source)),
      date === undefined ? translated(() => time(written)) : h("span", {}, asLine(date)),
      text !== undefined && h("span", { t: ["review.length", { n: () => number([...text].length) }] }),
    ),
  );
}
