// Screenshots of the playground, for the documentation.
//
// node playground_pictures.mjs BINARY FOLDER
import { browse, serve } from "./browser.mjs";

const [binary, folder] = process.argv.slice(2);
const dark = { width: 1280, height: 960, colorScheme: "dark" };
const PICTURES = [
  ["playground-boundary", dark, "boundary"],
  ["playground-sync-lag", { width: 1280, height: 960 }, "sync-lag"],
  ["playground-overload", dark, "overload"],
  ["playground-replay", { width: 1280, height: 960 }, "replay"],
  ["playground-phone", { width: 390, height: 844 }, "algorithms"],
];

const { address } = await serve(binary, "127.0.0.1:0");
const url = `http://${address}`;
const browser = await browse(url);
for (const [name, options, place] of PICTURES) {
  const page = await browser.page(options);
  await page.goto(`${url}/#/playground/${place}`);
  await page.locator("#link.live").waitFor();
  if (place === "replay") await page.getByRole("button", { name: "Use example log" }).click();
  await page.locator(".result table.rows").waitFor();
  // On a phone, the result is below the parameters.
  if (options.width < 500) await page.locator(".result").evaluate((node) => scrollTo(0, node.offsetTop - 110));
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.context().close();
}
await browser.close();
process.exit(0);
