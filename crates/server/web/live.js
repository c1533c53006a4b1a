import { make } from "./dom.js";

export function mount(root) {
  root.append(make("h1", { textContent: "Live" }));
  return () => root.replaceChildren();
}
