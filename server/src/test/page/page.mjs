// Walks through the page in a browser: node page.mjs URL URL-WITH-A-KEY BROWSER [FOLDER of pictures]
// The second server wants the key "the key".

import assert from 'node:assert/strict';
import http from 'node:http';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [url, urlWithKey, executablePath, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const MAX_BYTES = 150_000;
const STREAMS = 32;
const COLD_ROUNDS = 5; // one load of a new browser takes up to three times as long as the next

const launch = () => chromium.launch({ executablePath, args: ['--no-sandbox'] });
const browser = await launch();
const problems = [];

async function open(address, options = {}) {
  // axe is injected by the debugger, which the page's policy would refuse; the policy is checked without it
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const page = await context.newPage();
  page.on('pageerror', error => problems.push('error: ' + error.message));
  page.on('console', message => {
    if (message.type() === 'error' && !/status of (401|429|503)/.test(message.text())) {
      problems.push('console: ' + message.text());
    }
  });
  await page.goto(address);
  return page;
}

async function violations(page) {
  await page.evaluate(axe + ';0');
  const result = await page.evaluate(() => globalThis.axe.run());
  return result.violations.map(v => `${v.id}: ${v.nodes.map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join('; ')}`);
}

async function picture(page, name) {
  if (pictures) {
    await page.screenshot({ path: `${pictures}/${name}.png` });
  }
}

async function ask(page, text) {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
}

const done = page => page.locator('.message.assistant').last().getByText(/tokens\/s|tokens ·/).waitFor();

/** Milliseconds until the page's first text, in a browser that has shown nothing before. */
async function coldPaint(address) {
  const cold = await launch();
  const page = await cold.newPage();
  await page.goto(address, { waitUntil: 'networkidle' });
  const paint = await firstPaint(page);
  await cold.close();
  return paint;
}

/** A server that answers those requests that `own` takes, and passes the others on to the first server. */
async function stub(own) {
  const server = http.createServer(async (request, response) => {
    const body = [];
    for await (const part of request) {
      body.push(part);
    }
    if (own(request, response)) {
      return;
    }
    const options = request.method === 'POST'
      ? { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: Buffer.concat(body) } : {};
    const upstream = await fetch(url + request.url, options);
    const headers = Object.fromEntries(['content-type', 'content-security-policy'].map(name => [name, upstream.headers.get(name)]).filter(([, value]) => value));
    response.writeHead(upstream.status, headers).end(Buffer.from(await upstream.arrayBuffer()));
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return { address: `http://127.0.0.1:${server.address().port}`, close: () => (server.closeAllConnections(), server.close()) };
}

const median = times => [...times].sort((a, b) => a - b)[times.length >> 1];
const firstPaint = page => page.evaluate(() => Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime));

// Bytes, and no request to another host. Times are printed only, beside those of a page of one word.
{
  const context = await browser.newContext();
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0;
  session.on('Network.loadingFinished', event => (bytes += event.encodedDataLength));
  const hosts = new Set();
  page.on('request', request => hosts.add(new URL(request.url()).host));
  await page.goto(url, { waitUntil: 'networkidle' });
  assert.deepEqual([...hosts], [new URL(url).host]);
  assert.ok(bytes <= MAX_BYTES, `${bytes} bytes`);
  const again = await context.newPage();
  await again.goto(url, { waitUntil: 'networkidle' });
  const warm = await firstPaint(again);
  const cold = [];
  const word = [];
  for (let round = 0; round < COLD_ROUNDS; round++) {
    cold.push(await coldPaint(url));
    word.push(await coldPaint('data:text/html,word'));
  }
  console.log(`bytes ${bytes}, first paint ${warm} ms; of ${COLD_ROUNDS} cold browsers ${median(cold)} ms (${cold.join(', ')})`
    + `, with a page of one word ${median(word)} ms`);
  await context.close();
}

for (const colorScheme of ['light', 'dark']) {
  const page = await open(url, { colorScheme });
  // an answer streams, with reasoning, code, lists and a table
  await ask(page, 'hi');
  await done(page);
  const answer = page.locator('.message.assistant').last();
  assert.equal(await answer.locator('.code code').textContent(), 'void main() {\n    IO.println("hi");\n}');
  assert.equal(await answer.locator('strong').first().textContent(), 'Java');
  assert.equal(await answer.locator('ol > li > ul > li').textContent(), 'inner');
  assert.equal(await answer.locator('tbody tr').count(), 2);
  assert.match(await answer.locator('.reasoning').textContent(), /The user greets/);
  assert.match(await answer.locator('.foot').textContent(), /\d+ tokens · [\d.,]+ tokens\/s/);
  assert.ok(await answer.locator('.tiers').getAttribute('aria-label'));
  assert.deepEqual(await violations(page), [], colorScheme + ' chat');
  await picture(page, 'page-chat-' + colorScheme);

  // stop, retry, edit
  await ask(page, 'long');
  await page.locator('.message.assistant').last().getByText('A long answer').first().waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('stopped by you').waitFor();
  const stopped = (await page.locator('.message.assistant').last().locator('.text').last().textContent()).length;
  assert.ok(stopped < 2900, `${stopped} characters after a stop`);
  await page.locator('.message.assistant').last().getByRole('button', { name: 'Retry' }).click();
  await page.getByText('stopped by you').waitFor({ state: 'detached' });
  await done(page);
  assert.equal(await page.locator('.message.assistant').count(), 2);
  await page.locator('.message.user').last().getByRole('button', { name: 'Edit' }).click();
  assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), 'long');
  assert.equal(await page.locator('.message').count(), 2);

  // what a model writes is text
  await ask(page, 'inject');
  await done(page);
  const injected = page.locator('.message.assistant').last();
  assert.equal(await page.evaluate(() => globalThis.injected), undefined);
  assert.equal(await injected.locator('img, script, svg, a').count(), 0);
  assert.match(await injected.locator('.text').last().textContent(), /<img src=x onerror/);

  // conversations are kept
  await page.getByRole('button', { name: 'New conversation' }).first().click();
  assert.equal(await page.locator('.message').count(), 0);
  await page.getByText('System prompt and sampling').click();
  await page.getByLabel('Tools, a JSON list of functions').fill(
    '[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]');
  await page.getByLabel('System prompt', { exact: true }).fill('Be brief.');
  await page.getByLabel('Temperature').fill('0.5');
  await page.getByText('System prompt and sampling').click();
  await ask(page, 'weather');
  await page.getByText('Calls weather').waitFor();
  await page.getByLabel('Result').fill('21 degrees');
  await page.getByRole('button', { name: 'Return' }).click();
  await page.locator('.message.assistant strong', { hasText: '21 degrees' }).waitFor();
  await done(page);
  assert.deepEqual(await violations(page), [], colorScheme + ' tools');
  await page.reload();
  assert.equal(await page.locator('.side li').count(), 2);
  await page.locator('.side li button').nth(2).click();
  await page.getByText('void main()').waitFor();

  // engine and requests, while an answer runs
  await page.getByRole('button', { name: 'New conversation' }).first().click();
  await ask(page, 'long');
  await page.getByRole('link', { name: 'Requests' }).click();
  await page.locator('#requests tbody tr').first().waitFor();
  assert.match(await page.locator('#requests tbody tr').first().textContent(), /on the GPU/);
  assert.deepEqual(await violations(page), [], colorScheme + ' requests');
  await page.getByRole('link', { name: 'Engine' }).click();
  await page.getByText(/The last \d+ steps took/).waitFor();
  await page.waitForFunction(() => document.querySelectorAll('#engine .u-wrap').length === 3);
  assert.deepEqual(await violations(page), [], colorScheme + ' engine');
  await picture(page, 'page-engine-' + colorScheme);
  await page.context().close();
}

