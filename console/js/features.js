// The features of two texts: which both have, and which decided a bit.

import { bitOf, margin } from "./bits.js";
import { button, choice, fill, h } from "./dom.js";
import { significant } from "./format.js";

// Rows of the table for a bit, and features shown at first.
const ROWS = 16;
const AT_FIRST = 120;

// The features of both explanations: text, the weights on both sides, and the hash.
export function merged(explanations) {
  const found = new Map();
  explanations.forEach((explanation, side) => {
    for (const { text, words, weight, hash } of explanation.features) {
      const known = found.get(text) ?? { text, words, hash, weights: [0, 0] };
      known.weights[side] = weight;
      found.set(text, known);
    }
  });
  return [...found.values()];
}

// A feature with its spaces visible: they are part of grams. A gram that is no word has the words beside it
// that it comes from.
function shown({ text, words = [] }) {
  const feature = h("span", { class: "feature", dir: "auto" }, text.replaceAll(" ", "\u2423"));
  if (words.length === 0 || words[0] === text) return feature;
  return h("span", {}, feature, h("span", { class: "origin", dir: "auto" }, ` ${words.join(", ")}`));
}

// The features that decided a bit, those that changed its sum most first; for an equal bit the heaviest.
export function decidedBy(features, bit, votes) {
  const differs = Math.sign(votes[0][bit]) !== Math.sign(votes[1][bit]);
  const rows = features.map(({ text, words, hash, weights }) => {
    const sign = bitOf(hash, bit) ? 1 : -1;
    return { text, words, sums: weights.map((weight) => sign * weight) };
  });
  const change = ({ sums }) => Math.abs(sums[1] - sums[0]);
  const weight = ({ sums }) => Math.max(...sums.map(Math.abs));
  rows.sort((one, other) => (differs && change(other) - change(one)) || weight(other) - weight(one));
  const kept = rows.slice(0, ROWS);
  const greatest = Math.max(...kept.map(weight));
  const bar = (sum) => {
    const share = `${(Math.abs(sum) / greatest) * 50}%`;
    return h(
      "td",
      { class: "vote" },
      h("span", { class: sum < 0 ? "pull against" : "pull for", style: { "--share": share } }),
      h("span", { class: sum === 0 ? "mono zero" : "mono" }, sum === 0 ? "\u2013" : margin(sum)),
    );
  };
  const head = (side) =>
    h(
      "th",
      { scope: "col" },
      h("span", { t: `side.${side}` }),
      ` ${margin(votes[side === "a" ? 0 : 1][bit])}`,
    );
  return h(
    "div",
    { class: "decided" },
    h("h4", { t: [differs ? "bits.title.differs" : "bits.title.equal", { bit: String(bit) }] }),
    h("p", { class: "note", t: "bits.explained" }),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", label: "bits.table" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col", t: "features.one" }), head("a"), head("b"))),
        h(
          "tbody",
          {},
          kept.map((row) =>
            h("tr", {}, h("th", { scope: "row" }, shown(row)), row.sums.map(bar)),
          ),
        ),
      ),
    ),
  );
}

// The lists of features: of both sides, of `a` only, of `b` only.
export function featureLists(features) {
  const of = {
    both: features.filter(({ weights }) => weights[0] > 0 && weights[1] > 0),
    a: features.filter(({ weights }) => weights[1] === 0),
    b: features.filter(({ weights }) => weights[0] === 0),
  };
  Object.values(of).forEach((list) =>
    list.sort((one, other) => Math.max(...other.weights) - Math.max(...one.weights)),
  );
  const list = h("ul", { class: "features", tabindex: "0", label: "features.title" });
  const more = h("div", {});
  const item = (feature) => {
    const [a, b] = feature.weights.map(significant);
    return h("li", { tip: ["features.weights", { a, b }] }, shown(feature));
  };
  const draw = (which, count) => {
    fill(list, of[which].slice(0, count).map(item));
    const rest = of[which].length - count;
    fill(
      more,
      rest > 0 &&
        button(["features.more", { n: rest }], () => draw(which, of[which].length), { class: "quiet" }),
    );
    if (of[which].length === 0) fill(list, h("li", { class: "none", t: "features.none" }));
  };
  const values = ["both", "a", "b"].map((which) => [
    which,
    [`features.${which}`, { n: of[which].length }],
  ]);
  const chosen = of.a.length + of.b.length > 0 && of.both.length === 0 ? "a" : "both";
  draw(chosen, AT_FIRST);
  return h(
    "div",
    {},
    choice("features.which", values, chosen, (which) => draw(which, AT_FIRST)),
    list,
    more,
  );
}
