// A reindex: the fingerprints of a collection are made again from the kept texts, with another profile.

import { at, call, get, post } from "./api.js";
import { button, fill, h, notice } from "./dom.js";
import { chosenName, load } from "./pick.js";
import { problem } from "./problems.js";

// Milliseconds between two looks at its progress.
const AGAIN = 500;

// Starts it, and shows in `place` how far it is and how it ended.
export async function reindex(body, place) {
  const name = chosenName();
  const path = at(name, "/reindex");
  const stop = button("reindex.end", () => call("DELETE", path).catch(failed), { class: "quiet" });
  const failed = (error) => fill(place, problem(error));
  try {
    let job = await post(path, body);
    while (job.state === "running") {
      const { documents_read: n, documents: all } = job;
      const bar = h("progress", {
        max: String(Math.max(1, all)),
        value: String(n),
        label: "reindex.progress",
      });
      fill(
        place,
        notice(
          "plain",
          h("p", { t: ["reindex.running", { n, all }] }),
          bar,
          h("div", { class: "row" }, stop),
        ),
      );
      await new Promise((done) => setTimeout(done, AGAIN));
      job = await get(path);
    }
    if (job.state === "done")
      fill(place, notice("good", h("span", { t: ["reindex.done", { name, profile: job.profile }] })));
    else if (job.error)
      fill(place, notice("bad", h("strong", { t: "reindex.failed" }), h("p", {}, job.error.detail)));
    else fill(place, notice("plain", h("span", { t: "reindex.ended" })));
    await load();
  } catch (error) {
    failed(error);
  }
}
