// A dashboard that is open while its server goes and comes back.
//
// node dashboard_gone.mjs BINARY
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
  await page.locator("#banner", { hasText: "No word from the server since" }).waitFor();
  assert.equal(await page.locator("#link").innerText(), "reconnecting");
  console.log("a server that is gone is told");

  // Long enough for a gap.
  await until("three seconds without it", async () => Date.now() - (await ticks()).at(-1).t > 3000);
  server = await serve(binary, address);
  await page.locator("#link.live").waitFor();
  await page.locator("#banner").waitFor({ state: "hidden" });
  await until("the gap is there, and life goes on", async () => {
    const known = await ticks();
    const gap = known.findIndex((tick) => tick.gap);
    return gap > 0 && known.length > gap + 2;
  });
  console.log("one that is back is found, and what was missed is a gap");

  // A page that nobody sees takes no place, and has missed nothing when it is seen again.
  const watchers = async () => {
    const asked = new AbortController();
    const reader = (await fetch(`http://${address}/v1/live`, { signal: asked.signal })).body.getReader();
    const told = JSON.parse(new TextDecoder().decode((await reader.read()).value).match(/^data: (.*)$/m)[1]);
    asked.abort();
    return told.state.watchers;
  };
  const look = (hidden) => page.evaluate((is) => {
    Object.defineProperty(document, "hidden", { value: is, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await until("it watches", async () => (await watchers()) === 1);
  const gaps = async () => (await ticks()).filter((tick) => tick.gap).length;
  const [known, missed] = [(await ticks()).at(-1).t, await gaps()];
  await look(true);
  await until("its place is free", async () => (await watchers()) === 0);
  await until("seconds go by", async () => Date.now() - known > 4000);
  await look(false);
  await until("what happened meanwhile is there", async () => (await ticks()).filter((tick) => tick.t > known).length >= 4);
  assert.equal(await gaps(), missed);
  console.log("who looks away gives back the place, and misses nothing");

  // A server that has no place says so, and a connection that is silent is given up.
  await page.route("**/v1/live", (route) => route.fulfill({ status: 503, json: { detail: "64 watch already" } }));
  await look(true);
  await look(false);
  await page.locator("#banner", { hasText: "64 watch already. Trying again." }).waitFor();
  await page.unroute("**/v1/live");
  await page.locator("#link.live").waitFor();
  await page.route("**/v1/live", () => {});
  await page.clock.install();
  await look(true);
  await look(false);
  await page.clock.fastForward(11_000);
  await page.locator("#banner", { hasText: "No word from the server since" }).waitFor();
  console.log("a server that has no place for it, or says nothing, is told");

  // The only complaints are those of the browser about a server that was not there.
  const others = page.troubles.filter((trouble) => !/503|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/.test(trouble));
  assert.deepEqual(others, []);
  await server.stop("SIGTERM");
} finally {
  await browser.close();
}
