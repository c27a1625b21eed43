// The chat: conversations, one answer at a time in each, several at once.

import { button, element, short, time } from './dom.js';
import { MarkdownView } from './markdown.js';
import { Conversations, DEFAULTS } from './conversations.js';
import * as api from './api.js';

const SETTINGS = [
  { name: 'temperature', label: 'Temperature', step: '0.1', min: '0', max: '2' },
  { name: 'top_p', label: 'Top p', step: '0.05', min: '0', max: '1' },
  { name: 'max_tokens', label: 'Max tokens', step: '1', min: '1' },
  { name: 'seed', label: 'Seed', step: '1' },
];
/** A view follows its end when it is this near to it, in pixels. */
const NEAR_END = 80;

export class Chat {
  constructor(root) {
    this.root = root;
    this.conversations = new Conversations(localStorage);
    this.answers = new Map(); // running ones by conversation
    this.model = '';
    this.build();
    this.show(this.conversations.all[0] ?? this.conversations.add());
  }

  build() {
    this.list = element('ul');
    const aside = element('details', { class: 'side', open: matchMedia('(min-width: 50rem)').matches },
      element('summary', {}, 'Conversations'),
      button('New conversation', () => this.show(this.conversations.add(this.current.settings), true)),
      element('nav', { 'aria-label': 'Conversations' }, this.list));
    this.log = element('div', { class: 'log', tabindex: '0', role: 'region', 'aria-label': 'Messages' });
    this.announcement = element('p', { class: 'spoken', role: 'status' });
    this.input = element('textarea', { id: 'message', rows: '2', placeholder: 'Enter sends, Shift+Enter begins a new line' });
    this.input.addEventListener('keydown', event => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send();
      }
    });
    this.sendButton = element('button', { class: 'primary' }, 'Send');
    this.stopButton = button('Stop', () => this.stop(), { hidden: true });
    const form = element('form', { class: 'composer' },
      element('label', { for: 'message', class: 'spoken' }, 'Message'), this.input,
      element('div', { class: 'actions' }, this.sendButton, this.stopButton));
    form.addEventListener('submit', event => {
      event.preventDefault();
      this.send();
    });
    this.fields = {};
    const field = (name, label, input) => {
      input.id = 'set-' + name;
      input.addEventListener('change', () => {
        this.current.settings[name] = input.value;
        this.conversations.save();
      });
      this.fields[name] = input;
      return element('div', { class: 'field' }, element('label', { for: input.id }, label), input);
    };
    const settings = element('details', { class: 'settings' }, element('summary', {}, 'System prompt and sampling'),
      field('system', 'System prompt', element('textarea', { rows: '2' })),
      element('div', { class: 'row' }, ...SETTINGS.map(({ name, label, ...range }) =>
        field(name, label, element('input', { type: 'number', placeholder: 'default', ...range })))),
      field('tools', 'Tools, a JSON list of functions', element('textarea', { rows: '2', spellcheck: 'false' })));
    this.root.append(element('div', { class: 'chat' }, aside,
      element('div', { class: 'talk' }, this.log, this.announcement, settings, form)));
    addEventListener('pagehide', () => this.conversations.save());
  }

  show(conversation, focus = false) {
    this.current = conversation;
    for (const [name, input] of Object.entries(this.fields)) {
      input.value = conversation.settings[name] ?? DEFAULTS[name];
    }
    this.list.replaceChildren(...this.conversations.all.map(each => this.listItem(each)));
    this.log.replaceChildren(...(conversation.messages.length === 0 ? [this.welcome()] : []));
    this.views = [];
    conversation.messages.forEach((message, index) => this.addView(message, index));
    this.updateButtons();
    this.log.scrollTop = this.log.scrollHeight;
    if (focus) {
      this.input.focus();
    }
  }

  welcome() {
    return element('p', { class: 'empty' }, 'Say something to ', element('strong', {}, this.model || 'the model'), '.');
  }

  listItem(conversation) {
    const title = conversation.title || 'New conversation';
    return element('li', {},
      button(title, () => this.show(conversation, true), { 'aria-current': conversation === this.current ? 'true' : undefined }),
      button('×', () => {
        this.answers.get(conversation)?.controller.abort();
        this.conversations.remove(conversation);
        this.show(this.conversations.all[0] ?? this.conversations.add());
      }, { class: 'quiet', 'aria-label': 'Delete ' + title }));
  }

  addView(message, index) {
    const view = new MessageView(message, {
      edit: () => this.edit(index),
      retry: () => this.retry(index),
      result: (call, text) => this.toolResult(call, text),
    });
    this.views[index] = view;
    const running = this.answers.get(this.current);
    if (running?.message === message) {
      view.live = true;
      view.waits = running.waits;
      view.render();
    }
    this.log.append(view.node);
  }

  updateButtons() {
    const running = this.answers.has(this.current);
    this.stopButton.hidden = !running;
    this.sendButton.disabled = running;
    this.log.setAttribute('aria-busy', String(running));
  }

  send() {
    const text = this.input.value.trim();
    if (text === '' || this.answers.has(this.current)) {
      return;
    }
    this.input.value = '';
    this.add({ role: 'user', content: text });
    this.answer();
  }

  add(message) {
    const conversation = this.current;
    conversation.messages.push(message);
    if (conversation.title === '' && message.role === 'user') {
      conversation.title = message.content.slice(0, 48);
    }
    this.conversations.save();
    this.show(conversation);
  }

  stop() {
    this.answers.get(this.current)?.controller.abort();
  }

  /** Drops the message and those after it, and asks again. */
  retry(index) {
    if (!this.answers.has(this.current)) {
      this.current.messages.length = index;
      this.show(this.current);
      this.answer();
    }
  }

  /** Puts the message back into the input; those after it go. */
  edit(index) {
    if (!this.answers.has(this.current)) {
      this.input.value = this.current.messages[index].content;
      this.current.messages.length = index;
      this.conversations.save();
      this.show(this.current, true);
    }
  }

  toolResult(call, text) {
    if (!this.answers.has(this.current)) {
      this.add({ role: 'tool', tool_call_id: call.id, content: text });
      const last = this.current.messages.findLast(message => message.tool_calls);
      const answered = new Set(this.current.messages.map(message => message.tool_call_id));
      if (last.tool_calls.every(each => answered.has(each.id))) {
        this.answer();
      }
    }
  }

  /** What is sent: only what the API knows, and no answer that failed or was stopped before it began. */
  body(conversation) {
    const { system, tools, ...numbers } = conversation.settings;
    const failed = message => message.error || message.finish === 'stopped';
    const messages = conversation.messages.filter(message => !failed(message) || message.content).map(message => ({
      role: message.role,
      content: message.content,
      ...(message.tool_calls ? { tool_calls: message.tool_calls } : {}),
      ...(message.tool_call_id ? { tool_call_id: message.tool_call_id } : {}),
    }));
    const body = { model: this.model || undefined, messages, stream: true, host_usage: true,
      stream_options: { include_usage: true, continuous_usage_stats: true } };
    if (system.trim() !== '') {
      body.messages.unshift({ role: 'system', content: system });
    }
    for (const [name, value] of Object.entries(numbers)) {
      if (value !== '') {
        body[name] = Number(value);
      }
    }
    if (tools.trim() !== '') {
      body.tools = JSON.parse(tools);
    }
    return body;
  }

  async answer() {
    const conversation = this.current;
    const message = { role: 'assistant', content: '' };
    const controller = new AbortController();
    const running = { controller, message, waits: undefined };
    this.answers.set(conversation, running);
    let body;
    let failure;
    try {
      body = this.body(conversation);
    } catch (error) {
      failure = 'Tools are no valid JSON: ' + error.message;
    }
    conversation.messages.push(message);
    const index = conversation.messages.length - 1;
    this.addView(message, index);
    this.updateButtons();
    this.follow();
    const meter = new Meter(message);
    let frame = 0;
    const paint = () => {
      frame = 0;
      const view = this.viewOf(conversation, index, message);
      if (view) {
        const near = this.nearEnd();
        view.render();
        if (near) {
          this.follow();
        }
      }
    };
    const onLoading = state => {
      if (!running.waits) {
        this.announcement.textContent = 'The model is loading. Your message is sent once it is loaded.';
      }
      running.waits = state && api.loadingText(state, 1) + ' Your message is sent once it is loaded.';
      meter.begin = performance.now(); // loading is no time of the answer
      const view = this.viewOf(conversation, index, message);
      if (view) {
        view.waits = running.waits;
        view.render();
      }
    };
    try {
      if (failure) {
        throw new Error(failure);
      }
      for await (const chunk of api.chat(body, controller.signal, onLoading)) {
        const delta = chunk.choices[0]?.delta ?? {};
        meter.count(chunk.usage, delta);
        collect(message, delta);
        this.viewOf(conversation, index, message)?.add(delta);
        message.finish = chunk.choices[0]?.finish_reason ?? message.finish;
        frame = frame || requestAnimationFrame(paint);
      }
    } catch (error) {
      if (controller.signal.aborted) {
        message.finish = 'stopped';
      } else {
        message.error = error.message;
      }
    }
    cancelAnimationFrame(frame);
    meter.end();
    this.answers.delete(conversation);
    const view = this.viewOf(conversation, index, message);
    if (view) {
      const near = this.nearEnd();
      view.live = false;
      view.finish();
      const end = message.finish === 'stopped' ? 'The answer was stopped.' : 'The answer is complete.';
      this.announcement.textContent = message.error ? 'The answer failed.' : end;
      this.updateButtons();
      if (near) {
        this.follow();
      }
    }
    this.conversations.save();
  }

  /** The view of a message, while its conversation is shown. */
  viewOf(conversation, index, message) {
    return this.current === conversation && this.views[index]?.message === message ? this.views[index] : undefined;
  }

  nearEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END;
  }

  follow() {
    this.log.scrollTop = this.log.scrollHeight;
  }
}

