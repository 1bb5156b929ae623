// The table that explains the profiles, from which one is chosen for a new collection.

import { h, tableHead, translated } from "./dom.js";
import { percent } from "./format.js";
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
      ),
      h(
        "td",
        { class: "num" },
        profile.cells ? h("span", { t: ["profiles.cells", { n: profile.cells }] }) : String(profile.bits),
      ),
      h(
        "td",
        { class: "num" },
        profile.threshold === undefined
          ? String(profile.k)
          : translated(() => percent(profile.threshold)),
      ),
    );
  };
  const heads = ["profiles.name", "profiles.about", "profiles.bits", "profiles.k"];
  const table = (some, label) =>
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", label },
      h("table", { class: "profiles" }, tableHead(heads, 2), h("tbody", {}, some.map(row))),
    );
  const first = profiles.filter(isUsual).sort((a, b) => rank(a) - rank(b));
  const others = profiles.filter((one) => !isUsual(one));
  const more = h("details", {}, h("summary", { t: "profiles.more" }), table(others, "profiles.more"));
  return h("div", { class: "stack" }, table(first, "profiles.title"), others.length > 0 && more);
}
