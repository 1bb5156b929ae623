// The collection that the pages work on. All pages share it, and the address has its name.

import { get } from "./api.js";

const listeners = [];
let all = [];
let profiles = [];
let name = "default";

// All collections that the key includes.
export const collections = () => all;

// The chosen collection; `undefined` if it does not exist.
export const chosen = () => all.find((collection) => collection.name === name);

// The name of the chosen collection.
export const chosenName = () => name;

// The profiles of the server.
export const knownProfiles = () => profiles;

// The greatest distance that a collection can have.
export const mostDistance = (collection) => collection.signatures?.cells ?? collection.bits;

// Chooses a collection.
export function choose(wanted) {
  if (wanted === name) return;
  name = wanted;
  changed();
}

// Reads the collections. If the chosen one does not exist, the first is chosen.
export async function load() {
  const answer = await get("/collections");
  all = answer.collections;
  if (profiles.length === 0) profiles = (await get("/profiles")).profiles;
  if (!chosen() && all.length > 0) name = (all.find((one) => one.name === "default") ?? all[0]).name;
  changed();
}

// Calls `listener` now and when the collections or the choice change.
export function onPick(listener) {
  listeners.push(listener);
  listener();
}

function changed() {
  listeners.forEach((listener) => listener());
}
