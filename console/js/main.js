// The start: frame, key, collections, and the pages, each built when it is shown first.

import { load as loadAccess } from "./access.js";
import { Unreachable, events } from "./api.js";
import { show } from "./dom.js";
import { apply, bind, t } from "./i18n.js";
import { choose, chosenName, load as loadCollections, onPick } from "./pick.js";
import { address, go, here, onChange, start } from "./route.js";
import { build } from "./shell.js";

// The pages, whose modules are read when one is shown first.
const PAGES = {
  documents: () => import("./documents.js"),
  review: () => import("./review.js"),
  find: () => import("./find.js"),
  compare: () => import("./compare.js"),
  clusters: () => import("./clusters.js"),
  import: () => import("./import.js"),
  collections: () => import("./collections.js"),
  calibrate: () => import("./calibrate.js"),
  keys: () => import("./keys.js"),
};

apply();
const frame = build(Object.keys(PAGES));
const built = {};
let wantedPage = null;

async function open(page, parameters, payload) {
  if (!(page in PAGES)) return go("compare");
  if (parameters.get("collection")) choose(parameters.get("collection"));
  wantedPage = page;
  if (!(page in built)) {
    const module = await PAGES[page]();
    if (!(page in built)) {
      built[page] = module.create();
      show(built[page].node, false);
      frame.main.append(built[page].node);
    }
  }
  // A later choice takes precedence over one whose modules arrived late.
  if (page !== wantedPage) return;
  Object.entries(built).forEach(([name, one]) => show(one.node, name === page));
  frame.mark(page);
  bind(frame.main, "title", () => {
    document.title = `${t(`nav.${page}`)} · lookalike`;
  });
  built[page].show?.(parameters, payload);
}

// Reads what every page needs. Without a valid key, the page for keys is shown.
async function load() {
  try {
    await loadAccess();
    await loadCollections();
  } catch (error) {
    if (!(error instanceof Unreachable) && error.status !== 401) throw error;
  }
}

const wanted = here().parameters.get("collection");
if (wanted) choose(wanted);
onChange(open);
onPick(() => {
  const { page, parameters } = here();
  if (parameters.get("collection") === chosenName()) return;
  parameters.set("collection", chosenName());
  history.replaceState(null, "", address(page, Object.fromEntries(parameters)));
});
events.addEventListener("refused", () => go("keys", {}, { isRefused: true }));
window.addEventListener("server-back", load);
window.addEventListener("key-changed", load);
await load();
start();
