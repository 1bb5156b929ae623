// The page that finds the neighbours of a text, a document or a hash. A slider moves k.

import { at, documentPath, get, post } from "./api.js";
import { button, field, figure, fill, h, notice, partOf, say, show, tableHead, translated } from "./dom.js";
import { number, percent, span } from "./format.js";
import { markButton } from "./marks.js";
import { chosen, chosenName, mostDistance, onPick } from "./pick.js";
import { isAborted, problem } from "./problems.js";
import { address, go } from "./route.js";
import { asRequest, side } from "./side.js";

// Matches on a page of the list, and milliseconds between a move of the slider and the query.
const LIMIT = 50;
const DELAY = 60;
// Characters of a kept text that are shown.
const SNIPPET = 220;

// Builds the page.
export function create() {
  const query = side("find.query", { onEnter: () => find(), onInput: () => forget() });
  const reach = slider(() => moved());
  const least = h("input", { type: "number", class: "short", min: "0", max: "1", step: "0.05" });
  const run = button("find.run", () => find(), { class: "primary" });
  const state = h("div", { class: "findstate" });
  const summary = h("p", { class: "lead", "aria-live": "polite" });
  const warnings = h("div", {});
  const list = h("ol", { class: "matches" });
  const more = h("div", {});
  const plan = h("div", {});
  const items = new Map();
  const result = h(
    "div",
    { class: "result", hidden: true },
    h("section", { class: "panel" }, summary, warnings, list, more),
    plan,
  );
  let asked = null;
  let running = null;
  let timer = 0;

  const node = h(
    "div",
    { class: "page search" },
    h("div", { class: "head" }, h("h1", { t: "find.title" }), h("p", { t: "find.intro" })),
    h(
      "div",
      { class: "asking" },
      query.node,
      h(
        "section",
        { class: "panel reach" },
        reach.node,
        run,
        field("find.least", least, "find.least.note"),
      ),
      state,
    ),
    result,
  );

  let of = chosenName();
  onPick(() => {
    forget();
    reach.fit(chosen());
    if (of === chosenName()) return;
    of = chosenName();
    least.value = "";
    show(result, false);
  });

  function forget() {
    asked = null;
  }

  function moved() {
    if (!asked) return;
    clearTimeout(timer);
    timer = setTimeout(() => find(true), DELAY);
  }

  // Queries. After a move of the slider the known hash is used, so that a text is not fingerprinted again.
  async function find(isMove = false) {
    const value = query.value();
    if (!value) {
      fill(state, notice("warn", h("span", { t: "find.empty" })));
      query.focus();
      return;
    }
    const collection = chosen();
    running?.abort();
    running = new AbortController();
    run.setAttribute("aria-busy", "true");
    try {
      const canReuse =
        isMove &&
        asked?.hash &&
        !collection.signatures &&
        !collection.passages &&
        value.kind !== "id" &&
        least.value === "";
      const subject = canReuse ? { hash: asked.hash } : asRequest(value, collection.signatures);
      const body = { ...subject, ...reach.value(), limit: LIMIT, stats: true };
      if (least.value !== "") body.min_similarity = Number(least.value);
      const start = performance.now();
      const answer = await post(at(collection.name, "/similar"), body, { signal: running.signal });
      const seconds = (performance.now() - start) / 1000;
      // The entries of another query have its buttons.
      if (!isMove) items.clear();
      if (!canReuse) asked = { value, hash: answer.hash, status: answer.status, collection, body };
      fill(state);
      draw(answer, seconds);
    } catch (error) {
      if (isAborted(error)) return;
      fill(state, problem(error));
      show(result, false);
    } finally {
      run.removeAttribute("aria-busy");
    }
  }

  function draw(answer, seconds) {
    show(result, true);
    const isMore = answer.next !== undefined;
    const facts = {
      n: answer.similar.length,
      k: answer.k,
      threshold: () => number(answer.threshold ?? 0, 2),
    };
    say(summary, [
      `find.found.${asked.collection.signatures ? "threshold" : "k"}${isMore ? "more" : ""}`,
      facts,
    ]);
    const left = answer.marked && h("p", { class: "note", t: ["marks.left", { n: answer.marked }] });
    const fewest = asked.collection.passages === "exact" ? 1 : 2;
    const short = answer.passages?.grams < fewest && h("p", { class: "note", t: "find.passages.short" });
    fill(warnings, warning(asked.status, answer.sensitivity), left, short, missing(answer));
    drawList(answer);
    fill(plan, planOf(answer, seconds));
  }

  // What is missing in the list because the collection keeps no texts, and how to get it.
  function missing({ similar }) {
    const { name, keep_text } = asked.collection;
    if (keep_text || similar.length === 0) return null;
    const href = address("collections", { collection: name });
    return h(
      "p",
      { class: "note" },
      h("span", { t: "find.notexts" }),
      " ",
      h("a", { href, t: "find.notexts.link" }),
    );
  }

  // Lists the matches, then the documents that only share passages. Keeps the entries that stay, so that only
  // new ones fade in.
  function drawList(answer) {
    const found = answer.passages?.documents ?? [];
    const parts = new Map(found.map((one) => [one.id, one.shared]));
    const near = new Set(answer.similar.map((match) => match.id));
    const all = [...answer.similar, ...found.filter((one) => !near.has(one.id))];
    const kept = all.map((match) => {
      const found = items.get(match.id);
      const item = found && found.distance === match.distance ? found : entry(match);
      item.fit(match, reach.most(), parts.get(match.id));
      return [match.id, item];
    });
    items.clear();
    kept.forEach(([id, item]) => items.set(id, item));
    fill(
      list,
      kept.map(([, item]) => item.node),
    );
    if (kept.length === 0) fill(list, nothing());
    fill(more, answer.next && button("find.more", () => nextPage(answer.next), { class: "quiet" }));
  }

  // Says why nothing is found: the documents are too far, or not similar enough, which a button mends.
  function nothing() {
    const line = h("li", { class: "none", t: "find.none" });
    if (asked.body.min_similarity) leftOut(line).catch((error) => fill(line, problem(error)));
    return line;
  }

  // Looks for what the least similarity left out.
  async function leftOut(line) {
    const of = asked.body.min_similarity;
    const body = { ...asked.body, ...reach.value(), min_similarity: 0 };
    const { similar, next } = await post(at(asked.collection.name, "/similar"), body, {
      signal: running.signal,
    });
    if (similar.length === 0) return;
    const most = Math.max(...similar.map((match) => match.similarity ?? 0));
    // Rounded down, so that the most similar one is found.
    const lower = Math.floor(most * 100) / 100;
    const said = [
      `find.leftout.${next ? "more" : "all"}`,
      { n: similar.length, least: () => number(of, 3), most: () => number(lower, 2) },
    ];
    const lowering = button(["find.lower", { least: () => number(lower, 2) }], lowerTo, { class: "quiet" });
    function lowerTo() {
      least.value = lower;
      find();
    }
    fill(line, h("div", { class: "row" }, h("span", { t: said }), lowering));
  }

  async function nextPage(cursor) {
    try {
      const answer = await post(at(asked.collection.name, "/similar"), {
        ...asked.body,
        ...reach.value(),
        cursor,
      });
      answer.similar.forEach((match) => {
        items.get(match.id)?.node.remove();
        const item = entry(match);
        item.fit(match, reach.most());
        items.set(match.id, item);
        list.append(item.node);
      });
      fill(more, answer.next && button("find.more", () => nextPage(answer.next), { class: "quiet" }));
    } catch (error) {
      fill(more, problem(error));
    }
  }

  // Opens the comparison of the query with a document.
  const compareWith = (id) => go("compare", {}, { a: asked.value, b: { kind: "id", content: id } });
  // Marks the document of the query and another one as no duplicates.
  const mark = (id) => asked.value.kind === "id" && markButton(asked.value.content, id);

  function entry(match) {
    const bar = h("div", { class: "distance", "aria-hidden": "true" }, h("i", {}));
    const far = h("span", { class: "far mono" });
    const text = h("p", { class: "snippet", dir: "auto", hidden: true });
    const part = h("p", { class: "note" });
    const metadata = Object.entries(match.metadata ?? {}).map(([name, value]) =>
      h(
        "span",
        { class: "tag" },
        h("b", {}, name),
        ` ${typeof value === "string" ? value : JSON.stringify(value)}`,
      ),
    );
    const item = h(
      "li",
      { class: "match" },
      h(
        "div",
        { class: "row" },
        far,
        bar,
        h("span", { class: "id mono" }, match.id),
        match.similarity !== undefined &&
          h(
            "span",
            { class: "tag good" },
            translated(() => percent(match.similarity)),
          ),
        partOf(match.relation, `find.${match.relation}`),
        h("span", { class: "grow" }),
        mark(match.id),
        button("find.compare", () => compareWith(match.id), {
          class: "quiet",
          label: ["find.compare.with", { id: match.id }],
        }),
      ),
      metadata.length > 0 && h("div", { class: "tags" }, metadata),
      part,
      text,
    );
    if (chosen()?.keep_text) snippet(match.id, text);
    return {
      node: item,
      distance: match.distance,
      fit({ distance }, most, passages) {
        say(part, passages ? ["find.shares", shares(passages)] : null);
        const unit = chosen()?.signatures ? "find.cells" : "find.bits";
        say(far, distance === undefined ? "find.part" : [unit, { n: distance }]);
        show(bar, distance !== undefined);
        bar.style.setProperty("--share", `${Math.min(1, (distance ?? 0) / most) * 100}%`);
      },
    };
  }

  async function snippet(id, place) {
    try {
      const { text } = await get(documentPath(chosenName(), id));
      if (!text) return;
      const start = [...text.slice(0, 2 * SNIPPET)].slice(0, SNIPPET).join("");
      place.textContent = start.length < text.length ? `${start}\u2026` : start;
      show(place, true);
    } catch {
      // The list is useful without the texts; the next request shows what is wrong.
    }
  }

  return {
    node,
    // Fills in the query that was handed over and runs it.
    show(parameters, payload) {
      const given =
        payload ??
        ["id", "hash"]
          .map((kind) => parameters.get(kind) && { kind, content: parameters.get(kind) })
          .find(Boolean);
      if (!given) return;
      query.set(given.kind, given.content);
      if (given.k !== undefined) reach.set(given.k);
      find();
    },
  };
}

