// The main calls with types that were generated from openapi.yaml: node tour.js URL KEY.
//
// The compiler checks it in its strictest mode; no answer needs a cast.

import createClient from "openapi-fetch";
import type { components, paths } from "./api";

type Match = components["schemas"]["Match"];
type Answer<T> = { data?: T; error?: unknown; response: Response };

const text =
  "The harbour ferry will run every twenty minutes during the summer festival, the city council said on " +
  "Tuesday. Extra boats have been hired from a neighbouring town.";

function check(holds: boolean, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

/** The answer, which must not be an error. */
function ok<T>(answer: Answer<T>): T {
  check(answer.data !== undefined, answer.error);
  return answer.data;
}

const ids = (found: Match[] | null | undefined): string => (found ?? []).map((one) => one.id).join(" ");

async function tour(baseUrl: string, key: string): Promise<void> {
  const client = createClient<paths>({ baseUrl, headers: { "x-api-key": key } });

  const made = ok(await client.POST("/fingerprint", { body: { text } }));
  const both = ok(await client.POST("/batch/fingerprint", { body: { texts: [text, "x"] } }));
  check(both.fingerprints[0]?.hash === made.hash && both.fingerprints.length === 2, both);

  const metadata = { source: "city-news", year: 2026 };
  const first = await client.POST("/documents", { body: { id: "ferry-1", text, metadata } });
  check(ok(first).hash === made.hash && first.response.status === 201, first);
  check(first.response.headers.get("location")?.endsWith("/documents/ferry-1") === true, first);
  const path = { id: "ferry-1" };
  const overwrite = await client.PUT("/documents/{id}", {
    params: { path, header: { "If-None-Match": "*" } },
    body: { text: "x" },
  });
  check(overwrite.error?.code === "precondition_failed", overwrite);

  const changed = text.replace("Tuesday", "Wednesday");
  const documents = [{ id: "ferry-2", text: changed }, { id: "ferry-3", hash: made.hash }, { id: "none" }];
  const query = { similar: 2 };
  const stored = ok(await client.POST("/batch/documents", { params: { query }, body: documents }));
  check(stored.summary.created === 2 && stored.summary.errors === 1, stored);
  check(stored.results[0]?.outcome === "created" && stored.results[0].hash !== undefined, stored);
  check(stored.results[1]?.similar?.[0]?.distance === 0, stored);
  check(stored.results[2]?.error?.code === "invalid_field", stored);

  const near = ok(await client.GET("/similar", { params: { query: { hash: made.hash, k: 12 } } }));
  check(ids(near.similar) === "ferry-1 ferry-3 ferry-2", near);
  const filter = { metadata: { year: { gte: 2020 } } };
  const recent = ok(await client.POST("/similar", { body: { text, k: 12, filter } }));
  check(ids(recent.similar) === "ferry-1", recent);
  const queries = [{ id: "ferry-1", k: 0 }, { id: "nobody" }];
  const several = ok(await client.POST("/batch/similar", { body: { queries } }));
  check(ids(several.results[0]?.similar) === "ferry-3", several);
  check(several.results[1]?.error?.code === "no_document", several);

  const page = ok(await client.GET("/documents", { params: { query: { limit: 2 } } }));
  check(page.documents.length === 2 && page.next !== undefined, page);
  const body = { metadata: { checked: true } };
  const patched = ok(await client.PATCH("/documents/{id}", { params: { path }, body }));
  check(patched.metadata?.["checked"] === true && patched.metadata["year"] === 2026, patched);
  const compared = ok(await client.POST("/compare", { body: { a: { id: "ferry-1" }, b: { text: changed } } }));
  check(compared.distance > 0, compared);
  const deleted = ok(await client.POST("/deletions", { body: { ids: ["ferry-2", "ferry-3"] } }));
  check(deleted.deleted === 2, deleted);
  const gone = await client.DELETE("/documents/{id}", { params: { path } });
  check(gone.response.status === 204, gone);
  const missing = await client.GET("/documents/{id}", { params: { path } });
  check(missing.error?.code === "no_document", missing);
}

const [url, key] = process.argv.slice(2);
check(url !== undefined && key !== undefined, "node tour.js URL KEY");
tour(url, key).then(() => console.log("the tour is made"));
