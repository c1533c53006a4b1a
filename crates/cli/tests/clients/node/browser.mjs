// A real browser on a page of the server, watched: what it complains of and whom it calls is noted.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Starts Chromium. Answers `{ page(options), close() }`: pages that note what went wrong. */
export async function browse(url) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", headless: true, args: FLAGS });
  return {
    async page({ width = 1280, height = 900, colorScheme = "light" } = {}) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB" });
      const page = await context.newPage();
      page.setDefaultTimeout(15_000);
      page.troubles = [];
      page.on("console", (message) => { if (message.type() === "error") page.troubles.push(message.text()); });
      page.on("pageerror", (error) => page.troubles.push(String(error)));
      page.on("request", (request) => {
        const isOurs = request.url().startsWith(url) || request.url().startsWith("data:");
        if (!isOurs) page.troubles.push(`a request elsewhere: ${request.url()}`);
      });
      return page;
    },
    close: () => browser.close(),
  };
}

/** Nothing was complained of so far. */
export function calm(page) {
  assert.deepEqual(page.troubles, []);
}

/** Polls until `look` gives something true, and answers that. */
export async function until(what, look, patienceMs = 15_000) {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > deadline) throw new Error(`never seen: ${what}`);
    await new Promise((then) => setTimeout(then, 50));
  }
}

/** Nothing is wider than the window. */
export async function fits(page) {
  const wide = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > width + 1).map((node) => `${node.tagName}.${node.className}`).slice(0, 5);
  });
  assert.deepEqual(wide, []);
}

/** No serious trouble for those who hear the page, or see it badly. */
export async function accessible(page) {
  // Not as a script of the page, which would be refused: the page only runs its own.
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`), []);
}

/** Starts a server of its own, and answers where it listens and how to stop it. It ends with this script. */
export async function serve(binary, address, ...args) {
  const server = spawn(binary, ["serve", "--listen", address, ...args], { stdio: ["ignore", "pipe", "ignore"] });
  process.on("exit", () => server.kill("SIGKILL"));
  const [welcome] = await once(server.stdout, "data");
  return {
    address: String(welcome).match(/http:\/\/(\S+)/)[1],
    async stop(signal) {
      const gone = once(server, "exit");
      server.kill(signal);
      await gone;
    },
  };
}