// How much of the query and of a document is in the other one.
const shares = (shared) => ({
  query: () => percent(shared?.query_in_document ?? 0),
  document: () => percent(shared?.document_in_query ?? 0),
});

// What makes the fingerprint of the query unreliable.
function warning(status, sensitivity) {
  if (status === undefined || status === "ok") return null;
  return notice(
    "warn",
    h("span", { t: [`find.status.${status}`, { share: () => percent(sensitivity ?? 0) }] }),
  );
}

// How the answer was found, on demand.
function planOf({ stats }, seconds) {
  if (!stats) return null;
  const blocks = stats.radii.map((radius, block) =>
    h(
      "tr",
      {},
      h("td", { class: "num" }, String(block)),
      h("td", { class: "num" }, radius < 0 ? "\u2013" : String(radius)),
      h("td", { class: "num" }, String(stats.bits[block] ?? "")),
    ),
  );
  return h(
    "details",
    { class: "panel" },
    h("summary", { t: "plan.title" }),
    h(
      "dl",
      { class: "figures" },
      figure("plan.method", h("span", { t: `plan.method.${stats.method}` })),
      figure(
        "plan.probes",
        translated(() => number(stats.probes)),
      ),
      figure(
        "plan.candidates",
        translated(() => number(stats.candidates)),
      ),
      figure(
        "plan.verified",
        translated(() => number(stats.verified)),
      ),
      figure(
        "plan.time",
        translated(() => span(stats.microseconds / 1e6)),
      ),
      figure(
        "plan.roundtrip",
        translated(() => span(seconds)),
      ),
      stats.caught !== undefined &&
        figure(
          "plan.caught",
          translated(() => percent(stats.caught, 1)),
        ),
    ),
    blocks.length > 0 &&
      h(
        "table",
        { class: "plan" },
        h("caption", { t: "plan.radii.note" }),
        tableHead(["plan.block", "plan.radius", "plan.bits"], 3),
        h("tbody", {}, blocks),
      ),
  );
}

