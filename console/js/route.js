// Which page is shown: the fragment of the address, as in `#/find?collection=news`. What does not fit into an
// address, such as a text, is handed over beside it.

const listeners = [];
let handedOver = null;

// The page and the parameters of the address.
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: path || "compare", parameters: new URLSearchParams(query || "") };
}

// The address of a page.
export function address(page, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}

// Shows a page. `payload` is handed to it.
export function go(page, parameters = {}, payload = null) {
  handedOver = payload;
  const to = address(page, parameters);
  if (location.hash === to) changed();
  else location.hash = to;
}

// Calls `listener` with page, parameters and payload at each change.
export function onChange(listener) {
  listeners.push(listener);
}

function changed() {
  const { page, parameters } = here();
  const payload = handedOver;
  handedOver = null;
  listeners.forEach((listener) => listener(page, parameters, payload));
}

// Begins to follow the address.
export function start() {
  window.addEventListener("hashchange", changed);
  changed();
}
