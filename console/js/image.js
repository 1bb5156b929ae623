// Images of an input: read from files, shown, and compared by the signs of their frequencies.

import { documentPath, send } from "./api.js";
import { bitOf } from "./bits.js";
import { fill, h } from "./dom.js";
import { chosen } from "./pick.js";

// Whether a file is an image that servers read.
export const isImage = (file) => /^image\/(jpeg|png|webp|gif)$/.test(file.type);

// The URL of data of a file, which a request carries in place of its bytes.
export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

// An image, small.
export const preview = (url, label) => h("img", { class: "preview", src: url, label });

// The thumbnail of a stored image, which arrives later; nothing of an image without one.
export function thumbnail(id, label) {
  const collection = chosen();
  if (!collection?.keep_thumbnail) return null;
  const node = h("div", {});
  const shown = async () => {
    const answer = await send("GET", `${documentPath(collection.name, id)}/thumbnail`);
    if (answer.ok) fill(node, preview(await dataUrl(await answer.blob()), label));
  };
  shown().catch(() => {});
  return node;
}

// An image of each side that has one; nothing if no side is an image.
export function images(values) {
  const one = ({ kind, content }, at) => {
    const label = at === 0 ? "side.a" : "side.b";
    if (kind === "image") return preview(content, label);
    return kind === "id" ? thumbnail(content, label) : null;
  };
  const both = values.map(one);
  return both.some(Boolean) && h("section", { class: "panel two" }, both.map((image) => h("div", {}, image)));
}

// Both images with their quality, and which signs of their frequencies differ.
export function pictures(compared, values) {
  const one = (name, { kind, content }) =>
    h(
      "figure",
      {},
      kind === "image" && preview(content, `side.${name}`),
      h("figcaption", { t: ["image.quality", { side: name.toUpperCase(), n: compared[name].quality }] }),
    );
  return h(
    "section",
    { class: "panel" },
    h("h3", { t: "side.kind.image" }),
    h("div", { class: "two" }, one("a", values[0]), one("b", values[1])),
    h("p", { class: "note", t: "image.note" }),
    signs(compared.a.hash, compared.b.hash),
  );
}

// A cell for each frequency, lower ones at the top left.
function signs(a, b) {
  const side = Math.sqrt(a.length * 4);
  // The first bit of PDQ is the last of the number, and that of phash-64 the first.
  const bit = (at) => (side === 16 ? at : side * side - 1 - at);
  const cell = (_, at) => {
    const [one, other] = [bitOf(a, bit(at)), bitOf(b, bit(at))];
    return h("i", { class: one === other ? (one ? "one" : "zero") : "differs" });
  };
  const cells = Array.from({ length: side * side }, cell);
  return h(
    "div",
    {
      class: "signs",
      role: "img",
      label: "bits.label",
      style: { "--signs": side },
    },
    cells,
  );
}