// Markdown of any text: only known elements and addresses, and the same however the text arrives.
{
  const page = await open(url);
  const seed = Date.now() % 2147483647;
  console.log('seed ' + seed);
  const wrong = await page.evaluate(async seed => {
    const folder = document.querySelector('script[type=module]').src.replace('app.js', '');
    const { MarkdownView } = await import(folder + 'markdown.js');
    const parts = ['- ', '1. ', '2. ', '> ', '# ', '```\n', '~~~', '|', '|---|\n', '\n', '\n\n', '  ', '**', '*', '_', '`', '``', '~~', '[', '](',
      'javascript:alert(1)', 'data:text/html,x', 'https://a.b/c', ')', '<script>', '<img src=x onerror=alert(1)>', '"', 'word', 'x | y', '\\', '!', '---\n'];
    const tags = new Set('P,H3,H4,H5,H6,HR,UL,OL,LI,BLOCKQUOTE,PRE,CODE,STRONG,EM,DEL,A,DIV,SPAN,BUTTON,TABLE,THEAD,TBODY,TR,TH,TD'.split(','));
    let state = seed;
    const random = n => ((state = (state * 48271) % 2147483647), state % n);
    for (let round = 0; round < 3000; round++) {
      const text = Array.from({ length: 1 + random(30) }, () => parts[random(parts.length)]).join('');
      const whole = document.createElement('div');
      const view = new MarkdownView(whole);
      view.append(text);
      view.render();
      const streamed = document.createElement('div');
      const stream = new MarkdownView(streamed);
      for (let at = 0; at < text.length; ) {
        const next = at + 1 + random(5);
        stream.append(text.slice(at, next));
        stream.render();
        at = next;
      }
      const nodes = [...whole.querySelectorAll('*')];
      if (whole.innerHTML !== streamed.innerHTML) {
        return ['streamed', text, whole.innerHTML, streamed.innerHTML];
      }
      if (nodes.some(node => !tags.has(node.tagName) || (node.href && !/^(https?|mailto):/.test(node.href)) || node.getAttributeNames().some(name => name.startsWith('on')))) {
        return ['element', text, whole.innerHTML];
      }
    }
    return [];
  }, seed);
  assert.deepEqual(wrong, []);
  await page.context().close();
}

