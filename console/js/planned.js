// Planned deletions: documents that the server deletes after the time that it is set to, unless that is
// undone. The server keeps the plan, so a closed tab loses nothing, and every user sees it.

import { at, get, post } from "./api.js";
import { button, fill, h, notice, show } from "./dom.js";
import { time } from "./format.js";
import { forget } from "./headlines.js";
import { chosenName } from "./pick.js";
import { problem } from "./problems.js";

// Documents in one request, and milliseconds between two looks at a deletion by a filter.
const PART = 1000;
const AGAIN = 300;

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

// Does something with all documents that pass a filter, `null` for all; the server goes on with it in the
// background. `progress` gets the counts until then.
export async function byFilter(name, filter, body, progress = () => {}) {
  const path = at(name, "/deletions");
  let answer = await post(path, { filter, ...body });
  while (!answer.ended_at) {
    progress(answer);
    await new Promise((done) => setTimeout(done, AGAIN));
    answer = await get(path);
  }
  return answer;
}

// Plans the deletion of documents, and returns how many there are and when they are deleted.
export const plan = (name, ids) => each(name, ids, { plan: true });

// Keeps documents after all, and returns how many there are.
export const cancel = async (name, ids) => (await each(name, ids, { cancel: true })).cancelled;

// The place that says what was planned, with a button that undoes it. `changed` is called after each change,
// with the ids, or with `null` if a filter chose the documents.
export function planner(changed) {
  const node = h("div", { "aria-live": "polite" });
  async function attempt(step) {
    try {
      await step();
    } catch (error) {
      fill(node, problem(error));
    }
  }
  const undo = (cancelling, ids) =>
    attempt(async () => {
      const n = await cancelling();
      fill(node, notice("plain", h("span", { t: ["planned.undone", { n }] })));
      changed(ids);
    });
  function told(n, when, before, back) {
    if (n === 0) return fill(node, notice("plain", h("span", { t: "planned.none" })));
    const done = h("span", { t: ["planned.done", { n, at: () => time(when) }] });
    const note = before > 0 && h("p", { class: "note", t: ["planned.before", { n: before }] });
    fill(node, notice("warn", h("div", { class: "row" }, done, back), note));
    back.focus();
  }
  const backButton = (listener) => button("planned.undo", listener, { class: "quiet" });
  const keep = (name, ids) => undo(() => cancel(name, ids), ids);
  const keepAll = (name, filter) =>
    undo(async () => {
      const planned = { ...filter, deletion_planned: true };
      return (await byFilter(name, planned, { cancel: true })).cancelled;
    }, null);
  return {
    node,
    // Plans the deletion of these documents.
    remove: (ids) =>
      attempt(async () => {
        const name = chosenName();
        if (ids.length === 0) return;
        const { planned: n, at: when } = await plan(name, ids);
        changed(ids);
        told(n, when, 0, backButton(() => keep(name, ids)));
      }),
    // Plans the deletion of all documents that pass a filter and are not planned to be deleted yet.
    removeAll: (filter) =>
      attempt(async () => {
        const name = chosenName();
        const before = await byFilter(name, { ...filter, deletion_planned: true }, { dry_run: true });
        const wanted = { ...filter, deletion_planned: false };
        const { planned: n, deletion_at: when } = await byFilter(name, wanted, { plan: true });
        changed(null);
        told(n, when, before.matched, backButton(() => keepAll(name, filter)));
      }),
    keep: (ids) => keep(chosenName(), ids),
    keepAll: (filter) => keepAll(chosenName(), filter),
    clear: () => show(fill(node), true),
  };
}