/** Adds a piece of an answer to its message. */
function collect(message, delta) {
  message.content += delta.content ?? '';
  if (delta.reasoning_content) {
    message.reasoning = (message.reasoning ?? '') + delta.reasoning_content;
  }
  for (const part of delta.tool_calls ?? []) {
    message.tool_calls ??= [];
    const call = (message.tool_calls[part.index] ??= { id: part.id, type: 'function', function: { name: '', arguments: '' } });
    call.function.name += part.function?.name ?? '';
    call.function.arguments += part.function?.arguments ?? '';
  }
}

/** Measures an answer: its rate, and which tier computed its tokens, as runs of [tier, tokens]. */
class Meter {
  constructor(message) {
    this.message = message;
    this.begin = performance.now();
    message.stats = { tokens: 0, host: 0, runs: [] };
  }

  count(usage, delta) {
    const stats = this.message.stats;
    const tokens = usage?.completion_tokens ?? stats.tokens;
    const host = usage?.completion_tokens_details?.host_tokens ?? stats.host;
    if (tokens > 0 && stats.first === undefined) {
      stats.first = performance.now() - this.begin;
    }
    this.run('host', host - stats.host);
    this.run('gpu', tokens - stats.tokens - (host - stats.host));
    stats.tokens = tokens;
    stats.host = host;
    this.last = performance.now();
  }

