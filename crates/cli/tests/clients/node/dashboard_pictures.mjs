// Screenshots of a busy dashboard, for the documentation.
//
// node dashboard_pictures.mjs BINARY CONFIG FOLDER
import { browse, serve } from "./browser.mjs";

const [binary, config, folder] = process.argv.slice(2);
/** The charts are full after five minutes. */
const SECONDS = Number(process.env.SECONDS ?? 310);
const PICTURES = [
  ["dashboard-light", { width: 1280, height: 960 }, ""],
  ["dashboard-dark", { width: 1280, height: 960, colorScheme: "dark" }, ""],
  ["dashboard-policy", { width: 1280, height: 960, colorScheme: "dark" }, "#/policies/api"],
  ["dashboard-phone", { width: 390, height: 844 }, ""],
];

const { address } = await serve(binary, "127.0.0.1:0", "-c", config);
const url = `http://${address}`;
const post = (path, body) => fetch(url + path, { method: "POST", body: JSON.stringify(body) });
const pick = (all) => all[Math.floor(Math.random() * all.length)];

/** A shop: visitors in waves, a scraper, a password guesser, a database under load. */
async function traffic(end) {
  for (let n = 0; Date.now() < end; n++) {
    const wave = 1 + Math.sin(n / 110) * 0.7;
    const checks = [
      ...Array.from({ length: 9 * wave }, () => ["/v1/check", "api", `user-${Math.floor(Math.random() * 60)}`]),
      ...Array.from({ length: n % 900 < 500 ? 4 : 1 }, () => ["/v1/check", "api", "scraper-7"]),
      ...Array.from({ length: 5 * wave }, () => ["/v1/check", "search", `tenant-${Math.floor(Math.random() * 9)}`]),
      ["/v1/check", "login", pick(["203.0.113.9", "203.0.113.9", "ann", "bob", "eve"])],
      ["/v1/check", "upload", `user-${n % 4}`],
      ["/v1/check", "plan", pick(["acme", "acme", "globex"])],
      ...(n % 5 ? [] : [["/v1/reserve", "export", "user-1"], ["/v1/check", "beta", "user-2"]]),
    ];
    await Promise.all(checks.map(([path, policy, key]) => post(path, { policy, key })));
    if (n % 8 === 0) await post("/v1/observe", { target: "db", latency_ms: 12, saturation: Math.max(0, Math.min(0.8, wave - 0.9)) });
    await new Promise((then) => setTimeout(then, 70));
  }
}

const busy = traffic(Date.now() + (SECONDS + 40) * 1000);
await new Promise((then) => setTimeout(then, SECONDS * 1000));
const browser = await browse(url);
for (const [name, options, place] of PICTURES) {
  const page = await browser.page(options);
  await page.goto(`${url}/${place}`);
  await page.locator("#link.live").waitFor();
  await page.locator(".legend b", { hasText: /\d/ }).first().waitFor();
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.context().close();
}
await browser.close();
await busy;
process.exit(0);
