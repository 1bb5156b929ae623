// Marks of documents as no duplicates: a button that marks a pair and can undo it, and the list of a
// collection.

import { refusal } from "./access.js";
import { at, call, get, post } from "./api.js";
import { button, fill, h, show, tableHead, translated } from "./dom.js";
import { time } from "./format.js";
import { chosenName } from "./pick.js";
import { isAborted, problem } from "./problems.js";

// Marks on a page of the list, and the most that a document has.
const MARKS = 50;
const OF_ONE = 1000;

const remove = (name, [id, other]) =>
  call("DELETE", at(name, `/marks?${new URLSearchParams(other === undefined ? { id } : { id, other })}`));

// A button that marks two documents as no duplicates, in an entry of a list or an element of the class
// `markable`, which it replaces; `null` if the key may not do that.
export function markButton(a, b) {
  const name = chosenName();
  if (a === b || refusal("write", name)) return null;
  const run = button("marks.add", mark, { class: "quiet", label: ["marks.add.pair", { a, b }] });
  async function mark() {
    const entry = run.closest("li, .markable");
    run.disabled = true;
    try {
      await post(at(name, "/marks"), { marks: [{ ids: [a, b] }] });
      told(entry, name, [a, b], "marks.undo").focus();
    } catch (error) {
      entry.append(problem(error));
    } finally {
      run.disabled = false;
    }
  }
  return run;
}

// Whether two documents are marked, with a button that takes the mark back or makes it. It is filled when the
// server has answered.
export function markState(a, b, options) {
  const name = chosenName();
  const entry = h("div", { class: "markable" });
  markOf(name, a, b, options).then(
    (ids) => {
      fill(entry, markButton(a, b));
      if (ids) told(entry, name, ids, "marks.takeback");
    },
    (error) => isAborted(error) || fill(entry, problem(error)),
  );
  return entry;
}

// The ids of the mark that keeps two documents apart: of the pair, or of one of them alone.
async function markOf(name, a, b, options) {
  for (const [id, other] of [
    [a, b],
    [b, a],
  ]) {
    const { marks } = await get(at(name, `/marks?${new URLSearchParams({ id, limit: OF_ONE })}`), options);
    const found = marks.find(({ ids }) => ids.length === 1 || ids.includes(other));
    if (found) return found.ids;
  }
  return null;
}

// Replaces an entry by what says that these documents are marked. Returns the button that takes it back.
function told(entry, name, ids, label) {
  const [a, b] = ids;
  const failure = h("div", {});
  const undo = button(label, unmark, { class: "quiet" });
  undo.disabled = Boolean(refusal("write", name));
  const said = b === undefined ? ["marks.done.alone", { id: a }] : ["marks.done", { a, b }];
  const line = h("span", { class: "note", "aria-live": "polite", t: said });
  const row = h("div", { class: "row" }, line, h("span", { class: "grow" }), undo);
  const marked = h(entry.localName, { class: entry.className }, row, failure);
  async function unmark() {
    try {
      await remove(name, ids);
      marked.replaceWith(entry);
    } catch (error) {
      fill(failure, problem(error));
    }
  }
  entry.replaceWith(marked);
  return undo;
}

// The list of the marks of the chosen collection. It is read when it is opened.
export function markList() {
  const rows = h("tbody", {});
  const none = h("p", { class: "none", t: "marks.none", hidden: true });
  const more = h("div", { class: "row" });
  const table = h("table", {}, tableHead(["marks.ids", "marks.at", "marks.remove"], 1), rows);
  const node = h(
    "details",
    { class: "panel marks" },
    h("summary", { t: "marks.title" }),
    h("p", { class: "note", t: "marks.intro" }),
    h("div", { class: "scroll tall", tabindex: "0", role: "region", label: "marks.title" }, table),
    none,
    more,
  );
  let turn = 0;
  node.addEventListener("toggle", () => fit());

  function fit() {
    turn += 1;
    fill(rows);
    fill(more);
    if (node.open) read();
  }

  async function read(cursor) {
    const [name, own] = [chosenName(), turn];
    try {
      const query = new URLSearchParams(cursor ? { limit: MARKS, cursor } : { limit: MARKS });
      const page = await get(at(name, `/marks?${query}`));
      if (own !== turn) return;
      rows.append(...page.marks.map((mark) => row(name, mark)));
      show(none, rows.children.length === 0);
      fill(more, page.next && button("marks.more", () => read(page.next), { class: "quiet" }));
    } catch (error) {
      fill(more, problem(error));
    }
  }

  function row(name, { ids, marked_at: at_ }) {
    const other = ids[1] === undefined ? h("span", { class: "note", t: "marks.alone" }) : ids[1];
    const run = button("marks.remove", removeOne, { class: "quiet" });
    run.disabled = Boolean(refusal("write", name));
    const line = h(
      "tr",
      {},
      h("th", { scope: "row", class: "mono" }, ids[0], " \u2260 ", other),
      h(
        "td",
        {},
        translated(() => time(at_)),
      ),
      h("td", { class: "num" }, run),
    );
    async function removeOne() {
      try {
        await remove(name, ids);
        line.remove();
        show(none, rows.children.length === 0);
      } catch (error) {
        fill(more, problem(error));
      }
    }
    return line;
  }

  return { node, fit };
}
