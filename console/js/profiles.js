// The table that explains the profiles, from which one is chosen for a new collection.

import { h, tableHead, translated } from "./dom.js";
import { bytes, percent } from "./format.js";
import { has, t } from "./i18n.js";

const shortName = (id) => id.split("@")[0];

// The profiles that are shown first.
const USUAL = ["copies-128", "copies-64", "short-128", "minhash-copies"];
const rank = ({ profile }) => USUAL.indexOf(shortName(profile));
const isUsual = ({ profile }) => USUAL.includes(shortName(profile));

// What a profile is for: in the language of the page if it is built in, else in the words of its definition.
const about = ({ profile, summary }) => {
  const key = `profile.${shortName(profile)}`;
  return has(key) ? t(key) : summary;
};

// Bytes of the index for a document, by the bits of its hash, or by the profile if it makes signatures.
const MEMORY = {
  64: 35,
  128: 130,
  256: 340,
  "minhash-copies": 825,
  minhash: 400,
  "minhash-code": 1250,
  "longest-sentences": 165,
};

// What a million documents take; nothing if that is not known.
const price = ({ profile, bits, cells }) => {
  const each = MEMORY[cells ? shortName(profile) : bits];
  if (!each) return null;
  // In a narrow window there is no head.
  const head = h("span", { class: "note", t: "profiles.price" });
  return [head, " ", translated(() => bytes(each * 1e6))];
};

// How documents are compared.
const details = ({ bits, k, cells, threshold }) =>
  cells
    ? ["profiles.cells", { cells, share: () => percent(threshold) }]
    : ["profiles.bits", { bits, k }];

// The table. `choose` gets the profile that the user selects.
export function profileTable(profiles, chosen, choose) {
  const row = (profile) => {
    const input = h("input", {
      type: "radio",
      name: "profile",
      value: profile.profile,
      checked: profile.profile === chosen,
    });
    input.addEventListener("change", () => choose(profile));
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("label", {}, input, h("code", {}, profile.profile))),
      h(
        "td",
        {},
        translated(() => about(profile)),
        h(
          "details",
          { class: "note" },
          h("summary", { t: "profiles.details" }),
          h("span", { t: details(profile) }),
        ),
      ),
      h("td", { class: "num" }, price(profile)),
    );
  };
  const heads = ["profiles.name", "profiles.about", "profiles.price"];
  const table = (some, label) =>
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", label },
      h("table", { class: "profiles" }, tableHead(heads, 1), h("tbody", {}, some.map(row))),
    );
  const first = profiles.filter(isUsual).sort((a, b) => rank(a) - rank(b));
  const others = profiles.filter((one) => !isUsual(one));
  const more = h("details", {}, h("summary", { t: "profiles.more" }), table(others, "profiles.more"));
  return h("div", { class: "stack" }, table(first, "profiles.title"), others.length > 0 && more);
}
