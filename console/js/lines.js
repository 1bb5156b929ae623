// Reads a file of documents as a stream: bytes, decompressed, decoded, cut into records. No more than one
// record and one chunk of the file are in memory.

import { rows as parquetRows } from "./parquet.js";

// Characters of a record from which it cannot be a document.
const MOST = 16 * 1024 * 1024;

const KNOWN = ["id", "text", "html", "page", "hash", "signature", "metadata", "expires_in", "expires_at"];
// Members of a document with a hash or signature only. Beside a text they are metadata.
const OF_HASHES = ["profile", "characters", "sketch"];

// Whether a document has a member of this name besides text and id.
export const isMember = (name) => KNOWN.includes(name) && name !== "text" && name !== "id";

// The format of a file, from its name: `jsonl`, `csv`, `tsv`, `parquet`.
export function formatOf(name) {
  const plain = name.toLowerCase().replace(/\.gz$/, "");
  if (plain.endsWith(".parquet")) return "parquet";
  if (plain.endsWith(".csv")) return "csv";
  return plain.endsWith(".tsv") ? "tsv" : "jsonl";
}

// The decoded chunks of a file. `onBytes` gets the number of bytes of the file that have been read.
export async function* chunks(file, onBytes, charset = "utf-8") {
  let read = 0;
  const counter = new TransformStream({
    transform(bytes, controller) {
      read += bytes.byteLength;
      onBytes(read);
      controller.enqueue(bytes);
    },
  });
  let stream = file.stream().pipeThrough(counter);
  if (file.name.toLowerCase().endsWith(".gz"))
    stream = stream.pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.pipeThrough(new TextDecoderStream(charset)).getReader();
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read())
      yield value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The lines of a file, in arrays: `{ number, text }`, the first line is 1. Of a line that is too long to be a
// document, `text` is `null`.
export async function* lines(file, onBytes, charset) {
  let rest = "";
  let number = 0;
  let isTooLong = false;
  for await (const chunk of chunks(file, onBytes, charset)) {
    const parts = chunk.split("\n");
    parts[0] = rest + parts[0];
    rest = parts.pop();
    const found = parts.map((text, at) => {
      number += 1;
      return { number, text: isTooLong && at === 0 ? null : text };
    });
    if (parts.length > 0) isTooLong = false;
    if (rest.length > MOST) {
      rest = "";
      isTooLong = true;
    }
    if (found.length > 0) yield found;
  }
  if (rest !== "" || isTooLong) yield [{ number: number + 1, text: isTooLong ? null : rest }];
}

const CONTENTS = ["text", "html", "hash", "signature", "features"];

// A document as a line; one without a content is refused here, where the name of the field is known.
const written = (document, fields) =>
  CONTENTS.some((name) => name in document)
    ? { document, line: JSON.stringify(document) }
    : { error: "import.error.text", values: { name: fields.text || "text" } };

// The place in the order of arrival, as an export has it. Any other value of this name is metadata.
const hasArrival = (object) => /^[0-9a-f]{16}$/i.test(object.arrival);

// What else an export has of a document. Any other value of this name is metadata.
const hasExported = (object) => typeof object.exported?.written_at === "string";

const known = (object) => [
  ...KNOWN,
  ...("hash" in object || "signature" in object ? OF_HASHES : []),
  ...(hasArrival(object) ? ["arrival"] : []),
  ...(hasExported(object) ? ["exported"] : []),
];

// A document from an object: members that the server does not know become metadata.
function documentOf(object, fields) {
  const document = {};
  const metadata = {};
  const names = known(object);
  for (const [name, value] of Object.entries(object)) {
    const isOther = name === "text" || name === "id";
    const to = name === (fields.text || "text") ? "text" : name === fields.id ? "id" : isOther ? null : name;
    if (names.includes(to) && !(to in document)) document[to] = value;
    else if (fields.rest !== false) metadata[name] = value;
  }
  if (document.id !== undefined) document.id = String(document.id);
  if (Object.keys(metadata).length > 0) {
    const given = document.metadata;
    document.metadata = given && typeof given === "object" ? { ...metadata, ...given } : metadata;
  }
  return document;
}