  run(tier, tokens) {
    const runs = this.message.stats.runs;
    if (tokens > 0 && runs.length > 0 && runs[runs.length - 1][0] === tier) {
      runs[runs.length - 1][1] += tokens;
    } else if (tokens > 0) {
      runs.push([tier, tokens]);
    }
  }

  end() {
    const stats = this.message.stats;
    const seconds = ((this.last ?? this.begin) - this.begin - (stats.first ?? 0)) / 1000;
    stats.rate = stats.tokens > 1 && seconds > 0 ? (stats.tokens - 1) / seconds : undefined;
  }
}

const NAMES = { user: 'You', assistant: 'Model', tool: 'Tool result' };

/** One message on the page. */
class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.live = false;
    this.waits = undefined; // says what the answer waits for, before it begins
    this.text = element('div', { class: 'text' });
    this.extra = element('div');
    this.foot = element('div', { class: 'foot' });
    this.node = element('article', { class: 'message ' + message.role },
      element('h2', {}, NAMES[message.role] ?? message.role), this.extra, this.text, this.foot);
    if (message.role === 'assistant') {
      this.markdown = new MarkdownView(this.text);
      this.add({ content: message.content, reasoning_content: message.reasoning });
    } else {
      this.text.textContent = message.content;
    }
    this.render();
    this.finish();
  }

  add(delta) {
    if (delta.content) {
      this.markdown.append(delta.content);
    }
    if (delta.reasoning_content) {
      if (!this.reasoning) {
        this.reasoning = element('div', { class: 'text' });
        this.reasoningView = new MarkdownView(this.reasoning);
        this.extra.append(element('details', { class: 'reasoning', open: this.message.content === '' },
          element('summary', {}, 'Reasoning'), this.reasoning));
      }
      this.reasoningView.append(delta.reasoning_content);
    }
  }

  render() {
    this.markdown?.render();
    this.reasoningView?.render();
    if (this.live) {
      const stats = this.message.stats;
      this.foot.textContent = stats?.tokens ? stats.tokens + ' tokens …' : this.waits ?? 'Waiting …';
    }
  }

  /** Shows what is known at the end: calls, tokens, tiers and actions. */
  finish() {
    this.render();
    const message = this.message;
    this.calls?.remove();
    if (message.tool_calls) {
      this.calls = element('div', {}, ...message.tool_calls.filter(Boolean).map(call => this.callBlock(call)));
      this.text.after(this.calls);
    }
    if (this.live) {
      return;
    }
    const children = [];
    if (message.error) {
      children.push(element('p', { class: 'error', role: 'alert' }, message.error));
    }
    if (message.stats?.tokens > 0) {
      children.push(tiers(message.stats), element('span', { class: 'stats' }, summary(message)));
    } else if (message.finish === 'stopped') {
      children.push(element('span', { class: 'stats' }, 'stopped by you before the answer began'));
    }
    if (message.role === 'user') {
      children.push(button('Edit', this.actions.edit, { class: 'quiet' }));
    } else if (message.role === 'assistant') {
      children.push(button('Retry', this.actions.retry, { class: 'quiet' }),
        button('Copy', () => navigator.clipboard?.writeText(message.content), { class: 'quiet' }));
    }
    this.foot.replaceChildren(...children);
  }

  callBlock(call) {
    let shown = call.function.arguments;
    try {
      shown = JSON.stringify(JSON.parse(shown), null, 2);
    } catch {
      // arguments that are cut off are shown as they are
    }
    const id = 'result-' + call.id;
    const result = element('input', { id, autocomplete: 'off' });
    const form = element('form', { class: 'row' }, element('label', { for: id }, 'Result'), result, element('button', {}, 'Return'));
    form.addEventListener('submit', event => {
      event.preventDefault();
      this.actions.result(call, result.value);
    });
    return element('div', { class: 'call' }, element('p', {}, 'Calls ', element('code', {}, call.function.name)),
      element('pre', { tabindex: '0', 'aria-label': 'Arguments' }, element('code', {}, shown)), form);
  }
}

function summary(message) {
  const { tokens, host, first, rate } = message.stats;
  const parts = [tokens + ' tokens'];
  if (rate !== undefined) {
    parts.push(short(rate) + ' tokens/s');
  }
  if (first !== undefined) {
    parts.push('first after ' + time(first));
  }
  parts.push(host > 0 ? host + ' on the host' : 'all on the GPU tier');
  const ends = { length: 'cut at max tokens', stopped: 'stopped by you', tool_calls: 'calls a tool' };
  if (ends[message.finish]) {
    parts.push(ends[message.finish]);
  }
  return parts.join(' · ');
}

/** A strip with one part per run of tokens of one tier. */
function tiers({ runs }) {
  const words = runs.map(([tier, tokens]) => tokens + (tier === 'host' ? ' host' : ' GPU')).join(', ');
  const strip = element('div', { class: 'tiers', role: 'img', 'aria-label': 'Tokens by tier, in order: ' + words, title: words });
  for (const [tier, tokens] of runs) {
    const part = element('span', { class: tier });
    part.style.flexGrow = tokens;
    strip.append(part);
  }
  return strip;
}
