// The comparison of two texts word by word, inline or side by side. The server cuts the words, also those of
// Chinese and Japanese. Long stretches without a change are folded.

import { button, choice, fill, h, say, show } from "./dom.js";

// Characters up to which an equal part without letters between two changes counts as changed: a comma
// between two replaced words would only cut the sentence into pieces.
const FILLER = 3;
// Characters of a stretch without a change from which on it is folded, and how many stay visible next to a
// change.
const FOLDED = 800;
const VISIBLE = 160;
// How far a fold may move to begin or end between two sentences or words.
const SLACK = 80;

// Joins neighbouring changes: each result has `equal`, or `removed` and `added`.
export function runs(changes) {
  const joined = [];
  let open = null;
  const close = () => {
    if (open && (open.removed || open.added)) joined.push(open);
    open = null;
  };
  changes.forEach(({ change, text }, at) => {
    if (change !== "equal") {
      open ??= { removed: "", added: "" };
      open[change] += text;
      return;
    }
    const isFiller =
      open && at + 1 < changes.length && text.length <= FILLER && !/[\p{L}\p{N}]/u.test(text);
    if (isFiller && !text.includes("\n")) {
      open.removed += text;
      open.added += text;
      return;
    }
    close();
    joined.push({ equal: text });
  });
  close();
  return joined;
}

// Where to divide a text near a place: after a sentence, otherwise after a word.
function place(text, near) {
  const around = text.slice(near, near + SLACK);
  const end = [/[.!?]\s|[。！？\n]/u, /[\s，、；]/u].map((mark) => mark.exec(around)).find(Boolean);
  if (end) return near + end.index + end[0].length;
  return near + (/^[\udc00-\udfff]/.test(around) ? 1 : 0);
}

// The runs in blocks: lists of runs to show, and `{ folded }` texts between them.
export function blocks(all) {
  const found = [[]];
  all.forEach((run, at) => {
    if ((run.equal?.length ?? 0) < FOLDED) {
      found.at(-1).push(run);
      return;
    }
    const text = run.equal;
    const start = at === 0 ? 0 : place(text, VISIBLE);
    const end = at === all.length - 1 ? text.length : place(text, text.length - VISIBLE - SLACK);
    if (start > 0) found.at(-1).push({ equal: text.slice(0, start) });
    found.push({ folded: text.slice(start, end) }, []);
    if (end < text.length) found.at(-1).push({ equal: text.slice(end) });
  });
  return found.filter((block) => block.folded || block.length > 0);
}

// Both parts of a change; the first one that is there has its number.
const deleted = ({ removed, number }) => removed && h("del", { data: { change: number } }, removed);
const inserted = ({ removed, added, number }) =>
  added && h("ins", { data: removed ? {} : { change: number } }, added);
const paragraph = (runs, part, data = {}) =>
  h(
    "p",
    { dir: "auto", data },
    runs.map((run) => run.equal ?? part(run)),
  );

// A button and the text that it opens, once or for each of two columns.
function fold(text, columns) {
  const hidden = Array.from({ length: columns }, () => h("p", { dir: "auto", hidden: true }, text));
  const n = Array.from(text).length;
  const toggle = button(["diff.open", { n }], () => open(hidden[0].hidden), {
    class: "fold",
    "aria-expanded": "false",
  });
  const open = (isOpen) => {
    hidden.forEach((one) => show(one, isOpen));
    toggle.setAttribute("aria-expanded", String(isOpen));
    say(toggle, [isOpen ? "diff.close" : "diff.open", { n }]);
  };
  return { nodes: [toggle, ...hidden], open };
}

// The comparison: a choice of its form, the way from change to change, and the texts.
export function diffView(changes) {
  const all = runs(changes);
  const changed = all.filter((run) => run.equal === undefined);
  changed.forEach((run, number) => {
    run.number = number;
  });
  const parts = blocks(all);
  const pane = h("div", { class: "diff", tabindex: "0", role: "region", label: "diff.title" });
  let folds = [];
  const draw = (isBeside) => {
    folds = [];
    pane.classList.toggle("beside", isBeside);
    const head = isBeside && ["a", "b"].map((name) => h("h4", { t: `side.${name}` }));
    const nodes = parts.map((part) => {
      if (!part.folded) {
        if (!isBeside) return paragraph(part, (run) => [deleted(run), inserted(run)]);
        return [paragraph(part, deleted, { side: "A" }), paragraph(part, inserted, { side: "B" })];
      }
      folds.push(fold(part.folded, isBeside ? 2 : 1));
      return folds.at(-1).nodes;
    });
    fill(pane, head, nodes);
  };
  draw(false);
  const forms = [
    ["inline", "diff.inline"],
    ["beside", "diff.beside"],
  ];
  const way = wayThrough(pane, changed.length, () => folds);
  const form = choice("diff.form", forms, "inline", (chosen) => {
    draw(chosen === "beside");
    way.restart();
  });
  return { form, pane: [way.node, pane] };
}

// The number of changes, and buttons that go from one to the next and open all folds.
function wayThrough(pane, count, folds) {
  let at = -1;
  const where = h("span", { class: "note", "aria-live": "polite" });
  const step = (by) => {
    pane.querySelector(".current")?.classList.remove("current");
    at = (Math.max(at, by < 0 ? 0 : -1) + by + count) % count;
    const start = pane.querySelector(`[data-change="${at}"]`);
    start.classList.add("current");
    pane.scrollTop += start.getBoundingClientRect().top - pane.getBoundingClientRect().top - 90;
    say(where, ["diff.at", { n: at + 1, all: count }]);
  };
  const open = button("diff.all", () => folds().forEach((one) => one.open(true)), { class: "quiet" });
  const restart = () => {
    at = -1;
    say(where, count > 0 ? ["diff.count", { n: count }] : "diff.none");
  };
  restart();
  const steps = [
    button("diff.previous", () => step(-1), { class: "quiet" }),
    button("diff.next", () => step(1), { class: "quiet" }),
  ];
  const node = h("div", { class: "row way" }, where, count > 1 && steps, folds().length > 0 && open);
  return { node, restart };
}
