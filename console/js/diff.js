// The comparison of two texts word by word, inline or side by side. The server cuts the words, also those of
// Chinese and Japanese.

import { choice, fill, h } from "./dom.js";

// Characters up to which an equal segment without letters between two changes counts as changed: a comma
// between two replaced words would only cut the sentence into pieces.
const FILLER = 3;

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

const deleted = (text) => text && h("del", {}, text);
const inserted = (text) => text && h("ins", {}, text);

// The comparison, with a choice of its form.
export function diffView(changes) {
  const all = runs(changes);
  const pane = h("div", { class: "diff", tabindex: "0", role: "region", label: "diff.title" });
  const inline = () => {
    pane.className = "diff";
    fill(
      pane,
      h(
        "p",
        { dir: "auto" },
        all.map((run) => run.equal ?? [deleted(run.removed), inserted(run.added)]),
      ),
    );
  };
  const beside = () => {
    pane.className = "diff beside";
    const column = (name, part) =>
      h("div", {}, h("h4", { t: `side.${name}` }), h("p", { dir: "auto" }, all.map(part)));
    fill(
      pane,
      column("a", (run) => run.equal ?? deleted(run.removed)),
      column("b", (run) => run.equal ?? inserted(run.added)),
    );
  };
  const forms = [
    ["inline", "diff.inline"],
    ["beside", "diff.beside"],
  ];
  inline();
  const form = choice("diff.form", forms, "inline", (chosen) =>
    (chosen === "inline" ? inline : beside)(),
  );
  return { form, pane };
}
