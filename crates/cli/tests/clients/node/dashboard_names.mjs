// A dashboard with unusual policy names, and a configuration that is reloaded.
//
// node dashboard_names.mjs BINARY CONFIG
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { assertFits, assertNoProblems, browse, serve, until } from "./browser.mjs";

const [binary, config] = process.argv.slice(2);
const LONG = `org/${"settings-billing-invoices-".repeat(4)}`;
const NAMES = ["api", "constructor", "<b>bold</b>", "it's", LONG];
const write = (names) => writeFileSync(config, JSON.stringify({ dashboard: { keys: "shown" }, policies: Object.fromEntries(names.map((name) => [name, "2/min"])) }));

write(NAMES);
const { address } = await serve(binary, "127.0.0.1:0", "-c", config);
const url = `http://${address}`;
const check = (policy, key) => fetch(`${url}/v1/check`, { method: "POST", body: JSON.stringify({ policy, key }) });
const browser = await browse(url);
try {
  const page = await browser.page({ width: 360, height: 740 });
  for (const policy of [...NAMES, "nobody"]) for (let n = 0; n < 4; n++) await check(policy, `${policy}\n<img src=x>${"x".repeat(99)}`);
  await page.goto(url);
  const names = () => page.locator("table.rows tbody a").allInnerTexts();
  await until("all policies are listed", async () => (await names()).length === NAMES.length + 1);
  assert.deepEqual((await names()).toSorted(), [...NAMES, "(unknown)"].toSorted());
  await until("denied keys are listed", async () => (await page.locator("ol.bars .track").count()) >= NAMES.length);
  assert.match(await page.locator("tr", { hasText: "(unknown)" }).innerText(), /unknown policy names/);
  await assertFits(page);
  for (const name of NAMES) {
    await page.goto(`${url}/#/policies/${encodeURIComponent(name)}`);
    await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
    await until(`${name} has its totals`, async () => /^Allowed\n2\n[^]*Denied\n2\n/.test(await page.locator(".tiles").innerText()));
    assert.equal(await page.locator("main img, main b b").count(), 0);
    await assertFits(page);
  }
  console.log("policies and keys may have any name");

  for (const name of ["nobody", "valueOf", "__proto__"]) {
    await page.goto(`${url}/#/policies/${name}`);
    await page.getByText("No policy has this name.").waitFor();
    assert.equal(await page.locator(".tiles").isVisible(), false, name);
  }
  await page.goto(`${url}/#/toString`);
  await page.getByRole("heading", { level: 1, name: "Live" }).waitFor();
  console.log("an unknown policy name is reported");

  await page.goto(`${url}/#/policies/constructor`);
  await page.locator(".tiles").waitFor();
  write(["aaa", ...NAMES.filter((name) => name !== "constructor")]);
  await page.getByText("No policy has this name.").waitFor();
  await page.goto(`${url}/#/`);
  await until("the new policy is listed in order", async () => (await names())[1] === "aaa");
  assert.ok(!(await names()).includes("constructor"));
  write(NAMES);
  await until("the old policy is back", async () => (await names()).includes("constructor") && !(await names()).includes("aaa"));
  assertNoProblems(page);
  console.log("a reloaded configuration appears at once");
} finally {
  await browser.close();
}
process.exit(0);
