// Requests to the server of the page. Every request of the console is made here.

const KEY = "lookalike.key";

// Tells the shell what requests learn about the server: `up`, `down`, `refused` (the key).
export const events = new EventTarget();

// An error that the server has answered, in the form of RFC 9457.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `status ${status}`);
    this.status = status;
    this.code = body.code || "unknown";
    this.body = body;
  }
}

// No answer: the server is gone, or the network is.
export class Unreachable extends Error {
  constructor() {
    super("no answer");
    this.code = "unreachable";
  }
}

// The key of this session. Only this tab has it, and it is forgotten with the tab.
export const key = () => sessionStorage.getItem(KEY);

// Keeps a key for the session, or forgets it.
export function setKey(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

// Sends a request and returns the response, whatever its status.
export async function send(method, path, { body, type, signal, secret = key() } = {}) {
  const headers = {};
  if (secret) headers.authorization = `Bearer ${secret}`;
  if (body !== undefined) headers["content-type"] = type || "application/json";
  const sent = body === undefined || type ? body : JSON.stringify(body);
  try {
    const response = await fetch(path, { method, headers, body: sent, signal, cache: "no-store" });
    events.dispatchEvent(new Event("up"));
    return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    events.dispatchEvent(new Event("down"));
    throw new Unreachable();
  }
}

// Throws the problem of a response that is one.
export async function check(response) {
  if (response.ok) return response;
  const text = await response.text();
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    body = { detail: text.slice(0, 300) };
  }
  if (response.status === 401) events.dispatchEvent(new Event("refused"));
  throw new Problem(response.status, body);
}

// Sends a request and returns the JSON of its answer; `null` if it has none.
export async function call(method, path, options) {
  const response = await check(await send(method, path, options));
  return response.status === 204 ? null : response.json();
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { body, ...options });

// A path in a collection.
export const at = (collection, rest = "") => `/collections/${encodeURIComponent(collection)}${rest}`;

// The path of a document.
export const documentPath = (collection, id) => at(collection, `/documents/${encodeURIComponent(id)}`);

// The path of the cluster that a document represents, and how much of it is wanted.
export const clusterPath = (collection, id, wanted) =>
  at(collection, `/clusters/${encodeURIComponent(id)}?${new URLSearchParams(wanted)}`);