// Keyboard: every control is reached, in order, and seen.
{
  const page = await open(url);
  const seen = [];
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press('Tab');
    const name = await page.evaluate(() => {
      const node = document.activeElement;
      const outline = getComputedStyle(node).outlineStyle !== 'none';
      return node === document.body ? '' : (node.labels?.[0]?.textContent || node.getAttribute('aria-label') || node.textContent).trim() + (outline ? '' : ' (not seen)');
    });
    if (name === '') {
      break;
    }
    seen.push(name);
  }
  console.log('keyboard: ' + seen.join(', '));
  assert.deepEqual(seen.slice(0, 4), ['Skip to the content', 'Chat', 'Engine', 'Requests']);
  for (const name of ['Conversations', 'New conversation', 'Messages', 'System prompt and sampling', 'Message', 'Send']) {
    assert.ok(seen.includes(name), name + ' is not reached');
  }
  assert.ok(seen.every(name => !name.includes('not seen')), seen.join(', '));
  await page.context().close();
}

// The API key: asked for once, again when it is wrong, kept for this tab only, and never when the dialog is cancelled.
for (const colorScheme of ['light', 'dark']) {
  const page = await open(urlWithKey, { colorScheme });
  const dialog = page.getByRole('dialog', { name: 'API key' });
  const value = page.getByLabel('Key', { exact: true });
  const use = page.getByRole('button', { name: 'Use this key' });
  await dialog.waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'key-value');
  assert.equal(await value.getAttribute('type'), 'password');
  assert.match(await dialog.textContent(), /This server needs an API key/);
  assert.deepEqual(await violations(page), [], colorScheme + ' key');
  await picture(page, 'page-key-' + colorScheme);
  await use.click();
  assert.ok(await dialog.isVisible(), 'an empty key is taken');
  await value.fill('no key');
  await page.keyboard.press('Enter');
  await page.getByText('The server refuses this key. Enter another one.').waitFor();
  assert.equal(await value.inputValue(), '');
  await picture(page, 'page-key-wrong-' + colorScheme);
  await value.fill(' the key ');
  await use.click();
  await dialog.waitFor({ state: 'hidden' });
  await ask(page, 'hi');
  await done(page);
  assert.equal(await page.evaluate(() => Object.values(sessionStorage).includes('the key')), true);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes('the key')), false);
  await page.reload();
  await ask(page, 'hi');
  await done(page);
  assert.equal(await dialog.isVisible(), false, 'the key is asked for again after a reload');
  const other = await page.context().newPage();
  await other.goto(urlWithKey);
  await other.getByRole('dialog', { name: 'API key' }).waitFor();
  await other.keyboard.press('Escape');
  await other.getByRole('dialog', { name: 'API key' }).waitFor({ state: 'hidden' });
  assert.equal(await other.evaluate(() => sessionStorage.length), 0);
  await page.context().close();
}