function parsed(text, fields) {
  if (text === null) return { error: "import.error.long" };
  let object;
  try {
    object = JSON.parse(text);
  } catch (error) {
    return { error: "import.error.json", detail: error.message };
  }
  if (typeof object !== "object" || object === null || Array.isArray(object))
    return { error: "import.error.object" };
  // The first line of an export is no document: it states what the hashes after it are.
  if (Object.keys(object).join() === "export") return { header: text.trim() };
  // A line that is a document as it is need not be written again.
  const names = known(object);
  const isUsual =
    (fields.text || "text") === "text" &&
    (fields.id === "id" || !("id" in object)) &&
    fields.rest !== false &&
    Object.keys(object).every((name) => names.includes(name));
  if (isUsual && typeof (object.id ?? "") === "string")
    return CONTENTS.some((name) => name in object)
      ? { object, document: object, line: text.trim() }
      : { object, ...written(object, fields) };
  return { object, ...written(documentOf(object, fields), fields) };
}

// Cuts a table into records as its characters arrive: RFC 4180, with any line end.
export class Table {
  constructor(separator) {
    this.separator = separator;
    this.cells = [];
    this.cell = "";
    this.isQuoted = false;
    this.isAfterQuote = false;
    this.line = 1;
    this.from = 1;
  }

  // Takes characters and returns the records that they complete: `{ number, cells }`.
  push(text) {
    const records = [];
    for (const character of text) {
      if (character === "\n") this.line += 1;
      if (this.isQuoted && !this.isAfterQuote) {
        if (character === '"') this.isAfterQuote = true;
        else this.cell += character;
        continue;
      }
      if (this.isAfterQuote && character === '"') {
        this.cell += '"';
        this.isAfterQuote = false;
      } else if (character === '"' && this.cell === "" && !this.isQuoted) {
        this.isQuoted = true;
      } else if (character === this.separator) {
        this.end();
      } else if (character === "\n") {
        records.push(...this.finish());
      } else if (character !== "\r") {
        this.cell += character;
      }
    }
    return records;
  }

  // The record that is not ended by a line end.
  finish() {
    const isBlank = this.cells.length === 0 && this.cell === "" && !this.isQuoted;
    this.end();
    const record = { number: this.from, cells: this.cells };
    this.cells = [];
    this.from = this.line;
    return isBlank ? [] : [record];
  }

  end() {
    this.cells.push(this.cell);
    this.cell = "";
    this.isQuoted = false;
    this.isAfterQuote = false;
  }
}

async function* rows(file, separator, fields, onBytes, charset) {
  const table = new Table(separator);
  let names = null;
  const take = (records) => {
    const found = [];
    for (const { number, cells } of records) {
      if (!names) {
        names = cells.map((name) => name.trim().replace(/^\ufeff/, ""));
        continue;
      }
      if (cells.length !== names.length) {
        found.push({
          number,
          error: "import.error.cells",
          values: { n: cells.length, all: names.length },
        });
        continue;
      }
      const object = Object.fromEntries(
        names.map((name, at) => [name, cells[at]]).filter(([, cell]) => cell !== ""),
      );
      found.push({ number, object, ...written(documentOf(object, fields), fields) });
    }
    return found;
  };
  for await (const chunk of chunks(file, onBytes, charset)) {
    const found = take(table.push(chunk));
    if (found.length > 0) yield found;
  }
  yield take(table.finish());
}

// The records of a file, in arrays: `number` is the line, and each has a `document` and its JSON in `line`,
// or the `header` of an export, or an `error`. `object` is what the record had before. Blank lines are left
// out. `fields` has the names of the fields for text and id, and whether the others become metadata (`rest`);
// `form` the charset and the delimiter of a table, and whether only the first records are wanted (`isFirst`).
export async function* records(file, fields, onBytes, { charset, delimiter, isFirst } = {}) {
  const format = formatOf(file.name);
  if (format === "parquet") {
    for await (const some of parquetRows(file, onBytes, isFirst))
      yield some.map((row) => ({ ...row, ...written(documentOf(row.object, fields), fields) }));
    return;
  }
  if (format !== "jsonl") {
    yield* rows(file, delimiter ?? (format === "csv" ? "," : "\t"), fields, onBytes, charset);
    return;
  }
  for await (const some of lines(file, onBytes, charset)) {
    yield some
      .filter(({ text }) => text === null || text.trim() !== "")
      .map(({ number, text }) => ({ number, ...parsed(text && text.replace(/^\ufeff/, ""), fields) }));
  }
}
