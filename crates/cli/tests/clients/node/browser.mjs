// A real browser on a page of the server. Records console errors and requests to other sites.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Starts Chromium. Returns `{ page(options), close() }`; each page records its problems in `page.problems`. */
export async function browse(url) {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", headless: true, args: FLAGS });
  return {
    async page({ width = 1280, height = 900, colorScheme = "light" } = {}) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB" });
      const page = await context.newPage();
      page.setDefaultTimeout(15_000);
      page.problems = [];
      page.on("console", (message) => { if (message.type() === "error") page.problems.push(message.text()); });
      page.on("pageerror", (error) => page.problems.push(String(error)));
      page.on("request", (request) => {
        const isOurs = request.url().startsWith(url) || request.url().startsWith("data:");
        if (!isOurs) page.problems.push(`request to another site: ${request.url()}`);
      });
      return page;
    },
    close: () => browser.close(),
  };
}

/** The page recorded no problem. */
export function assertNoProblems(page) {
  assert.deepEqual(page.problems, []);
}

/** Polls until `probe` returns a truthy value, and returns that. */
export async function until(what, probe, timeoutMs = 15_000) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Nothing is wider than the window. */
export async function assertFits(page) {
  const wide = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > width + 1).map((node) => `${node.tagName}.${node.className}`).slice(0, 5);
  });
  assert.deepEqual(wide, []);
}

/** axe-core finds no serious violation. */
export async function assertAccessible(page) {
  // Evaluated, not added as a script: the page's content security policy only allows its own.
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`), []);
}

/** Starts a server. Returns its address and how to stop it. It ends with this script at the latest. */
export async function serve(binary, address, ...args) {
  const server = spawn(binary, ["serve", "--listen", address, ...args], { stdio: ["ignore", "pipe", "ignore"] });
  process.on("exit", () => server.kill("SIGKILL"));
  const [banner] = await once(server.stdout, "data");
  return {
    address: String(banner).match(/http:\/\/(\S+)/)[1],
    async stop(signal) {
      const exited = once(server, "exit");
      server.kill(signal);
      await exited;
    },
  };
}
