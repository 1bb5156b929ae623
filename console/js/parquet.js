// The rows of a Parquet file, which the server reads: they come as lines, a row each.

import { Problem, check, send } from "./api.js";

const TYPE = "application/vnd.apache.parquet";
// Rows that are kept of each file, so that its beginning is read once.
const KEPT = 200;

// What is known of a file: `left_out` has its columns with lists, and `first` its first rows.
const known = new WeakMap();
export const about = (file) => known.get(file) ?? { left_out: [], first: null };

// The rows in arrays, `{ number, object }`. `onBytes` gets how much of the file they are; with `isFirst`,
// only the first rows are wanted.
export async function* rows(file, onBytes, isFirst) {
  const { first } = about(file);
  if (isFirst && first) return yield first;
  const response = await check(await send("POST", "/preview/parquet", { body: file, type: TYPE }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let number = 0;
  let all = 1;
  const kept = [];
  const take = (line) => {
    const { file: of, row, error } = JSON.parse(line);
    if (error) throw new Problem(error.status, error);
    if (of) {
      all = Math.max(1, of.rows);
      known.set(file, { left_out: of.left_out, first: null });
      return [];
    }
    number += 1;
    const found = { number, object: row };
    if (number <= KEPT) kept.push(found);
    return [found];
  };
  const keep = () => known.set(file, { ...about(file), first: kept });
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      const found = lines.flatMap(take);
      onBytes((file.size * number) / all);
      if (number >= KEPT) keep();
      if (found.length > 0) yield found;
    }
    keep();
  } finally {
    reader.cancel().catch(() => {});
  }
}
