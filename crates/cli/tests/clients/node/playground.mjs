// The playground of the server at the given URL, in a real browser. Prints a line for each behaviour that it verified,
// and after a `$` each command that the page shows.
import assert from "node:assert/strict";
import { assertAccessible, assertFits, assertNoProblems, browse, until } from "./browser.mjs";

const url = process.argv[2];
const NAMES = ["boundary", "sync-lag", "algorithms", "overload", "race", "clock-skew"];
const passed = (claim) => console.log(claim);
const browser = await browse(url);
const summary = (page) => page.locator(".summary").innerText();
const says = (page, what) => until(`${what}`, async () => what.test(await summary(page)));
const command = (page) => page.locator(".line code").innerText();
const simulate = async (name, body) => (await fetch(`${url}/v1/playground/${name}`, { method: "POST", body: JSON.stringify(body) })).json();

const close = (...pages) => Promise.all(pages.map((page) => page.context().close()));

async function open(place, options = {}) {
  const page = await browser.page(options);
  await page.goto(`${url}/#/playground/${place}`);
  await page.locator("#link.live").waitFor();
  return page;
}

/** A line of an access log. */
const line = (second, client, agent) => JSON.stringify({ time: `2026-10-10T13:55:${String(second).padStart(2, "0")}.5Z`, client_ip: client, method: "GET", path: "/", user_agent: agent });

