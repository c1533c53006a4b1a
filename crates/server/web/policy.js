import { make } from "./dom.js";

export function mount(root, name) {
  root.append(make("h1", { textContent: name }));
  return () => root.replaceChildren();
}
