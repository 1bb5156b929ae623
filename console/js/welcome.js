// What a new user sees on every page: an offer of sample data while the server has no documents, and to
// remove the sample.

import { guard } from "./access.js";
import { button, fill, h, notice } from "./dom.js";
import { choose, chosenName, collections, load, onPick } from "./pick.js";
import { problem } from "./problems.js";
import { address, go } from "./route.js";

const SAMPLE = "sample";

// The place of the offer.
export function welcome() {
  const node = h("div", { class: "welcome" });
  const state = h("div", {});

  const run = (message, work, properties) => {
    const control = button(
      message,
      async () => {
        control.setAttribute("aria-busy", "true");
        control.disabled = true;
        try {
          fill(state, await work(await import("./sample.js")));
        } catch (error) {
          fill(state, problem(error));
        } finally {
          control.removeAttribute("aria-busy");
          control.disabled = false;
        }
      },
      properties,
    );
    return control;
  };

  async function add(sample) {
    await sample.add();
    await load();
    choose(SAMPLE);
    go("review", { collection: SAMPLE });
    return null;
  }

  async function remove(sample) {
    if (!(await sample.remove())) return notice("warn", h("span", { t: "welcome.others" }));
    await load();
    return null;
  }

  function draw() {
    const all = collections();
    const isEmpty = all.length > 0 && all.every((one) => one.documents === 0);
    const hasSample =
      chosenName() === SAMPLE && all.some((one) => one.name === SAMPLE && one.documents > 0);
    if (!isEmpty && !hasSample) return fill(node);
    const control = isEmpty
      ? run("welcome.add", add, { class: "primary" })
      : run("welcome.remove", remove, { class: "quiet" });
    const reason = guard(control, "admin", () => SAMPLE);
    const own = isEmpty && h("a", { href: address("import"), t: "welcome.import" });
    const words = h("span", { t: isEmpty ? "welcome.empty" : "welcome.sample" });
    fill(
      node,
      notice(
        "plain",
        h("div", { class: "row" }, words, h("span", { class: "grow" }), control, own),
        reason,
        state,
      ),
    );
  }
  onPick(draw);
  return node;
}
