// The input of one side of a comparison, or of a query: a text, an HTML page, an image, a stored document, or
// a hash. A file can be dropped on it. A large file is kept beside the field, because a field of megabytes is
// slow.

import { button, choice, fill, h, newId, notice, say, show } from "./dom.js";
import { bytes, utf8Length } from "./format.js";
import { dataUrl, isImage, preview } from "./image.js";

// Characters up to which the content of a file is put into the field.
const IN_FIELD = 100000;
// Bytes of a file from which it is not read: no server takes so large a text.
const MOST = 64 * 1024 * 1024;
const KINDS = ["text", "html", "image", "id", "hash"];

// The id in an address of a stored document, of the API or of a page; `null` of anything else.
function addressed(content) {
  const url = URL.canParse(content.trim()) ? new URL(content.trim()) : null;
  if (url?.origin !== location.origin) return null;
  const path = /\/documents\/([^/]+)$/.exec(url.pathname);
  if (path) return decodeURIComponent(path[1]);
  return new URLSearchParams(url.hash.split("?")[1]).get("id");
}

// The input. `title` is the message of its heading.
export function side(title, { onEnter, onInput = () => {} }) {
  let kind = "text";
  let file = null;
  const heading = newId("side");
  const area = h("textarea", { rows: 9, spellcheck: "false", hint: "side.text.hint", label: title });
  const line = h("input", {
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    label: title,
    class: "mono",
  });
  const count = h("p", { class: "note count", "aria-live": "polite" });
  const chip = h("div", { class: "filechip", hidden: true });
  const failure = h("div", {});
  const kinds = choice(
    "side.kind",
    KINDS.map((one) => [one, `side.kind.${one}`]),
    kind,
    setKind,
  );
  const picker = h("input", { type: "file", hidden: true, "aria-hidden": "true", tabindex: "-1" });
  const open = button("side.open", () => picker.click(), { class: "quiet" });
  const clear = button("side.clear", () => set("text", ""), { class: "quiet" });

  const node = h(
    "section",
    { class: "panel side-input", "aria-labelledby": heading },
    h("div", { class: "row" }, h("h2", { id: heading, t: title }), kinds),
    h("div", { class: "drop" }, area, line, chip),
    h("div", { class: "row" }, count, h("span", { class: "grow" }), open, clear),
    failure,
    picker,
  );

  function setKind(wanted) {
    if (file && Boolean(file.url) !== (wanted === "image")) file = null;
    kind = wanted;
    kinds.set(wanted);
    refresh();
    onInput();
  }

  function refresh() {
    const isLong = kind === "text" || kind === "html";
    const isPicture = kind === "image";
    show(area, isLong && !file);
    show(line, !isLong && !isPicture);
    show(chip, (isLong || isPicture) && Boolean(file));
    show(open, (isLong || isPicture) && !file);
    if (isPicture) return say(count, file ? null : "image.open");
    line.placeholder = kind === "hash" ? "f776119227163845" : "article-1";
    const length = file ? file.text.length : area.value.length;
    const size = () => bytes(utf8Length(file ? file.text : area.value));
    say(count, isLong && length ? ["side.count", { n: length, size }] : null);
  }

  function set(wanted, value) {
    file = null;
    fill(failure);
    if (wanted === "image") return setImage("", value);
    if (wanted === "text" || wanted === "html") area.value = value;
    else line.value = value;
    setKind(wanted);
  }

  function setImage(name, url) {
    file = url ? { name, url } : null;
    if (file) fill(chip, preview(url, title), h("strong", {}, name), removal());
    setKind("image");
  }

  const removal = () => button("side.remove", () => set("text", ""), { class: "quiet" });

  async function read(dropped) {
    fill(failure);
    if (dropped.size > MOST) {
      fill(
        failure,
        notice("bad", h("span", { t: ["side.toolarge", { size: () => bytes(dropped.size) }] })),
      );
      return;
    }
    if (isImage(dropped)) return setImage(dropped.name, await dataUrl(dropped));
    const text = await dropped.text();
    const isPage = /\.html?$/i.test(dropped.name) || dropped.type === "text/html";
    if (text.length <= IN_FIELD) {
      set(isPage ? "html" : "text", text);
      return;
    }
    file = { name: dropped.name, text };
    const head = text.slice(0, 400);
    fill(
      chip,
      h("strong", {}, dropped.name),
      h("p", { class: "clip" }, head),
      removal(),
    );
    setKind(isPage ? "html" : "text");
  }

  // Takes a text, which may be the address of a stored document.
  function take(text) {
    const id = addressed(text);
    if (id === null) set("text", text);
    else set("id", id);
  }

  area.addEventListener("input", () => {
    if (addressed(area.value) !== null) return take(area.value);
    refresh();
    onInput();
  });
  line.addEventListener("input", () => onInput());
  picker.addEventListener("change", () => {
    if (picker.files[0]) read(picker.files[0]);
    picker.value = "";
  });
  node.addEventListener("dragover", (event) => {
    event.preventDefault();
    node.classList.add("over");
  });
  node.addEventListener("dragleave", () => node.classList.remove("over"));
  node.addEventListener("drop", (event) => {
    event.preventDefault();
    node.classList.remove("over");
    if (event.dataTransfer.files[0]) read(event.dataTransfer.files[0]);
    else take(event.dataTransfer.getData("text/plain"));
  });
  node.addEventListener("keydown", (event) => {
    const isSend = event.key === "Enter" && (event.ctrlKey || event.metaKey || event.target === line);
    if (isSend) {
      event.preventDefault();
      onEnter();
    }
  });
  refresh();
  return {
    node,
    set,
    // The kind and the content; `null` if it is empty.
    value() {
      if (kind === "image") return file && { kind, content: file.url };
      const isLong = kind === "text" || kind === "html";
      const content = isLong ? (file ? file.text : area.value) : line.value.trim();
      if (content === "") return null;
      return { kind, content: kind === "id" ? (addressed(content) ?? content) : content };
    },
    focus: () => (kind === "text" || kind === "html" ? area : line).focus(),
  };
}

// The members of a request for a side. A hexadecimal text that is too long for a hash is a signature, and so
// is a long one in a collection of signatures.
export function asRequest({ kind, content }, isSigned) {
  const isLong = content.length > 34 && (content.length !== 64 || isSigned);
  const isSignature = kind === "hash" && /^[0-9a-f]+$/i.test(content) && isLong;
  return { [isSignature ? "signature" : kind]: content };
}
