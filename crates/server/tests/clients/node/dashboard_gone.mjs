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

  // The only complaints are those of the browser about a server that was not there.
  const others = page.troubles.filter((trouble) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/.test(trouble));
  assert.deepEqual(others, []);
  await server.stop("SIGTERM");
} finally {
  await browser.close();
}
