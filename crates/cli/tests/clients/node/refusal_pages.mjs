// The built-in pages of refusals, each at a URL that is refused: on a desk and on a phone, in light and dark colours.
// With PICTURES, a folder, it takes pictures of them.
import assert from "node:assert/strict";
import { assertAccessible, assertFits, browse, until } from "./browser.mjs";

/** Sets the clock of a page forward: a minute is long. */
async function pass(page, seconds) {
  await page.evaluate((ms) => {
    const now = Date.now.bind(Date);
    Date.now = () => now() + ms;
  }, seconds * 1000);
}

for (const url of process.argv.slice(2)) {
  const browser = await browse(url);
  try {
    let title;
    for (const [name, options] of [["desk", {}], ["phone", { width: 320, height: 568, colorScheme: "dark" }]]) {
      const page = await browser.page(options);
      const response = await page.goto(url);
      // It reloads by itself, which must not happen in the middle of a claim on a slow machine.
      let reloads = 0;
      await page.route("**/*", (route) => {
        reloads += 1;
        return route.abort("aborted");
      });
      assert.ok(response.status() >= 429, `${response.status()}`);
      title = await page.title();
      assert.equal(await page.textContent("h1"), title);
      const left = async () => Number(await page.textContent("#left"));
      const unit = () => page.textContent("#unit");
      const first = await left();
      assert.ok(first >= 1);
      const isLong = (await unit()) === "minutes";
      if (isLong) {
        assert.ok(first > 2 && first <= 120, `${first} minutes`);
        await assertFits(page);
        await pass(page, 5 * 60);
        await until("it counts minutes", async () => [first - 4, first - 5].includes(await left()));
        await pass(page, (first - 7) * 60);
        await until("it counts seconds", async () => (await unit()) === "seconds");
      }
      const last = await left();
      await until("it counts down", async () => (await left()) < last);
      await assertFits(page);
      await assertAccessible(page);
      if (!isLong && first < 20) await until("it reloads", () => reloads > 0, 60_000);
      if (process.env.PICTURES) {
        await page.screenshot({ path: `${process.env.PICTURES}/${title.replace(/\W+/g, "-")}-${name}.png` });
      }
    }
    console.log(`${title}: counts down, fits a phone, is accessible`);
  } finally {
    await browser.close();
  }
}
