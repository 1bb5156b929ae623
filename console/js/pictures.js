// The import of image files: each is one document, whose id is the name of the file.

import { at, post } from "./api.js";
import { figure, fill, h, say, tableHead, translated } from "./dom.js";
import { number } from "./format.js";
import { dataUrl } from "./image.js";
import { nextSteps } from "./import.js";
import { problem } from "./problems.js";

// Outcomes, and where they are counted.
const COUNTS = { created: "created", updated: "updated", replaced: "updated", duplicate: "duplicates" };

// One import of images, in place of one of records.
export function imageJob(files, collection, rule, ran) {
  const counts = { created: 0, updated: 0, duplicates: 0, errors: 0 };
  const stopping = new AbortController();
  const bar = h("progress", { max: String(files.length), value: "0", label: "import.progress" });
  const line = h("p", { class: "lead", "aria-live": "polite" });
  const why = h("tbody", {});
  const list = h(
    "div",
    { class: "scroll tall refused", tabindex: "0", role: "region", label: "import.invalid", hidden: true },
    h("table", {}, tableHead(["side.kind.image", "import.why"]), why),
  );
  const figures = Object.keys(counts).map((name) =>
    figure(
      `import.count.${name}`,
      translated(() => number(counts[name])),
    ),
  );
  const facts = h("dl", { class: "figures" }, figures);
  const then = h("div", {});
  const node = h("section", { class: "panel" }, line, bar, facts, then, list);

  async function store(file) {
    const body = { id: file.name, image: await dataUrl(file) };
    try {
      const { outcome } = await post(at(collection, `/documents?${new URLSearchParams(rule)}`), body, {
        signal: stopping.signal,
      });
      counts[COUNTS[outcome]] += 1;
    } catch (error) {
      stopping.signal.throwIfAborted();
      counts.errors += 1;
      list.hidden = false;
      why.append(h("tr", {}, h("th", { scope: "row" }, file.name), h("td", {}, problem(error))));
    }
  }

  async function run() {
    ran(true);
    let sent = 0;
    try {
      for (const file of files) {
        await store(file);
        sent += 1;
        bar.value = sent;
        say(line, ["import.images.running", { n: sent, all: files.length }]);
        facts.querySelectorAll("dd span").forEach((one) => one.translated.text());
      }
      say(line, ["import.images.done", { n: files.length }]);
      fill(then, nextSteps(collection));
    } catch {
      say(line, ["import.cancelled", { n: sent }]);
    }
    ran(false, true);
  }
  return { node, run, stop: () => stopping.abort() };
}
