// The dashboard of the server at the given URL, in a real browser. Prints a line for each behaviour that it verified.
import assert from "node:assert/strict";
import { assertAccessible, assertFits, assertNoProblems, browse, until } from "./browser.mjs";

const url = process.argv[2];
const post = async (path, body) => (await fetch(url + path, { method: "POST", body: JSON.stringify(body) })).json();
const passed = (claim) => console.log(claim);
const browser = await browse(url);

async function open(options, place = "") {
  const page = await browser.page(options);
  await page.goto(`${url}/${place}`);
  await page.locator("#link.live").waitFor();
  return page;
}

const text = (page, selector) => page.locator(selector).innerText();
const row = (page, name) => page.locator("table.rows tr", { has: page.locator(`a:text-is("${name}")`) });

try {
  // Before the first check.
  const page = await open({});
  const drawn = (place) => place.locator(".uplot canvas").first().evaluate((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean));
  await until("lines are drawn", () => drawn(page));
  const timing = await page.evaluate(() => {
    const [navigation] = performance.getEntriesByType("navigation");
    const files = performance.getEntriesByType("resource").filter(({ name }) => name.includes("/assets/"));
    return { ms: Math.round(navigation.loadEventEnd), files: files.length, bytes: [navigation, ...files].reduce((sum, it) => sum + it.decodedBodySize, 0) };
  });
  assert.ok(timing.bytes > 50_000 && timing.bytes <= 160_000, JSON.stringify(timing));
  await page.getByRole("heading", { name: "No checks yet" }).waitFor();
  assert.match(await text(page, ".welcome pre"), /^curl -s http:\/\/127\.0\.0\.1:\d+\/v1\/check -d '\{"policy":"api","key":"user-42"\}'$/);
  await assertAccessible(page);
  for (const name of ["Try it", "Store", "Breaker", "Leases", "Nodes"]) await page.getByRole("region", { name, exact: true }).waitFor();
  assert.equal(await page.locator(".spark:not([aria-hidden=true])").count(), 0);
  passed("an empty page says how to send a check");
  console.error(`loaded in ${timing.ms} ms: ${timing.files} files, ${timing.bytes} bytes`);

  // The button sends checks to the real API, and stops by itself.
  await page.getByRole("button", { name: "Send sample checks" }).click();
  await until("the sample checks end", async () => /^\d+ checks sent$/.test(await text(page, ".welcome [role=status]")), 30_000);
  const { api } = await page.evaluate(async () => (await import(document.querySelector("script[type=module]").src.replace("app.js", "feed.js"))).feed.state.policies);
  assert.ok(api.allowed > 0 && api.denied > 0, JSON.stringify(api));
  passed("the page sends sample checks and shows them");

  // Checks of other clients appear within two ticks, and so do denied keys.
  for (let n = 0; n < 30; n++) await post("/v1/check", { policy: "login", key: "<img src=x onerror=alert(1)>" });
  await until("checks appear", async () => (await row(page, "login").locator("td").nth(3).innerText()).includes("%"));
  await until("denied keys appear", async () => (await text(page, "ol.bars")).includes("login"));
  assert.equal(await page.locator("ol.bars img").count(), 0);
  // A selected key stays selected while the list updates.
  for (let n = 0; n < 305; n++) await post("/v1/check", { policy: "login", key: "mallory" });
  const worst = page.locator("ol.bars b").first();
  await until("all denials are counted", async () => (await worst.innerText()) === "300");
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("ol.bars .label")));
  await post("/v1/check", { policy: "login", key: "mallory" });
  await until("one more denial is counted", async () => (await worst.innerText()) === "301");
  assert.equal(await page.evaluate(() => String(getSelection())), await text(page, "ol.bars li:first-child .label"));
  passed("checks and denials appear as they happen");

  // By keyboard alone: to the content, along the policies, into one, and a check there.
  await page.reload();
  await row(page, "login").waitFor();
  const focused = [];
  for (let n = 0; n < 40; n++) {
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => {
      const node = document.activeElement;
      const look = getComputedStyle(node);
      return { text: node.innerText?.trim() || node.getAttribute("aria-label") || "", ring: look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2 };
    });
    assert.ok(here.ring, `no focus ring around ${here.text}`);
    focused.push(here.text);
    if (here.text === "login") break;
  }
  for (const stop of ["tidegate", "Skip to content", "Live", "Playground", "Show as table", "login"]) assert.ok(focused.includes(stop), `${stop} in ${focused}`);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "login" }).waitFor();
  assert.ok(page.url().endsWith("#/policies/login"));
  passed("everything is reachable by keyboard, with a focus ring");

  // The policy.
  await until("its limit is shown", async () => /sliding-log\s+5\/h/.test(await text(page, ".limits")));
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.getByLabel("Key").fill("ann");
  await page.getByRole("button", { name: "Check" }).click();
  await until("allowed", async () => (await text(page, ".answer")).startsWith("Allowed 4 of 5 left"));
  // Checks over several connections are decided in any order: the last one may be allowed.
  await until("denied", async () => {
    await page.keyboard.press("Enter");
    return (await text(page, ".answer")).startsWith("Denied 0 of 5 left, retry in");
  });
  await page.locator(".chart summary").first().click();
  await until("a table", async () => (await page.locator(".figures tbody tr").count()) > 2);
  await assertAccessible(page);
  passed("a policy page shows limits and sends checks");

  // A peek spends nothing, and the form says that a check does.
  assert.match(await text(page, ".try"), /A check spends real units of this key, as a client's would\. A peek spends nothing\./);
  await page.getByLabel("Key").fill("peeked");
  for (let n = 0; n < 3; n++) {
    await page.getByRole("button", { name: "Peek" }).click();
    await until("the peek is answered", async () => (await text(page, ".answer")).startsWith("Would be allowed 4 of 5 left"));
  }
  await page.getByRole("button", { name: "Check" }).click();
  await until("nothing was spent before", async () => (await text(page, ".answer")).startsWith("Allowed 4 of 5 left"));
  const described = await page.evaluate(async () => {
    const { policySummary } = await import(document.querySelector("script[type=module]").src.replace("app.js", "describe.js"));
    return [policySummary({ algorithm: "quota", rate: "100/month", limit: 100, time_zone: "Europe/Berlin" }), policySummary({ algorithm: "concurrency", rate: "2 at once", limit: 2 })];
  });
  assert.deepEqual(described, ["quota 100/month, from midnight in Europe/Berlin", "concurrency 2 at once"]);
  passed("a peek spends nothing");

  // The tile and the legend average the same seconds, and areas are stacked. A hidden page has no feed: nothing moves.
  const setHidden = (hidden) => page.evaluate((is) => {
    Object.defineProperty(document, "hidden", { value: is, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await setHidden(true);
  await page.evaluate(async (all) => {
    const { feed } = await import(document.querySelector("script[type=module]").src.replace("app.js", "feed.js"));
    feed.ticks = all.map(([allowed, denied], at) => ({ t: 1_800_000_000_000 + at * 1000, ms: 1000, policies: { login: { allowed, denied } }, doors: {}, all: { count: 1, p50_us: 10, p99_us: 20 }, limits: {}, pressure: {} }));
    location.hash = "#/";
  }, [[10, 0], [20, 10], [30, 10], [40, 10], [50, 10], [60, 10]]);
  const legend = async () => (await page.locator(".legend").first().innerText()).replace(/\s+/g, " ").trim();
  await until("the legend is drawn", async () => (await page.locator("h1").innerText()) === "Live" && (await legend()) === "allowed 40 denied 10");
  assert.match(await text(page, ".tiles"), /Decisions\/s\s+50\s+peak 70/);
  // At the right edge the line of denied checks is above that of allowed ones.
  await until("the chart is drawn", () => drawn(page));
  const tops = await page.locator(".uplot canvas").first().evaluate((canvas) => {
    const box = canvas.closest(".uplot").querySelector(".u-over");
    const ratio = canvas.width / canvas.clientWidth;
    const left = Math.round((box.offsetLeft + box.clientWidth - 2) * ratio);
    const column = canvas.getContext("2d").getImageData(left, 0, 1, canvas.height).data;
    const first = (wanted) => {
      for (let y = 0; y < canvas.height; y += 1) if (wanted.every((value, at) => Math.abs(column[4 * y + at] - value) < 40)) return y;
      return null;
    };
    return { allowed: first([13, 133, 119, 255]), denied: first([200, 64, 26, 255]) };
  });
  assert.ok(tops.allowed !== null && tops.denied !== null && tops.denied < tops.allowed, JSON.stringify(tops));
  // The legend shows the point under the pointer, and its time.
  const box = await page.locator(".u-over").first().boundingBox();
  await page.mouse.move(box.x + box.width - 1, box.y + box.height / 2);
  await until("the point under the pointer", async () => {
    const [, allowed, second] = (await legend()).match(/^allowed (\d+) denied \d+ at 08:00:0(\d)$/) ?? [];
    return second !== undefined && Number(allowed) === 10 * (Number(second) + 1);
  });
  await page.mouse.move(0, 0);
  await until("the mean again", async () => (await legend()) === "allowed 40 denied 10");
  await setHidden(false);
  await page.reload();
  await page.locator("#link.live").waitFor();
  passed("the legend and the tiles say the same");

  // The chosen theme is kept.
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole("button", { name: "Switch to dark theme" }).click();
  const dark = await background();
  assert.notEqual(light, dark);
  await assertAccessible(page);
  await page.reload();
  await page.locator("#link.live").waitFor();
  assert.equal(await background(), dark);
  assertNoProblems(page);
  await page.context().close();
  const night = await open({ colorScheme: "dark" });
  assert.equal(await night.evaluate(() => getComputedStyle(document.body).backgroundColor), dark);
  await assertAccessible(night);
  assertNoProblems(night);
  await night.context().close();
  passed("the theme follows the system or the choice");

  // On a phone.
  const phone = await open({ width: 360, height: 740 });
  for (const place of ["#/", "#/policies/plan", "#/policies/nobody%20%3Cb%3E", "#/playground"]) {
    await phone.goto(`${url}/${place}`);
    await phone.locator("h1").waitFor();
    await until("the view is drawn", async () => (await phone.locator(".view > *").count()) > 1);
    await assertFits(phone);
    const height = await phone.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height < 2200, `${place} is ${height} px long`);
  }
  // What is folded opens with a tap.
  await phone.goto(`${url}/#/`);
  const keys = phone.locator("details", { has: phone.getByRole("heading", { name: "Most denied keys" }) });
  assert.equal(await keys.locator("ol.bars").isVisible(), false);
  await keys.locator("summary").first().click();
  assert.equal(await keys.locator("ol.bars").isVisible(), true);
  // A key's policy stands beside it, above its bar.
  const places = await keys.locator("li").first().evaluate((item) => [".label", "small", ".track"].map((part) => item.querySelector(part).getBoundingClientRect().bottom));
  assert.ok(Math.abs(places[0] - places[1]) < 8 && places[1] <= places[2], String(places));
  assertNoProblems(phone);
  await phone.context().close();
  passed("every view fits a phone");
} finally {
  await browser.close();
}
