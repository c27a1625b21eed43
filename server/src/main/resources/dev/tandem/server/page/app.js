// Starts the page: views, the server's state, and the poll of the engine.

import * as api from './api.js';
import { Chat } from './chat.js';
import { EngineView } from './engine.js';
import { RequestsView } from './requests.js';

const POLL = 500; // milliseconds between polls of the engine, while somebody looks
const RETRY = 2000; // milliseconds between tries while the server does not answer
const SPOKEN_STEP = 10; // percent between announcements of how far loading is: a screen reader reads each one

const status = document.getElementById('status');
const main = document.getElementById('main');
const sections = ['chat', 'engine', 'requests'];
const chat = new Chat(document.getElementById('chat'));
const live = {
  engine: new EngineView(document.getElementById('engine')),
  requests: new RequestsView(document.getElementById('requests')),
};

function shown() {
  const name = location.hash.slice(1);
  return sections.includes(name) ? name : 'chat';
}

function show() {
  const view = shown();
  for (const name of sections) {
    document.getElementById(name).hidden = name !== view;
    const link = document.querySelector(`[data-view="${name}"]`);
    if (name === view) {
      link.setAttribute('aria-current', 'page');
    } else {
      link.removeAttribute('aria-current');
    }
  }
  main.tabIndex = view === 'chat' ? -1 : 0; // the live views scroll, and the keyboard must reach what scrolls
  document.title = 'Tandem – ' + view;
  poll();
}

let polling = false;

/** Polls while a live view is shown; a hidden page asks for nothing. */
async function poll() {
  if (polling) {
    return;
  }
  polling = true;
  while (live[shown()] && !document.hidden) {
    let wait = POLL;
    try {
      const data = await api.get('/tandem/engine', loading);
      live[shown()]?.update(data);
      say(data.model + ' · ' + data.health.status + (data.health.reason ? ': ' + data.health.reason : ''), data.health.status);
    } catch (error) {
      wait = RETRY;
      say(error.message, 'trouble');
    }
    await new Promise(resolve => setTimeout(resolve, wait));
  }
  polling = false;
}

function say(text, state) {
  if (status.textContent !== text) {
    status.textContent = text;
    status.dataset.state = state;
  }
}

function loading(state) {
  if (state) {
    say(api.loadingText(state, SPOKEN_STEP), 'loading');
  }
}

/** Waits until the model is loaded and learns its name. */
async function connect() {
  for (;;) {
    try {
      const models = await api.get('/v1/models', loading);
      chat.model = models.data[0].id;
      say(chat.model + ' · ok', 'ok');
      chat.show(chat.current);
      return;
    } catch (error) {
      say(error.message, 'trouble');
      await new Promise(resolve => setTimeout(resolve, RETRY));
    }
  }
}

addEventListener('hashchange', show);
document.addEventListener('visibilitychange', poll);
show();
connect();
