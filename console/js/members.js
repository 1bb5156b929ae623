// The documents of a cluster, for the list of documents.

import { at, clusterPath, documentPath, get } from "./api.js";
import { chosenName } from "./pick.js";

// Documents on a page; each is a request.
const PAGE = 40;

// The documents of the cluster of a document after a cursor, the one that represents it first.
export async function clusterOf(id, cursor) {
  const name = chosenName();
  const { representative } = await get(at(name, `/documents/${encodeURIComponent(id)}/cluster`));
  const wanted = cursor ? { limit: PAGE, cursor } : { limit: PAGE };
  const cluster = await get(clusterPath(name, representative ?? id, wanted));
  const ids = cluster.members.map((member) => member.id);
  if (!cursor) ids.unshift(cluster.representative);
  const read = (one) =>
    get(documentPath(name, one)).catch((error) => {
      if (error.code === "no_document") return null;
      throw error;
    });
  return { rows: (await Promise.all(ids.map(read))).filter(Boolean), next: cluster.next };
}
