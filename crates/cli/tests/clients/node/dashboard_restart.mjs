// A dashboard that is open while its server stops and restarts.
//
// node dashboard_restart.mjs BINARY
import assert from "node:assert/strict";
import { browse, serve, until } from "./browser.mjs";

const binary = process.argv[2];
let server = await serve(binary, "127.0.0.1:0");
const { address } = server;
const browser = await browse(`http://${address}`);
try {
  const page = await browser.page();
  await page.goto(`http://${address}/`);
  const ticks = () => page.evaluate(async () => (await import(document.querySelector("script[type=module]").src.replace("app.js", "feed.js"))).feed.ticks);
  await until("a few seconds", async () => (await ticks()).length >= 3);
  await server.stop("SIGKILL");
  await page.locator("#banner", { hasText: "Connection to the server lost at" }).waitFor();
  assert.equal(await page.locator("#link").innerText(), "reconnecting");
  console.log("a lost connection is shown");

  // Long enough for a gap in the charts.
  await until("three seconds without a server", async () => Date.now() - (await ticks()).at(-1).t > 3000);
  server = await serve(binary, address);
  await page.locator("#link.live").waitFor();
  await page.locator("#banner").waitFor({ state: "hidden" });
  await until("a gap, followed by new ticks", async () => {
    const known = await ticks();
    const gap = known.findIndex((tick) => tick.gap);
    return gap > 0 && known.length > gap + 2;
  });
  console.log("the page reconnects and shows a gap");

  // A hidden page closes its feed; when shown again, it has every tick.
  const watchers = async () => {
    const abort = new AbortController();
    const reader = (await fetch(`http://${address}/v1/live`, { signal: abort.signal })).body.getReader();
    const event = JSON.parse(new TextDecoder().decode((await reader.read()).value).match(/^data: (.*)$/m)[1]);
    abort.abort();
    return event.state.watchers;
  };
  const setHidden = (hidden) => page.evaluate((is) => {
    Object.defineProperty(document, "hidden", { value: is, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await until("the page watches", async () => (await watchers()) === 1);
  const gaps = async () => (await ticks()).filter((tick) => tick.gap).length;
  const [known, missed] = [(await ticks()).at(-1).t, await gaps()];
  await setHidden(true);
  await until("the hidden page has left", async () => (await watchers()) === 0);
  await until("four seconds pass", async () => Date.now() - known > 4000);
  await setHidden(false);
  await until("the missed ticks are there", async () => (await ticks()).filter((tick) => tick.t > known).length >= 4);
  assert.equal(await gaps(), missed);
  console.log("a hidden page closes its feed and misses nothing");

  // A full server's reason is shown, and a silent connection is replaced.
  await page.route("**/v1/live", (route) => route.fulfill({ status: 503, json: { detail: "64 dashboards are open already" } }));
  await setHidden(true);
  await setHidden(false);
  await page.locator("#banner", { hasText: "64 dashboards are open already. Reconnecting…" }).waitFor();
  await page.unroute("**/v1/live");
  await page.locator("#link.live").waitFor();
  await page.route("**/v1/live", () => {});
  await page.clock.install();
  await setHidden(true);
  await setHidden(false);
  await page.clock.fastForward(11_000);
  await page.locator("#banner", { hasText: "Connection to the server lost at" }).waitFor();
  console.log("a full or silent server is shown");

  // The browser reports only that the server was unreachable.
  const others = page.problems.filter((problem) => !/503|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/.test(problem));
  assert.deepEqual(others, []);
  await server.stop("SIGTERM");
} finally {
  await browser.close();
}