// The slider of the distance, or of the similarity in a collection of signatures.
function slider(moved) {
  const range = h("input", { type: "range", id: "reach", min: "0", step: "1" });
  const exact = h("input", { type: "number", class: "short", min: "0", label: "find.k" });
  const label = h("label", { for: "reach" });
  const usual = h("span", { class: "note" });
  let isThreshold = false;
  const set = (value) => {
    range.value = value;
    exact.value = value;
  };
  const changed = (from) => {
    set(from.value);
    moved();
  };
  range.addEventListener("input", () => changed(range));
  exact.addEventListener("input", () => exact.value !== "" && changed(exact));
  return {
    node: h("div", { class: "slider" }, h("div", { class: "row" }, label, usual), range, exact),
    set,
    // The member of a request.
    value: () => (isThreshold ? { threshold: Number(exact.value) } : { k: Number(exact.value) }),
    // The distance at the right end of the bars.
    most: () => (isThreshold ? Math.max(1, chosen()?.signatures.cells ?? 1) : Number(range.max)),
    // Takes the range and the default of a collection.
    fit(collection) {
      if (!collection) return;
      isThreshold = Boolean(collection.signatures);
      const most = mostDistance(collection);
      range.max = isThreshold ? 1 : Math.ceil((most * 5) / 16);
      range.step = isThreshold ? 0.01 : 1;
      exact.step = range.step;
      exact.max = isThreshold ? 1 : most;
      set(isThreshold ? Math.round((collection.threshold ?? 0.5) * 100) / 100 : collection.k);
      say(label, isThreshold ? "find.threshold" : "find.k");
      say(usual, isThreshold ? null : ["find.usual", { k: collection.k }]);
    },
  };
}
