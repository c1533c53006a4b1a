// The Playground: experiments with sliders. The server computes every number; this page only draws them.

import { fetchExperiments } from "./api.js";
import { fold, make, setText } from "./dom.js";
import { addressParams, commandLine, resultPanel, saveParams, sliders } from "./playground-controls.js";
import { prose, table, tag } from "./playground-draw.js";
import { EXPERIMENTS } from "./playground-experiments.js";
import * as replay from "./playground-replay.js";

const PAGES = { ...EXPERIMENTS, replay: replay.PAGE };

export function mount(root, detail = "") {
  const wanted = detail.split("?")[0];
  const name = Object.hasOwn(PAGES, wanted) ? wanted : "boundary";
  const page = PAGES[name];
  document.title = `${page.title} · tidegate`;
  root.append(
    tag("div.heading", tag("h1", "Playground"), tag("p.muted", "Simulations run on this server, with the same code that decides checks.")),
    make("nav", { className: "experiments", "aria-label": "Experiments" }, Object.entries(PAGES).map(([key, { nav }]) =>
      make("a", { href: `#/playground/${key}`, "aria-current": key === name ? "page" : null }, nav))),
    tag("section.card.intro", tag("h2", page.title), tag("p", prose(page.problem)), tag("p", tag("strong", "Fix: "), prose(page.fix))));
  return name === "replay" ? replay.mount(root) : experiment(root, name, page);
}

function experiment(root, name, page) {
  const [picture, numbers] = [tag("div.picture"), tag("div.numbers")];
  const red = make("p", { className: "muted small red", hidden: true }, tag("i"), `Red: ${page.red}.`);
  const form = make("form", { className: "card knobs", "aria-label": "Parameters" });
  form.addEventListener("submit", (event) => event.preventDefault());
  const { result, summary, run, stop } = resultPanel(root, name, form, "Computing…");
  result.append(picture, red, fold("Numbers", { className: "bare" }, numbers));
  let clear = () => {};
  let isDestroyed = false;

  fetchExperiments().then(({ experiments }) => {
    if (isDestroyed) return;
    const knobs = sliders(form, experiments[name], page, addressParams(), () => {
      saveParams(name, knobs.changed());
      command.update();
      update();
    });
    const command = commandLine(() => shellCommand(name, knobs.values));
    const update = () => run(knobs.values, (report) => {
      clear();
      picture.replaceChildren();
      clear = page.draw(picture, report) ?? (() => {});
      numbers.replaceChildren(table(page.title, page.head, page.rows(report)));
      red.hidden = !numbers.querySelector(".bad");
      return page.sentence(report);
    }, knobs.markInvalid);
    root.append(fold("Command line", {}, command.node));
    update();
  }, (error) => setText(summary, `${error.message} Reload the page.`));

  return () => {
    isDestroyed = true;
    stop();
    clear();
  };
}

/** `window_ms: 1000` becomes `--window 1s`, and so on. */
function shellCommand(name, values) {
  const toOption = ([field, value]) => {
    const [option, unit] = field.split("_");
    const formatted = { ms: value % 1000 ? `${value}ms` : `${value / 1000}s`, permille: `${value / 10}%`, milli: value / 1000 };
    return `--${option} ${formatted[unit] ?? value}`;
  };
  return `tidegate simulate ${name} ${Object.entries(values).map(toOption).join(" ")}`;
}
