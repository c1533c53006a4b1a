// The frame of the page: routing between views, connection status, theme.

import { make, setText } from "./dom.js";
import { feed } from "./feed.js";
import { outageBanner } from "./outage.js";

const $ = (id) => document.getElementById(id);
const VIEWS = {
  live: { title: "Live", load: () => import("./live.js") },
  policies: { title: "Policy", load: () => import("./policy.js") },
  playground: { title: "Playground", load: () => import("./playground.js") },
};

/** The first view waits this long for data, so that its layout does not jump. */
const FIRST_DATA_TIMEOUT_MS = 150;

let unmount = () => {};
let navigations = 0;

/** `#/policies/NAME` → ["policies", "NAME"]. */
function route() {
  const [view = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* not encoded: use it as typed */ }
  return [view === "" ? "live" : view, name];
}

async function navigate({ isFirst = false } = {}) {
  const navigation = ++navigations;
  const [name, detail] = route();
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : VIEWS.live;
  document.title = detail ? `${detail} · tidegate` : `${view.title} · tidegate`;
  for (const link of document.querySelectorAll("[data-view]")) {
    const isCurrent = VIEWS[link.dataset.view] === view || (name === "policies" && link.dataset.view === "live");
    if (isCurrent) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  let module;
  try {
    const data = isFirst && Promise.race([feed.ready, new Promise((resolve) => setTimeout(resolve, FIRST_DATA_TIMEOUT_MS))]);
    [module] = await Promise.all([view.load(), data]);
  } catch (error) {
    module = { mount: (root) => { root.append(make("p", { className: "empty", textContent: `Could not load this view (${error.message}). Reload the page.` })); } };
  }
  if (navigation !== navigations) return;
  unmount();
  const root = make("div", { className: "view" });
  $("main").replaceChildren(root);
  unmount = module.mount(root, detail) ?? (() => {});
  if (!isFirst) $("main").focus({ preventScroll: true });
  scrollTo(0, 0);
}

function setUpTheme() {
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  const update = () => {
    $("theme").title = `Switch to ${other()} theme`;
    $("theme").setAttribute("aria-label", $("theme").title);
    document.dispatchEvent(new Event("themechange"));
  };
  $("theme").addEventListener("click", () => {
    const theme = other();
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("tidegate-theme", theme); } catch { /* kept until the page is closed */ }
    update();
  });
  systemDark.addEventListener("change", update);
  update();
}

function setUpStatus() {
  const showOutage = outageBanner($("outage"));
  feed.watch(({ link, error, state }) => {
    const isFailing = link === "live" && Boolean(state?.store.outages.length);
    $("link").className = `pill ${isFailing ? "bad" : link}`;
    setText($("link").lastElementChild, isFailing ? "store failing" : link);
    showOutage(feed);
    const isLost = link === "reconnecting";
    $("banner").hidden = !isLost;
    // The style sheet greys out data that may be stale.
    document.body.classList.toggle("lost", isLost);
    if (isLost) setText($("banner"), error);
    if (state) setText($("about"), `tidegate ${state.version}`);
  });
}

// The hash belongs to the router: the skip link must not change it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
setUpTheme();
setUpStatus();
addEventListener("hashchange", () => navigate());
feed.start(globalThis.firstStream);
navigate({ isFirst: true });
