// Two fingerprints as cells, one pair for each bit, in the order of the hexadecimal digits. Differing
// bits are marked, and the colour of a cell is as strong as its margin: a pale cell depends on few
// features.

import { h, sayAttribute } from "./dom.js";
import { number } from "./format.js";

const BLOCK = 16;

// A bit of a hash; bit 0 is the least significant.
export function bitOf(hash, bit) {
  return (parseInt(hash[hash.length - 1 - (bit >> 2)], 16) >> (bit & 3)) & 1;
}

// The bits of a hash, the least significant first.
function bitsOf(hash) {
  return Array.from({ length: hash.length * 4 }, (_, bit) => bitOf(hash, bit));
}

// The cells. `votes` has the sums of both sides, or `null` for a side without a text. `choose` gets the
// number of a bit that the user selects.
export function bitCells(hashes, votes, choose) {
  const bits = hashes.map(bitsOf);
  const width = bits[0].length;
  const greatest = votes.map((sums) => (sums ? Math.max(...sums.map(Math.abs)) || 1 : 1));
  const cells = new Map();
  let focused = width - 1;

  const cell = (bit) => {
    const differs = bits[0][bit] !== bits[1][bit];
    const half = (side) => {
      const strength = votes[side] ? Math.abs(votes[side][bit]) / greatest[side] : 0.6;
      const value = bits[side][bit];
      return h("span", {
        class: value ? "one" : "zero",
        style: { "--strength": strength.toFixed(2) },
        data: { value },
      });
    };
    const node = h(
      "button",
      { type: "button", class: differs ? "bit differs" : "bit", tabindex: bit === focused ? "0" : "-1" },
      half(0),
      half(1),
    );
    sayAttribute(node, "aria-label", [
      differs ? "bits.differs" : "bits.equal",
      {
        bit: String(bit),
        a: String(bits[0][bit]),
        b: String(bits[1][bit]),
      },
    ]);
    node.dataset.bit = bit;
    cells.set(bit, node);
    return node;
  };

  const block = (index) => {
    const from = width - (index + 1) * BLOCK;
    const members = Array.from({ length: BLOCK }, (_, at) => from + BLOCK - 1 - at);
    const digits = hashes.map((hash) => hash.slice(index * 4, index * 4 + 4));
    const isEqual = digits[0] === digits[1];
    return h(
      "div",
      { class: isEqual ? "block equal" : "block" },
      h("div", { class: "digits mono" }, h("span", {}, digits[0]), !isEqual && h("span", {}, digits[1])),
      h("div", { class: "bits" }, members.map(cell)),
    );
  };

  const node = h(
    "div",
    { class: "blocks", role: "group", label: "bits.label" },
    Array.from({ length: width / BLOCK }, (_, index) => block(index)),
  );

  const focus = (bit) => {
    if (!cells.has(bit)) return;
    cells.get(focused).tabIndex = -1;
    focused = bit;
    cells.get(bit).tabIndex = 0;
    cells.get(bit).focus();
  };
  const select = (bit) => {
    cells.forEach((one, at) => one.setAttribute("aria-pressed", String(at === bit)));
    choose(bit);
  };
  node.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: 1, ArrowRight: -1, ArrowUp: BLOCK, ArrowDown: -BLOCK };
    const to = { Home: width - 1, End: 0 }[event.key] ?? (steps[event.key] && focused + steps[event.key]);
    if (to === undefined) return;
    event.preventDefault();
    focus(to);
  });
  node.addEventListener("click", (event) => {
    const chosen = event.target.closest(".bit");
    if (!chosen) return;
    const bit = Number(chosen.dataset.bit);
    focus(bit);
    select(bit);
  });
  return node;
}

// The bands of two signatures: which are equal in all their cells.
export function bandCells(equal) {
  const cell = (isEqual, band) =>
    h("span", {
      class: isEqual ? "band equal" : "band",
      tip: [isEqual ? "bands.equal" : "bands.differs", { band }],
    });
  const of = { n: equal.filter(Boolean).length, all: equal.length };
  return h("div", { class: "bands", role: "img", label: ["bands.label", of] }, equal.map(cell));
}

// A sum of votes with its sign.
export const margin = (sum) => `${sum > 0 ? "+" : ""}${number(sum, 1).replace("-", "\u2212")}`;
