// The settings of the chosen collection that can be changed: k, kept texts, and by a reindex the profile.

import { guard } from "./access.js";
import { at, call } from "./api.js";
import { button, field, fill, h, notice, say, show } from "./dom.js";
import { chosen, chosenName, knownProfiles, load } from "./pick.js";
import { problem } from "./problems.js";
import { reindex } from "./reindex.js";

// The form.
export function settingsForm() {
  const k = h("input", { type: "number", class: "short", min: "0", step: "any" });
  const texts = h("input", { type: "checkbox" });
  const profile = h("select", {});
  const state = h("div", { "aria-live": "polite" });
  const note = h("p", { class: "note" });
  const save = h("button", { type: "submit", class: "primary", t: "settings.save" });
  const weights = h(
    "select",
    {},
    ["", "learned", "none"].map((one) =>
      h("option", { value: one, t: `settings.weights.${one || "kept"}` }),
    ),
  );
  const again = button("settings.reindex", () => {
    const chosen = weights.value ? { weights: weights.value } : {};
    return reindex({ profile: profile.value, ...chosen }, state);
  });
  const weighed = h("p", { class: "note" });
  const label = field("make.k", k);
  const form = h(
    "form",
    {},
    h(
      "div",
      { class: "row fields" },
      label,
      h("label", { class: "tick" }, texts, h("span", { t: "make.text" })),
      h("div", { class: "row" }, save),
    ),
    guard(save, "admin", chosenName),
    h(
      "div",
      { class: "row actions" },
      field("settings.profile", profile),
      field("settings.weights", weights),
      again,
    ),
    note,
    weighed,
    guard(again, "admin", chosenName),
    state,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const own = chosen();
    const limit = own.signatures ? { threshold: Number(k.value) } : { k: Number(k.value) };
    try {
      const kept = own.keep_thumbnail === undefined ? "keep_text" : "keep_thumbnail";
      await call("PUT", at(own.name), { body: { ...limit, [kept]: texts.checked } });
      fill(state, notice("good", h("span", { t: ["settings.saved", { name: own.name }] })));
      await load();
    } catch (error) {
      fill(state, problem(error));
    }
  });
  const node = h("details", { class: "panel" }, h("summary", { t: "settings.title" }), form);
  let of = null;
  return {
    node,
    // Shows the settings of the chosen collection.
    fit() {
      const own = chosen();
      show(node, Boolean(own));
      if (!own) return;
      if (of !== own.name) fill(state);
      of = own.name;
      say(label.querySelector("label"), own.signatures ? "find.threshold" : "make.k");
      k.value = own.signatures ? own.threshold : own.k;
      texts.checked = own.keep_thumbnail ?? own.keep_text;
      fill(
        profile,
        knownProfiles().map((one) => h("option", { value: one.profile }, one.profile)),
      );
      profile.value = own.profile;
      weights.value = "";
      show(weighed, Boolean(own.weights));
      if (own.weights) say(weighed, ["settings.weighed", { n: own.weights.documents, ...own.weights }]);
      [save, again].forEach((one) => one.checkAccess());
      again.disabled ||= !own.keep_text;
      say(note, own.keep_text ? "settings.reindex.note" : "settings.reindex.notext");
    },
  };
}
