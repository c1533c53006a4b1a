// The shell: which view is shown, how the link to the server does, dark or light.

import { make, say } from "./dom.js";
import { feed } from "./feed.js";

const $ = (id) => document.getElementById(id);
const VIEWS = {
  live: { title: "Live", load: () => import("./live.js") },
  policies: { title: "Policy", load: () => import("./policy.js") },
  playground: { title: "Playground", load: () => import("./playground.js") },
};

/** For so long the first view waits for figures, so that it is laid out once. */
const PATIENCE_MS = 150;

let unmount = () => {};
let shown = 0;

/** `#/policies/NAME` → ["policies", "NAME"]. */
function place() {
  const [view = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* as it was typed */ }
  return [view === "" ? "live" : view, name];
}

async function show({ isFirst = false } = {}) {
  const turn = ++shown;
  const [name, detail] = place();
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : VIEWS.live;
  document.title = detail ? `${detail} · tidegate` : `${view.title} · tidegate`;
  for (const link of document.querySelectorAll("[data-view]")) {
    const isHere = VIEWS[link.dataset.view] === view || (name === "policies" && link.dataset.view === "live");
    if (isHere) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  let module;
  try {
    const figures = isFirst && Promise.race([feed.begun, new Promise((then) => setTimeout(then, PATIENCE_MS))]);
    [module] = await Promise.all([view.load(), figures]);
  } catch (error) {
    module = { mount: (root) => { root.append(make("p", { className: "empty", textContent: `This view could not be loaded. Load the page again. (${error.message})` })); return () => {}; } };
  }
  if (turn !== shown) return;
  unmount();
  const root = make("div", { className: "view" });
  $("main").replaceChildren(root);
  unmount = module.mount(root, detail) ?? (() => {});
  if (!isFirst) $("main").focus({ preventScroll: true });
  scrollTo(0, 0);
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const now = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  const told = () => {
    const other = now() === "dark" ? "light" : "dark";
    $("theme").setAttribute("aria-label", `Switch to ${other} colours`);
    $("theme").title = `Switch to ${other} colours`;
    document.dispatchEvent(new Event("themechange"));
  };
  $("theme").addEventListener("click", () => {
    const other = now() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = other;
    try { localStorage.setItem("tidegate-theme", other); } catch { /* until the page is closed */ }
    told();
  });
  dark.addEventListener("change", told);
  told();
}

/** The pill, the banner, and what is said aloud now and then. */
function link() {
  feed.watch((now) => {
    const pill = $("link");
    pill.className = `pill ${now.link}`;
    say(pill.lastElementChild, now.link);
    const banner = $("banner");
    const isLost = now.link === "reconnecting";
    banner.hidden = !isLost;
    // What is shown was so.
    document.body.classList.toggle("lost", isLost);
    if (isLost) say(banner, now.trouble);
    if (now.state) say($("about"), `tidegate ${now.state.version}`);
  });
}

// The place in the address is the view's.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
theme();
link();
addEventListener("hashchange", () => show());
feed.start(globalThis.early);
show({ isFirst: true });
