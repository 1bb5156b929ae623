// Inserts, looks up, inserts many and deletes with functions that orval made of openapi.yaml: node orval.js
// URL KEY.

import { addDocuments, batchDocuments, deleteDocument, getSimilar } from "./client";

const text =
  "The harbour ferry will run every twenty minutes during the summer festival, the city council said on " +
  "Tuesday. Extra boats have been hired from a neighbouring town.";

function check(holds: boolean, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

async function tour(base: string, key: string): Promise<void> {
  // The functions ask for a path, and take the options of `fetch`.
  const plain = globalThis.fetch;
  globalThis.fetch = (path, options) => plain(base + String(path), options);
  const options = { headers: { "x-api-key": key } };

  const added = await addDocuments({ id: "ferry-1", text }, undefined, options);
  check(added.status === 201 && added.data.outcome === "created", added);
  const changed = text.replace("Tuesday", "Wednesday");
  const many = await batchDocuments([{ id: "ferry-2", text: changed }, { id: "none" }], undefined, options);
  check(many.status === 200 && many.data.summary.created === 1 && many.data.summary.errors === 1, many);
  const near = await getSimilar({ hash: added.data.hash, k: 12 }, options);
  check(near.status === 200, near);
  check(near.data.similar.map((one) => one.id).join(" ") === "ferry-1 ferry-2", near);
  const gone = await deleteDocument("ferry-1", options);
  check(gone.status === 204, gone);
  const missing = await deleteDocument("ferry-1", options);
  check(missing.status === 404 && missing.data.code === "no_document", missing);
}

const [url, key] = process.argv.slice(2);
check(url !== undefined && key !== undefined, "node orval.js URL KEY");
tour(url, key).then(() => console.log("the tour is made"));
