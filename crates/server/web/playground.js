// The Playground: experiments with sliders. Every number comes from the server; this page chooses and draws.

import { make, say } from "./dom.js";
import { bench, chosen, commandLine, remember, sliders } from "./playground-controls.js";
import { prose, t, table } from "./playground-draw.js";
import { EXPERIMENTS } from "./playground-experiments.js";
import * as replay from "./playground-replay.js";
import { described } from "./playground-server.js";

const PAGES = { ...EXPERIMENTS, replay: replay.PAGE };

export function mount(root, detail = "") {
  const wanted = detail.split("?")[0];
  const name = Object.hasOwn(PAGES, wanted) ? wanted : "boundary";
  const page = PAGES[name];
  document.title = `${page.title} · tidegate`;
  root.append(
    t("div.heading", t("h1", "Playground"), t("p.soft", "Computed by this server, with the code that decides checks.")),
    make("nav", { className: "experiments", "aria-label": "Experiments" }, Object.entries(PAGES).map(([key, { nav }]) =>
      make("a", { href: `#/playground/${key}`, "aria-current": key === name ? "page" : null }, nav))),
    t("section.card.lede", t("h2", page.title), t("p", prose(page.see)), t("p", t("strong", "Instead: "), prose(page.instead))));
  return name === "replay" ? replay.mount(root) : experiment(root, name, page);
}

function experiment(root, name, page) {
  const [picture, numbers] = [t("div.picture"), t("div.numbers")];
  const form = make("form", { className: "card knobs", "aria-label": "What to try" });
  form.addEventListener("submit", (event) => event.preventDefault());
  const { result, summary, ask, stop } = bench(root, name, form, "Computing …");
  result.append(picture, numbers);
  let wipe = () => {};
  let isGone = false;

  described().then(({ experiments }) => {
    if (isGone) return;
    const knobs = sliders(form, experiments[name], page, chosen(), () => {
      remember(name, knobs.changed());
      command.update();
      run();
    });
    const command = commandLine(() => shellCommand(name, knobs.values));
    const run = () => ask(knobs.values, (report) => {
      wipe();
      picture.replaceChildren();
      wipe = page.draw(picture, report) ?? (() => {});
      numbers.replaceChildren(table(page.title, page.head, page.rows(report)));
      return page.sentence(report);
    }, knobs.blame);
    root.append(t("section.card", t("h2", "The same on the command line"), command.node));
    run();
  }, (problem) => say(summary, `${problem.message} Load the page again.`));

  return () => {
    isGone = true;
    stop();
    wipe();
  };
}

/** `window_ms` is `--window 1s` there, and so on. */
function shellCommand(name, values) {
  const option = ([field, value]) => {
    const [word, unit] = field.split("_");
    const told = { ms: value % 1000 ? `${value}ms` : `${value / 1000}s`, permille: `${value / 10}%`, milli: value / 1000 };
    return `--${word} ${told[unit] ?? value}`;
  };
  return `tidegate simulate ${name} ${Object.entries(values).map(option).join(" ")}`;
}
