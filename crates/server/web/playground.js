// The Playground.

import { make } from "./dom.js";

export function mount(root) {
  root.append(make("h1", { textContent: "Playground" }), make("p", { className: "empty", textContent: "Nothing to play with in this version yet." }));
  return () => root.replaceChildren();
}
