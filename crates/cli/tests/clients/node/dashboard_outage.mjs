// The dashboard of a server whose store is gone. Prints a line for each behaviour that it verified.
//
// node dashboard_outage.mjs URL ADDRESS-OF-THE-STORE
import assert from "node:assert/strict";
import { assertAccessible, assertFits, assertNoProblems, browse, until } from "./browser.mjs";

const [url, store] = process.argv.slice(2);
const browser = await browse(url);
const check = (policy) => fetch(`${url}/v1/check`, { method: "POST", body: JSON.stringify({ policy, key: "ann" }) });
// Real traffic throughout.
const traffic = setInterval(() => { for (const policy of ["api", "login", "open"]) check(policy).catch(() => {}); }, 100);

try {
  const page = await browser.page();
  await page.goto(`${url}/`);
  const banner = page.locator("#outage");
  await until("the banner of both stores", async () => { const text = await banner.innerText(); return text.includes(`unreachable: ${store}`) && text.includes("The quorum does not serve"); });
  const text = await banner.innerText();
  assert.match(text, /The store \(redis\) does not serve since \d\d:\d\d:\d\d\. For /);
  assert.ok(text.includes(`unreachable: ${store}: Connection refused`), text);
  assert.ok(text.includes("Meanwhile: login turns every check away; open lets everything through, uncounted; api enforces this node's share of its limits."), text);
  assert.match(text, /The quorum does not serve since \d\d:\d\d:\d\d\. For /);
  assert.ok(text.includes("no majority of 3 servers") && text.includes("Meanwhile: payout turns every check away."), text);
  assert.equal(await page.locator("#link").innerText(), "store failing");
  assert.equal(await page.locator("#link.live").count(), 0);
  console.log("a banner says for each store why, since when, and what its policies do");

  const tile = (name) => page.locator(".tile", { has: page.locator(`dt:text-is("${name}")`) });
  await until("fail-closed counts as denied", async () => /^Denied\s+[1-9]\d* %\s+[\d.]+\/s: store fails$/.test(await tile("Denied").innerText()));
  await until("fail-open is shown", async () => /\/s uncounted$/.test(await tile("Decisions/s").innerText()));
  assert.match(await tile("Store").innerText(), /failing\s+redis: unreachable, quorum: /);
  const row = (name) => page.locator("table.rows tr", { has: page.locator(`a:text-is("${name}")`) });
  await until("login is marked", async () => (await row("login").innerText()).includes("turned away: the store fails"));
  assert.ok((await row("open").innerText()).includes("allowed without the store"));
  assert.ok(Number(await row("login").locator("td").nth(1).innerText()) > 0, "denied per second");
  assert.equal(await row("login").locator("td").nth(3).innerText(), "100 %");
  const legend = () => page.locator(".legend").first().innerText();
  await until("the chart has both layers", async () => /allowed without the store[\s\S]*turned away: the store fails/.test(await legend()));
  await assertAccessible(page);
  await page.goto(`${url}/#/policies/login`);
  await until("the policy counts them", async () => /\d+ because the store failed/.test(await page.locator(".tiles").innerText()));
  assertNoProblems(page);
  console.log("what is turned away and what passes without the store is counted");

  const phone = await browser.page({ width: 360, height: 740 });
  await phone.goto(`${url}/`);
  await phone.locator("#outage").waitFor();
  await assertFits(phone);
  assertNoProblems(phone);
  console.log("an outage fits a phone");
} finally {
  clearInterval(traffic);
  await browser.close();
}
