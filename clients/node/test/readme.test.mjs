// The examples of both READMEs work with the packed package and the server's demo policies.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { installPackage } from './support/package.mjs';
import { startServer, until } from './support/server.mjs';
import { deadUrl, get, isRefusal } from './support/web.mjs';

const { folder } = installPackage(after);
const pages = { client: '../README.md', project: '../../../README.md' };

function examples(page) {
  const text = readFileSync(new URL(pages[page], import.meta.url), 'utf8');
  return [...text.matchAll(/```js\n([^]*?)```/g)].map(([, code], index) => [`${page} ${index + 1}`, code]);
}

for (const [name, code] of [...examples('client'), ...examples('project')]) {
  test(`example ${name}`, async (t) => {
    const server = await startServer({ config: null });
    t.after(() => server.stop());
    const url = await deadUrl();
    const file = join(folder, `${name.replace(' ', '-')}.mjs`);
    writeFileSync(file, code.replaceAll('http://127.0.0.1:8080', server.url).replace('3000', new URL(url).port));
    if (!code.includes('3000')) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [file], { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
      assert.match(stdout, /^go ahead, 19 left\n$|^true\nmy turn\na large report\n$/);
      return;
    }
    const app = spawn(process.execPath, [file], { stdio: 'inherit' });
    t.after(() => app.kill());
    const first = await until('the app to listen', () => app.exitCode ?? get(url).catch(() => undefined));
    assert.equal(first.text, 'hello');
    // The demo policy `api` has a burst of 20.
    assert.equal(first.headers.get('x-ratelimit-limit'), '20');
    await until('a refusal', async () => {
      const answer = await get(url);
      return answer.status === 429 && (isRefusal(answer), true);
    });
  });
}

test('both READMEs have examples', () => {
  assert.ok(examples('client').length >= 6 && examples('project').length >= 1);
});
