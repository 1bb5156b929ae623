// The page that compares two texts, documents or hashes, and shows why they match or do not.

import { at, documentPath, get, post } from "./api.js";
import { bandCells, bitCells } from "./bits.js";
import { diffView } from "./diff.js";
import { button, field, figure, fill, h, notice, partOf, say, show, tableHead, translated } from "./dom.js";
import { decidedBy, featureLists, merged } from "./features.js";
import { number, percent } from "./format.js";
import { images, pictures } from "./image.js";
import { markState } from "./marks.js";
import { chosen, chosenName, mostDistance, onPick } from "./pick.js";
import { isAborted, problem } from "./problems.js";
import { asRequest, side } from "./side.js";

// Builds the page.
export function create() {
  let running = null;
  const sides = { a: null, b: null };
  const run = () => compare();
  sides.a = side("side.a", { onEnter: run, onInput: forget });
  sides.b = side("side.b", { onEnter: run, onInput: forget });
  const k = h("input", { type: "number", min: "0", max: "256", class: "short" });
  const go = button("compare.run", run, { class: "primary" });
  const result = h("div", { class: "result", "aria-live": "polite" });
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "compare.title" }), h("p", { t: "compare.intro" })),
    h("div", { class: "two" }, sides.a.node, sides.b.node),
    h(
      "div",
      { class: "row actions" },
      field("compare.k", k),
      go,
      button("compare.swap", swap, { class: "quiet" }),
    ),
    result,
  );
  onPick(() => {
    const collection = chosen();
    if (!collection) return;
    k.placeholder = collection.k;
    k.max = mostDistance(collection);
  });

  // A verdict is that of the texts that are shown.
  function forget() {
    running?.abort();
    fill(result);
  }

  function swap() {
    const [a, b] = [sides.a.value(), sides.b.value()];
    const put = (input, value) => input.set(value?.kind ?? "text", value?.content ?? "");
    put(sides.a, b);
    put(sides.b, a);
  }

  async function compare() {
    const values = ["a", "b"].map((name) => sides[name].value());
    const empty = values.findIndex((value) => value === null);
    if (empty >= 0) {
      fill(result, notice("warn", h("span", { t: empty === 0 ? "compare.empty.a" : "compare.empty.b" })));
      sides[empty === 0 ? "a" : "b"].focus();
      return;
    }
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    const collection = chosenName();
    go.setAttribute("aria-busy", "true");
    try {
      const wanted = { a: asRequest(values[0]), b: asRequest(values[1]), whole_diff: true };
      if (k.value !== "") wanted.k = Number(k.value);
      const compared = await post(at(collection, "/compare"), wanted, { signal });
      if (compared.compared === "images") {
        fill(result, verdict(compared), pictures(compared, values));
        return;
      }
      const explained = explanations(collection, compared.profile, values, signal);
      fill(result, verdict(compared), images(values), marking(values, signal), reasons(compared, explained));
    } catch (error) {
      if (!isAborted(error)) fill(result, problem(error));
    } finally {
      go.removeAttribute("aria-busy");
    }
  }

  return {
    node,
    // Fills in the sides that were handed over and compares them.
    show(parameters, payload) {
      const given = (name) =>
        payload?.[name] ?? (parameters.get(name) && { kind: "id", content: parameters.get(name) });
      const [a, b] = [given("a"), given("b")];
      if (a) sides.a.set(a.kind, a.content);
      if (b) sides.b.set(b.kind, b.content);
      if (a && b) compare();
    },
  };
}

// Whether two stored documents are marked as no duplicates; nothing for other sides.
function marking([a, b], signal) {
  const isPair = a.kind === "id" && b.kind === "id" && a.content !== b.content;
  return isPair && markState(a.content, b.content, { signal });
}

// The explanations of the fingerprints of both sides; `null` for a side without a text.
async function explanations(collection, profile, values, signal) {
  const one = async ({ kind, content }) => {
    let body = { [kind]: content };
    if (kind === "hash" || kind === "image") return null;
    if (kind === "id") {
      const document = await get(documentPath(collection, content), { signal });
      if (!document.text) return null;
      body = { text: document.text };
    }
    const made = await post("/fingerprint", { ...body, profile, explain: true }, { signal });
    return made.explanation;
  };
  return Promise.all(values.map(one));
}

// The reasons of the verdict. What needs the features is filled in when they have arrived.
function reasons(compared, explaining) {
  const isSigned = compared.bits.length === 0 && compared.similarity !== undefined;
  const bits = h("section", { class: "panel" }, h("h3", { t: isSigned ? "bands.title" : "bits.title" }));
  const features = h("section", { class: "panel" }, h("h3", { t: "features.title" }));
  if (isSigned) {
    const equal = compared.blocks.filter(Boolean).length;
    bits.append(
      h("p", { class: "note", t: ["bands.found", { n: equal, all: compared.blocks.length }] }),
      bandCells(compared.blocks),
    );
  }
  const wait = h("p", { class: "note", t: "features.wait" });
  features.append(wait);
  explaining.then(
    (both) => {
      const known = both[0] && both[1] ? merged(both) : null;
      if (!isSigned) bits.append(...cells(compared, both, known));
      if (known) wait.replaceWith(featureLists(known));
      else say(wait, "features.unknown");
    },
    (error) => {
      if (!isSigned) bits.append(...cells(compared, [null, null], null));
      if (!isAborted(error)) wait.replaceWith(problem(error));
    },
  );
  return h(
    "div",
    { class: "columns" },
    h("div", { class: "column" }, words(compared), passages(compared.containment)),
    h("div", { class: "column" }, bits, features),
  );
}

