// Planned deletions: documents that the server deletes after the time that it is set to, unless that is
// undone. The server keeps the plan, so a closed tab loses nothing, and every user sees it.

import { at, post } from "./api.js";
import { button, fill, h, notice, show } from "./dom.js";
import { time } from "./format.js";
import { forget } from "./headlines.js";
import { chosenName } from "./pick.js";
import { problem } from "./problems.js";

// Documents in one request.
const PART = 1000;

async function each(name, ids, body) {
  const total = { planned: 0, cancelled: 0, at: null };
  for (let from = 0; from < ids.length; from += PART) {
    const part = ids.slice(from, from + PART);
    const answer = await post(at(name, "/deletions"), { ids: part, ...body });
    total.planned += answer.planned ?? 0;
    total.cancelled += answer.cancelled ?? 0;
    total.at = answer.deletion_at;
  }
  ids.forEach(forget);
  return total;
}

// Plans the deletion of documents, and returns how many there are and when they are deleted.
export const plan = (name, ids) => each(name, ids, { plan: true });

// Keeps documents after all, and returns how many there are.
export const cancel = async (name, ids) => (await each(name, ids, { cancel: true })).cancelled;

// The place that says what was planned, with a button that undoes it. `changed` is called after each change.
export function planner(changed) {
  const node = h("div", { "aria-live": "polite" });
  async function undo(name, ids) {
    try {
      const n = await cancel(name, ids);
      fill(node, notice("plain", h("span", { t: ["planned.undone", { n }] })));
      changed(ids);
    } catch (error) {
      fill(node, problem(error));
    }
  }
  return {
    node,
    // Plans the deletion of these documents.
    async remove(ids) {
      const name = chosenName();
      if (ids.length === 0) return;
      try {
        const { planned: n, at: when } = await plan(name, ids);
        const back = button("planned.undo", () => undo(name, ids), { class: "quiet" });
        const done = h("span", { t: ["planned.done", { n, at: () => time(when) }] });
        const row = h("div", { class: "row" }, done, back);
        fill(node, notice("warn", row));
        changed(ids);
        back.focus();
      } catch (error) {
        fill(node, problem(error));
      }
    },
    keep: (ids) => undo(chosenName(), ids),
    fail: (error) => fill(node, problem(error)),
    clear: () => show(fill(node), true),
  };
}
