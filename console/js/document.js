// One document: its text, its metadata, its neighbours and its cluster.

import { guard } from "./access.js";
import { at, clusterPath, get, post } from "./api.js";
import { diffView } from "./diff.js";
import { button, figure, fill, h, show, translated } from "./dom.js";
import { number, time } from "./format.js";
import { asLine, headline, whole } from "./headlines.js";
import { thumbnail } from "./image.js";
import { markButton } from "./marks.js";
import { chosen, chosenName } from "./pick.js";
import { problem } from "./problems.js";
import { address, go } from "./route.js";

// Neighbours and members of the cluster that are listed.
const LIMIT = 20;

// The view. `remove` and `keep` get the id.
export function documentView({ remove, keep }) {
  const node = h("section", { class: "panel document", "aria-live": "polite", label: "document.title" });
  let shown = null;

  async function open(id) {
    shown = id;
    try {
      const document = await whole(id);
      if (shown !== id) return;
      if (!document) return fill(node, h("p", { class: "none", t: ["document.gone", { id }] }));
      const [near, cluster] = [h("div", {}), h("div", {})];
      fill(node, ...parts(document, near, cluster));
      members(document, await neighbours(document, near), cluster);
    } catch (error) {
      fill(node, problem(error));
    }
  }

  function parts(document, near, cluster) {
    const { id, deletion_at: deletion } = document;
    const removing = button("document.remove", () => remove(id), { class: "danger" });
    const keeping = button("document.keep", () => keep(id));
    const action = deletion ? keeping : removing;
    return [
      h("h2", { dir: "auto" }, headline(document) || id),
      h(
        "div",
        { class: "row" },
        h("span", { class: "id mono" }, id),
        deletion && h("span", { class: "tag bad", t: ["planned.at", { at: () => time(deletion) }] }),
      ),
      h(
        "div",
        { class: "row" },
        action,
        link("find", { id }, "document.find"),
        document.cluster?.representative &&
          link("documents", { cluster: document.cluster.representative }, "document.cluster.list"),
        document.cluster?.representative &&
          link("review", { id: document.cluster.representative }, "document.review"),
      ),
      guard(action, "write", chosenName),
      facts(document),
      metadata(document.metadata),
      text(document),
      near,
      cluster,
    ];
  }

  const clear = () => {
    shown = null;
    fill(node, h("p", { class: "none", t: "document.none" }));
  };
  clear();
  return { node, open, clear, id: () => shown };
}

const link = (page, parameters, message) =>
  h("a", {
    class: "small",
    href: address(page, { collection: chosenName(), ...parameters }),
    t: message,
  });

function facts({ written_at: written, expires_at: expires, deletion_at: deletion, hash, text: kept }) {
  const when = (value) => translated(() => time(value));
  return h(
    "dl",
    { class: "figures" },
    figure("document.written", when(written)),
    expires && !deletion && figure("document.expires", when(expires)),
    kept !== undefined &&
      figure(
        "document.length",
        translated(() => number([...kept].length)),
      ),
    figure("document.hash", h("code", {}, hash)),
  );
}

function metadata(all) {
  const rows = Object.entries(all ?? {}).map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row" }, name), h("td", { dir: "auto" }, asLine(value))),
  );
  if (rows.length === 0) return null;
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", label: "document.metadata" },
    h("table", { class: "metadata" }, h("tbody", {}, rows)),
  );
}

function text({ id, text: kept }) {
  const small = kept === undefined && thumbnail(id, "document.image");
  if (small) return small;
  if (kept === undefined) return h("p", { class: "note", t: "document.notext" });
  return h(
    "div",
    { class: "fulltext", dir: "auto", tabindex: "0", role: "region", label: "document.text" },
    kept,
  );
}

// Lists the neighbours, and returns their ids.
async function neighbours({ id, cluster }, place) {
  try {
    const query = new URLSearchParams({ id, limit: LIMIT });
    const { similar } = await get(at(chosenName(), `/similar?${query}`));
    const entries = similar.map((one) => entry(one, id, cluster?.representative));
    if (entries.length === 0) fill(place, h("p", { class: "note", t: "document.near.none" }));
    else fill(place, h("h3", { t: "document.near" }), h("ol", { class: "matches" }, entries));
    return similar.map((one) => one.id);
  } catch (error) {
    fill(place, problem(error));
    return [];
  }
}

// Lists the members of the cluster that are no neighbours.
async function members({ id, cluster }, listed, place) {
  if (!cluster?.representative) return;
  try {
    const found = await get(clusterPath(chosenName(), cluster.representative, { limit: LIMIT }));
    if (found.size < 2) return;
    const all = [{ id: found.representative }, ...found.members];
    const others = all.filter((one) => one.id !== id && !listed.includes(one.id));
    const entries = others.map((one) => entry({ id: one.id }, id, found.representative));
    fill(
      place,
      h("h3", { t: ["document.cluster", { n: found.size }] }),
      entries.length
        ? h("ol", { class: "matches" }, entries)
        : h("p", { class: "note", t: "document.cluster.same" }),
    );
  } catch (error) {
    fill(place, problem(error));
  }
}

// A neighbour, with the differences below it on demand.
function entry({ id, distance }, of, representative) {
  const title = h("span", { class: "note", dir: "auto" });
  const compared = h("div", {});
  whole(id).then(
    (document) => document && fill(title, headline(document)),
    () => {},
  );
  const unit = chosen()?.signatures ? "find.cells" : "find.bits";
  return h(
    "li",
    { class: "match" },
    h(
      "div",
      { class: "row" },
      distance !== undefined && h("span", { class: "far mono", t: [unit, { n: distance }] }),
      h(
        "button",
        {
          type: "button",
          class: "link mono id",
          on: { click: () => go("documents", { collection: chosenName(), id }) },
        },
        id,
      ),
      id === representative && h("span", { class: "tag good", t: "document.representative" }),
      h("span", { class: "grow" }),
      markButton(of, id),
      button("clusters.diff", () => differences(of, id, compared), {
        class: "quiet",
        label: ["clusters.diff.with", { id, other: of }],
      }),
    ),
    title,
    compared,
  );
}

// Shows how two stored documents differ.
export async function differences(a, b, place) {
  try {
    const answer = await post(at(chosenName(), "/compare"), {
      a: { id: a },
      b: { id: b },
      whole_diff: true,
    });
    if (!answer.diff) return fill(place, h("p", { class: "note", t: "diff.unknown" }));
    const { form, pane } = diffView(answer.diff);
    fill(place, h("div", { class: "row" }, form), pane);
    show(place, true);
  } catch (error) {
    fill(place, problem(error));
  }
}