function cells(compared, explained, features) {
  const votes = explained.map((one) => (one && one.votes.length > 0 ? one.votes : null));
  const detail = h("div", { "aria-live": "polite" });
  const choose = (bit) => {
    if (features && votes[0] && votes[1]) fill(detail, decidedBy(features, bit, votes));
    else fill(detail, h("p", { class: "note", t: "bits.unknown" }));
  };
  const grid = bitCells([compared.a.hash, compared.b.hash], votes, choose);
  const legend = h(
    "p",
    { class: "legend" },
    h("span", { class: "key" }, h("i", { class: "one" }), h("span", { t: "bits.one" })),
    h("span", { class: "key" }, h("i", { class: "zero" }), h("span", { t: "bits.zero" })),
    h("span", { class: "key" }, h("i", { class: "differs" }), h("span", { t: "bits.marked" })),
  );
  const first = compared.bits.length > 0 ? Math.max(...compared.bits.map(({ bit }) => bit)) : null;
  if (first !== null && features && votes[0] && votes[1]) choose(first);
  return [h("p", { class: "note", t: "bits.note" }), legend, grid, detail];
}

// The verdict: whether they match, the distance on a scale, and the figures.
function verdict(compared) {
  const isSigned = compared.bits.length === 0 && compared.similarity !== undefined;
  const most = isSigned ? null : compared.a.hash.length * 4;
  const { distance, k, features, containment, similarity } = compared;
  const facts = { distance, k, all: most ?? 0 };
  const sentence = isSigned ? "verdict.cells" : "verdict.bits";
  const share = (value) => translated(() => percent(value));
  const rows = [
    similarity !== undefined && figure("verdict.similarity", share(similarity)),
    features &&
      figure("verdict.shared", share(features.jaccard), [
        "verdict.shared.note",
        { n: features.shared, m: features.differing },
      ]),
    features &&
      figure(
        "verdict.cosine",
        translated(() => number(features.cosine, 3)),
      ),
    containment && figure("verdict.ainb", share(containment.a_in_b)),
    containment && figure("verdict.bina", share(containment.b_in_a)),
    figure("verdict.profile", h("code", {}, compared.profile)),
  ];
  return h(
    "section",
    { class: "panel verdict" },
    h(
      "div",
      { class: "row" },
      h("span", {
        class: compared.match ? "badge good" : "badge bad",
        t: compared.match ? "verdict.match" : "verdict.none",
      }),
      partOf(compared.relation, `verdict.${compared.relation}`),
      h("p", { class: "lead", t: [sentence, facts] }),
    ),
    most && scale(distance, k, most),
    h("dl", { class: "figures" }, rows),
    ["a", "b"].map((name) => warning(name, compared[name])),
  );
}

// The distance and k on a scale, which ends where two unrelated texts are.
function scale(distance, k, bits) {
  const end = Math.max(bits / 2, distance);
  const place = (value) => `${(100 * value) / end}%`;
  return h(
    "div",
    { class: "scale", "aria-hidden": "true" },
    h(
      "div",
      { class: "track" },
      h("div", { class: "within", style: { "--at": place(k) } }),
      h("div", { class: distance <= k ? "dot good" : "dot bad", style: { "--at": place(distance) } }),
    ),
    h(
      "div",
      { class: "ticks" },
      h("span", {}, "0"),
      h("span", { class: "k", style: { "--at": place(k) } }, `k = ${k}`),
      h("span", { class: "end" }, String(end)),
    ),
  );
}

// What makes a fingerprint unreliable.
function warning(name, { status, sensitivity }) {
  if (status === undefined || status === "ok") return null;
  const share = () => percent(sensitivity ?? 0);
  return notice("warn", h("span", { t: [`status.${status}`, { side: name.toUpperCase(), share }] }));
}

function words(compared) {
  const panel = h("section", { class: "panel" });
  if (!compared.diff)
    return fill(panel, h("h3", { t: "diff.title" }), h("p", { class: "note", t: "diff.unknown" }));
  const { form, pane } = diffView(compared.diff);
  return fill(
    panel,
    h("div", { class: "row" }, h("h3", { t: "diff.title" }), h("span", { class: "grow" }), form),
    pane,
  );
}

// The passages that both texts have, side by side.
function passages(containment) {
  const panel = h("section", { class: "panel" }, h("h3", { t: "passages.title" }));
  if (!containment) return show(panel, false);
  if (containment.count === 0)
    return fill(panel, h("h3", { t: "passages.title" }), h("p", { class: "note", t: "passages.none" }));
  const part = (name, { start, end, text }) =>
    h(
      "td",
      { data: { side: name } },
      h("p", { class: "range" }, `${start}\u2013${end}`),
      h("p", { dir: "auto" }, text),
    );
  const row = (passage) =>
    h(
      "tr",
      {},
      part("A", passage.a),
      part("B", passage.b),
      h(
        "td",
        { class: "num" },
        translated(() => percent(passage.equal)),
      ),
    );
  panel.append(
    h("p", { class: "note", t: ["passages.count", { n: containment.count }] }),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", label: "passages.title" },
      h(
        "table",
        { class: "passages" },
        tableHead(["side.a", "side.b", "passages.equal"], 1),
        h("tbody", {}, containment.passages.map(row)),
      ),
    ),
  );
  return panel;
}