try {
  // The defaults.
  const page = await open("");
  await says(page, /^40 requests pass a fixed window within 150 ms: 2 × the limit of 20 per second/);
  await page.getByRole("link", { name: "Sync lag" }).click();
  await says(page, /^Naive caching admits 108 where 60 are allowed \(\+80 %\); tidegate admits 60, and 60 with leases/);
  assert.equal(await command(page), "tidegate simulate sync-lag --nodes 3 --limit 60 --window 1s --interval 400ms --seed 1");
  passed("the golden numbers are shown");

  // From other parameters to the same numbers, by keyboard alone.
  await page.goto(`${url}/#/playground/sync-lag?nodes=2&interval_ms=350`);
  await says(page, /admits 81 where 60/);
  await page.getByRole("slider", { name: "Nodes" }).focus();
  await page.keyboard.press("ArrowRight");
  await says(page, /admits 102 where 60/);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "knob-interval_ms");
  await page.keyboard.press("ArrowRight");
  await says(page, /admits 108 where 60/);
  assert.equal(await page.getByRole("slider", { name: "Sync interval" }).getAttribute("aria-valuetext"), "400 ms");
  assert.equal(new URL(page.url()).hash, "#/playground/sync-lag", "defaults are not in the address");
  for (let n = 0; n < 12; n++) await page.keyboard.press("ArrowRight");
  const { ways: [naive] } = await simulate("sync-lag", { interval_ms: 1000 });
  await says(page, new RegExp(`admits ${naive.admitted} where 60`));
  await page.goto(`${url}/#/playground/boundary?limit=19`);
  await says(page, /^38 requests/);
  await page.getByRole("slider", { name: "Limit per window" }).focus();
  await page.keyboard.press("ArrowRight");
  await says(page, /^40 requests pass a fixed window within 150 ms/);
  await page.getByRole("slider", { name: "Attack position" }).focus();
  for (let n = 0; n < 5; n++) await page.keyboard.press("ArrowRight");
  await says(page, /^40 requests pass a fixed window within 100 ms/);
  passed("sliders work by keyboard, and the numbers follow");

  // A typed number may exceed the slider's range; the server rejects what is out of bounds.
  await page.goto(`${url}/#/playground/sync-lag`);
  await page.getByRole("spinbutton", { name: "Limit per window, exact value" }).fill("5000");
  await says(page, /where 5,000 are allowed/);
  page.problems.length = 0;
  await page.getByRole("spinbutton", { name: "Nodes, exact value" }).fill("99");
  await page.getByRole("alert").getByText("`limit`: expected at most 30000 for all nodes together").waitFor();
  assert.equal(await page.locator("[aria-invalid]").getAttribute("aria-label"), "Limit per window, exact value");
  await page.getByRole("spinbutton", { name: "Limit per window, exact value" }).fill("100");
  await page.getByRole("alert").waitFor({ state: "hidden" });
  await says(page, /where 100 are allowed/);
  assert.equal(await page.locator("[aria-invalid]").count(), 0);
  page.problems.length = 0; // the browser logs every 400
  passed("numbers can be typed, and errors are shown");

  const hash = new URL(page.url()).hash;
  assert.equal(hash, "#/playground/sync-lag?nodes=99&limit=100");
  const shared = await open(hash.slice("#/playground/".length));
  await says(shared, /where 100 are allowed/);
  assert.equal(await command(shared), await command(page));
  await shared.getByRole("button", { name: "New random seed" }).click();
  await until("another seed", async () => (await command(shared)).endsWith("--seed 2"));
  assertNoProblems(shared);
  await close(page, shared);
  passed("an address restores its parameters");

  // A 503 is retried after Retry-After.
  const busy = await browser.page();
  let refused = 0;
  await busy.route("**/v1/playground/race", (route) => {
    refused += 1;
    return refused > 2 ? route.continue() : route.fulfill({ status: 503, headers: { "retry-after": "1" }, body: "{}" });
  });
  await busy.goto(`${url}/#/playground/race`);
  await says(busy, /^In 1,000 runs, up to 2 requests exceeded the limit of 60/);
  assert.equal(refused, 3);
  await close(busy);
  passed("a busy server is retried");

  for (const name of NAMES) {
    const one = await open(name, { colorScheme: "dark" });
    await until(`${name} is drawn`, async () => (await one.locator(".numbers tbody tr").count()) > 1);
    assert.equal((await one.locator(".summary").getAttribute("aria-live")), "polite");
    assert.ok(await one.locator(".intro p").count() === 2 && (await one.title()).endsWith("· tidegate"));
    await assertAccessible(one);
    assertNoProblems(one);
    passed(`$ ${await command(one)}`);
    await close(one);
  }
  passed("every experiment has a chart, a summary and a table");

  // Figures agree with the advice, and red has a reason.
  const skew = await open("clock-skew");
  await says(skew, /^By the nodes' clocks, fixed-window admits 1,800 where 600 are allowed, and gcra 927 where 660 are\. By the store's clock, 600 and 658\.$/);
  const report = await simulate("clock-skew", {});
  for (const { algorithm, allowed, store_clock: byStore } of report.algorithms) assert.ok(byStore.admitted <= allowed, algorithm);
  assert.equal(await skew.locator(".numbers .bad").count(), report.algorithms.filter((row) => row.own_clocks.admitted > row.allowed).length);
  await skew.getByText("Red: more than the limit allows in all windows together.").waitFor();
  await skew.goto(`${url}/#/playground/clock-skew?skew_ms=0`);
  await until("nothing is red without skew", async () => (await skew.locator(".numbers tbody tr").count()) === 6 && (await skew.locator(".numbers .bad").count()) === 0);
  assert.equal(await skew.locator(".red").isVisible(), false);
  await skew.goto(`${url}/#/playground/boundary`);
  const leaky = skew.locator(".timelines li", { hasText: "leaky-bucket" });
  await until("a leaky bucket's row says what waits", async () => /4\s+\+ 20 wait/.test(await leaky.innerText()));
  const filled = await leaky.locator(".burst i:not(.later)").evaluateAll((parts) => parts.map((part) => part.style.height));
  assert.deepEqual(filled, ["20%", "0%"]);
  await skew.getByText("Red: more than 1.5 × the limit within the gap.").waitFor();
  await close(skew);
  passed("figures agree with the advice, and red has a reason");

  // A chart without a time has no value of now: its legend has none until somebody points at it.
  const lag = await open("sync-lag");
  await until("the curve is drawn", async () => (await lag.locator(".u-over").count()) === 1);
  assert.equal((await lag.locator(".legend").innerText()).replace(/\s+/g, " ").trim(), "Naive caching tidegate");
  const area = await lag.locator(".u-over").boundingBox();
  await lag.mouse.move(area.x + area.width / 2, area.y + area.height / 2);
  await until("values under the pointer", async () => /Naive caching \d+ tidegate 60 at [\d.]+/.test((await lag.locator(".legend").innerText()).replace(/\s+/g, " ")));
  await close(lag);
  passed("a legend shows the point under the pointer");

  // The chart shows the chosen controllers.
  const overload = await open("overload");
  await overload.getByRole("combobox").selectOption("slow-db");
  await says(overload, / of 133 possible\.$/);
  const shown = () => overload.locator(".picture .legend li:not(.pointed)").count();
  const before = await shown();
  await overload.getByRole("checkbox", { name: "raw 1−CPU" }).check();
  assert.equal(await shown(), before + 1);
  assertNoProblems(overload);
  await close(overload);
  passed("controllers can be chosen");

  // A log with a client over its limit, and a user agent that contains markup.
  const replay = await open("replay");
  const hostile = "<img src=x onerror=alert(1)>";
  const log = [...Array.from({ length: 30 }, (_, second) => line(second, "192.0.2.7", "curl")), ...Array.from({ length: 9 }, () => line(40, "198.51.100.23", hostile))].join("\n");
  await replay.getByLabel("Access log", { exact: true }).fill(log);
  await replay.getByLabel("Policy text").fill("6/min burst 5");
  await replay.getByRole("button", { name: "Replay" }).click();
  await says(replay, /^27 of 39 requests would have been denied \(69\.2 %\), from 2 keys\.$/);
  assert.match(await replay.locator(".replay-report table").innerText(), /192\.0\.2\.7\s+23/);
  await replay.getByLabel("Key (if").fill("header:user-agent");
  await replay.getByRole("button", { name: "Replay" }).click();
  await until("the user agent is a key", async () => (await replay.locator(".replay-report table").innerText()).includes("<img"));
  assert.equal(await replay.locator(".replay-report img").count(), 0);
  await assertAccessible(replay);
  assertNoProblems(replay);
  await replay.getByLabel("Policy text").fill("limit: 6/min\nbrust: 5");
  await replay.getByRole("button", { name: "Replay" }).click();
  await replay.getByRole("alert").getByText("line 2, column 1: unknown key `brust`, did you mean `burst`?").waitFor();
  await replay.getByRole("combobox", { name: "Policy" }).selectOption("api");
  await replay.getByLabel("Key (if").fill("");
  await replay.getByRole("button", { name: "Use example log" }).click();
  await says(replay, /^112 of 223 requests would have been denied/);
  assert.equal(new URL(replay.url()).hash, "#/playground/replay?policy=api");
  assert.equal(await command(replay), "tidegate replay access.log -c tidegate.yaml --policy api");
  // A log that is too long in bytes is cut, not refused.
  await replay.getByRole("combobox", { name: "Policy" }).selectOption("");
  await replay.getByLabel("Policy text").fill("6/min burst 5");
  const long = Array.from({ length: 2000 }, (_, n) => line(n % 60, "192.0.2.7", "日".repeat(200))).join("\n");
  await replay.getByLabel("Access log", { exact: true }).evaluate((node, text) => { node.value = text; }, long);
  await replay.getByRole("button", { name: "Replay" }).click();
  await says(replay, /^\d\d % of the log was read, the first 1,[\d,]+ lines; .* of 1,[\d,]+ requests would have been denied/);
  assert.equal(await command(replay), "tidegate replay access.log --policy '6/min burst 5'");
  // Of a file, the part that was read is told of the whole file.
  const whole = Buffer.from(`${line(7, "192.0.2.7", "x".repeat(80))}\n`.repeat(40_000));
  await replay.getByLabel("Choose a log file").setInputFiles({ name: "access.log", mimeType: "text/plain", buffer: whole });
  await until("the file is loaded", async () => (await replay.getByLabel("Access log", { exact: true }).inputValue()).includes("x".repeat(80)));
  await replay.getByRole("button", { name: "Replay" }).click();
  const percent = Math.floor(100 * 1_000_000 / whole.length);
  await says(replay, new RegExp(`^(${percent}|${percent - 1}|${percent - 2}) % of the log was read`));
  await close(replay);
  passed("a pasted log shows which requests a policy denies");

  for (const name of [...NAMES, "replay"]) {
    const phone = await open(name, { width: 360, height: 740 });
    if (name === "replay") await phone.getByRole("button", { name: "Use example log" }).click();
    await until(`${name} is drawn`, async () => (await phone.locator(".result table, .result svg").count()) > 0);
    await assertFits(phone);
    const height = await phone.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height < 2600, `${name} is ${height} px long`);
    await assertAccessible(phone);
    assertNoProblems(phone);
    await close(phone);
  }
  passed("every experiment fits a phone");
} finally {
  await browser.close();
}