// A page of another site that opens this one loses sight of it, also where the browser has kept the document.
{
  const other = http.createServer((request, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('other'));
  await new Promise(resolve => other.listen(0, '127.0.0.1', resolve));
  for (const host of ['127.0.0.1', 'localhost']) { // the same site as the page's, and another one
    const page = await open(url);
    await page.goto(`http://${host}:${other.address().port}`);
    const [popup] = await Promise.all([
      page.context().waitForEvent('page'),
      page.evaluate(address => void (globalThis.opened = open(address)), url),
    ]);
    await popup.getByLabel('Message', { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => globalThis.opened.closed), true, host);
    assert.equal(await popup.evaluate(() => globalThis.opener), null, host);
    await page.context().close();
  }
  other.close();
}

// A phone.
{
  const page = await open(url, { viewport: { width: 360, height: 640 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
  await ask(page, 'hi');
  await done(page);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the screen');
  assert.deepEqual(await violations(page), [], 'phone');
  await picture(page, 'page-phone');
  await page.context().close();
}

// A message from before the model is loaded waits, can be stopped, and is sent once; what else is refused is an error.
{
  let refuse = { status: 503, error: { message: 'loading', loading: { work: 'loading weights', progress: 0.427 } } };
  let refused = 0;
  let sent = 0;
  const server = await stub((request, response) => {
    if (!request.url.startsWith('/v1/') || !refuse) {
      sent += request.method === 'POST' ? 1 : 0;
      return false;
    }
    refused += request.method === 'POST' ? 1 : 0;
    response.writeHead(refuse.status, { 'Content-Type': 'application/json', 'Retry-After': '5' }).end(JSON.stringify({ error: refuse.error }));
    return true;
  });
  const page = await open(server.address);
  await page.locator('#status', { hasText: 'The model is loading: loading weights, 40 %.' }).waitFor();
  await ask(page, 'hi');
  const answer = page.locator('.message.assistant').last();
  await answer.getByText('The model is loading: loading weights, 42 %. Your message is sent once it is loaded.').waitFor();
  assert.match(await page.locator('.talk [role=status]').textContent(), /loading. Your message is sent/);
  assert.deepEqual(await violations(page), [], 'loading');
  await picture(page, 'page-loading');
  await page.getByRole('button', { name: 'Stop' }).click();
  await answer.getByText('stopped by you before the answer began').waitFor();
  await answer.getByRole('button', { name: 'Retry' }).click();
  refuse.error.loading = { work: 'choosing GEMM algorithms', progress: 0.97 };
  await answer.getByText('choosing GEMM algorithms, 97 %').waitFor();
  // what another conversation waits for is shown there again
  await page.getByRole('button', { name: 'New conversation' }).first().click();
  await page.locator('.side li button').nth(2).click();
  await answer.getByText('choosing GEMM algorithms, 97 %').waitFor();
  refuse.error.loading = { work: '' };
  await answer.getByText('The model is loading. Your message').waitFor();
  assert.equal(sent, 0);
  refuse = undefined;
  await done(page);
  assert.equal(sent, 1, 'the message is sent once');
  assert.match(await answer.textContent(), /Hello! Here is/);
  await page.locator('#status', { hasText: 'scripted · ok' }).waitFor();
  const full = '64 connections are open, which is the limit; try again later';
  for (const [status, message] of [[503, full], [429, 'the queue is full; try again later'], [503, '{}']]) {
    refuse = { status, error: message === '{}' ? undefined : { message } }; // the last is JSON of a proxy
    refused = 0;
    await ask(page, 'more');
    await page.getByRole('alert').getByText(message).waitFor();
    assert.ok(await page.getByRole('button', { name: 'Send' }).isEnabled());
    assert.equal(refused, 1, `a ${status} is tried again`);
  }
  await page.context().close();
  server.close();
}

// Many streams: a stub serves the page's files, and answers of its own, which never end by themselves.
{
  const words = 'Some **words** and `code` in a line of an answer.\n\n- one\n- two\n\n'.split(/(?<= )/);
  const server = await stub((request, response) => {
    if (request.method !== 'POST') {
      return false;
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    let tokens = 0;
    const timer = setInterval(() => {
      const content = words[tokens++ % words.length];
      response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }], usage: { completion_tokens: tokens } })}\n\n`);
    }, 33); // 30 tokens per second and stream
    response.on('close', () => clearInterval(timer));
    return true;
  });
  const page = await open(server.address);
  for (let i = 0; i < STREAMS; i++) {
    await page.getByRole('button', { name: 'New conversation' }).first().click();
    await ask(page, 'stream ' + i);
  }
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const busy = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map(m => [m.name, m.value])).TaskDuration;
  const before = await busy();
  const frames = await page.evaluate(() => new Promise(resolve => {
    let count = 0;
    const end = performance.now() + 5000;
    const next = () => (performance.now() > end ? resolve(count) : (count++, requestAnimationFrame(next)));
    requestAnimationFrame(next);
  }));
  const perFrame = ((await busy()) - before) * 1000 / frames;
  console.log(`${STREAMS} streams: ${perFrame.toFixed(2)} ms of the main thread per frame, ${frames} frames in 5 s`);
  await page.context().close();
  server.close();
}

assert.deepEqual(problems, []);
await browser.close();
console.log('all fine');
