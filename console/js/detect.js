// What a file is: its charset, the delimiter of a table, and the fields with text and id, from its beginning.

import { formatOf } from "./lines.js";

// Bytes that are looked at.
const HEAD = 64 * 1024;
// Charsets that are offered; those from the second on are tried in this order if a file is not UTF-8.
export const CHARSETS = [
  "utf-8",
  "gb18030",
  "big5",
  "shift_jis",
  "euc-kr",
  "windows-1252",
  "utf-16le",
  "utf-16be",
];
const TRIED = CHARSETS.slice(1, 5);
export const DELIMITERS = [",", ";", "\t", "|"];
const TEXTS = /^(text|body|content|article|正文|内容|全文)$/i;
// Members that are a document without a text.
const OTHERS = ["html", "hash", "signature", "features"];
const IDS = /^(id|nr|no|key|uuid|url|编号|序号)$/i;

async function head(file) {
  let stream = file.stream();
  if (file.name.toLowerCase().endsWith(".gz"))
    stream = stream.pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.getReader();
  const bytes = new Uint8Array(HEAD);
  let length = 0;
  while (length < HEAD) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, HEAD - length);
    bytes.set(part, length);
    length += part.length;
  }
  reader.cancel().catch(() => {});
  return bytes.subarray(0, length);
}

const decoded = (bytes, charset) => {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
};

function charsetOf(bytes) {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  if (decoded(bytes, "utf-8") !== null) return "utf-8";
  // The charset in which the most characters are common letters of its language.
  const common = (text) =>
    (text.match(/[\u3040-\u30ff\u4e00-\u9fa5\uac00-\ud7a3]/g) ?? []).length / text.length;
  const fits = TRIED.map((charset) => [charset, decoded(bytes, charset)]).filter(
    ([, text]) => text !== null,
  );
  const best = fits.sort(([, a], [, b]) => common(b) - common(a))[0];
  return best && common(best[1]) > 0.1 ? best[0] : "windows-1252";
}

function delimiterOf(text, name) {
  if (formatOf(name) === "tsv") return "\t";
  const line = text.split(/\r?\n/, 1)[0];
  const count = (delimiter) => line.split(delimiter).length;
  return [...DELIMITERS].sort((a, b) => count(b) - count(a))[0];
}

// The charset and the delimiter of a file.
export async function formOf(file) {
  const bytes = await head(file);
  const charset = charsetOf(bytes);
  const text = new TextDecoder(charset).decode(bytes, { stream: true });
  return { charset, delimiter: delimiterOf(text, file.name) };
}

// The fields with text and id among the columns of the first records.
export function fieldsOf(columns, objects) {
  const length = (name) => objects.reduce((sum, one) => sum + String(one[name] ?? "").length, 0);
  const longest = [...columns].sort((a, b) => length(b) - length(a))[0] ?? "";
  const isOther = OTHERS.some((name) => columns.includes(name));
  const text = columns.find((name) => TEXTS.test(name)) ?? (isOther ? "" : longest);
  const isUnique = (name) => new Set(objects.map((one) => one[name])).size === objects.length;
  const id = columns.find((name) => name === "id" || (IDS.test(name) && isUnique(name))) ?? "";
  return { text, id: id === text ? "" : id };
}
