// What the key of the session may do, so that the page can say so before the user tries.

import { events, get } from "./api.js";
import { h, newId, say, show } from "./dom.js";
import { t } from "./i18n.js";

const ROLES = ["read", "write", "admin"];
const listeners = [];
let known = { required: false, role: "admin" };

// What the server says about the key.
export const access = () => known;

// Asks the server what the key may do. Without a valid key, nothing is allowed.
export async function load(options) {
  try {
    known = await get("/key", options);
  } catch (error) {
    if (error.status === 401) known = { required: true, role: null };
    throw error;
  } finally {
    listeners.forEach((listener) => listener());
  }
  return known;
}

// A server may begin to require a key, and a key may be revoked: what it said before is then not true.
events.addEventListener("refused", () => {
  if (known.role) load().catch(() => {});
});

// Calls `listener` now and when the key changes.
export function onAccess(listener) {
  listeners.push(listener);
  listener();
}

// Why the key may not do something with a role in a collection (`null`: in all collections); `null` if it
// may.
export function refusal(role, collection) {
  if (!known.required) return null;
  if (!known.role) return ["access.none"];
  if (ROLES.indexOf(known.role) < ROLES.indexOf(role)) {
    return [
      "access.role",
      { name: known.name, has: () => roleName(known.role), needs: () => roleName(role) },
    ];
  }
  if (known.collections && collection === null) return ["access.all", { name: known.name }];
  if (known.collections && !known.collections.includes(collection)) {
    return ["access.collection", { name: known.name, collection }];
  }
  return null;
}

const roleName = (role) => t(`role.${role}`);

// Disables a button while the key may not do what it does, and states the reason under it. `collection`
// returns the collection, or `null` for an action on the whole server.
export function guard(control, role, collection) {
  const id = newId("reason");
  const reason = h("p", { class: "note reason", id, hidden: true });
  control.setAttribute("aria-describedby", id);
  const check = () => {
    const why = refusal(role, collection());
    control.disabled = Boolean(why);
    show(reason, Boolean(why));
    if (why) say(reason, why);
  };
  onAccess(check);
  control.checkAccess = check;
  return reason;
}
