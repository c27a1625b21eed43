// Talks to the server. The API key stays in this tab's sessionStorage.

const KEY = 'tandem.key';
/** Milliseconds between tries while the model loads: sooner than Retry-After says, because somebody watches. */
const WHILE_LOADING = 1000;

/** An answer that is an error; the message is the server's own. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let asking;

/** Asks for a key in the dialog; all requests that need one wait for the same dialog. */
function askForKey() {
  const dialog = document.getElementById('key');
  const input = document.getElementById('key-value');
  if (!asking) {
    const wrong = sessionStorage.getItem(KEY) !== null;
    document.getElementById('key-reason').textContent = wrong
      ? 'The server refuses this key. Enter another one.'
      : 'This server needs an API key. It stays in this tab until you close it.';
    input.value = '';
    dialog.showModal();
    asking = new Promise(resolve => {
      dialog.addEventListener('close', () => {
        asking = undefined;
        if (dialog.returnValue === 'use' && input.value !== '') {
          sessionStorage.setItem(KEY, input.value.trim());
          resolve(true);
        } else {
          resolve(false);
        }
        dialog.returnValue = '';
        input.value = '';
      }, { once: true });
    });
  }
  return asking;
}

/** Waits, and fails as a request does when the signal aborts. */
function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted) {
      abort();
    }
  });
}

/**
 * Sends a request. One that comes before the model is loaded waits, and is sent again; any other 503, such as that of
 * too many connections, is an error.
 *
 * @param onLoading called with the state whenever the model still loads, and with nothing once it is loaded
 */
async function request(path, { onLoading = () => {}, ...options }) {
  let waited = false;
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(key ? { Authorization: 'Bearer ' + key } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (options.signal?.aborted) {
        throw error;
      }
      throw new ApiError(0, 'The server cannot be reached. See its log, then retry.');
    }
    if (response.status === 401 && key !== sessionStorage.getItem(KEY)) {
      continue; // another request has asked for a key meanwhile
    }
    if (response.status === 401 && await askForKey()) {
      continue;
    }
    if (!response.ok) {
      const text = await response.text();
      let error = { message: text };
      try {
        error = JSON.parse(text).error ?? error;
      } catch {
        // an error of a proxy may be no JSON
      }
      if (response.status === 503 && error.loading) {
        onLoading(error.loading);
        waited = true;
        await wait(WHILE_LOADING, options.signal);
        continue;
      }
      throw new ApiError(response.status, error.message || 'status ' + response.status);
    }
    if (waited) {
      onLoading();
    }
    return response;
  }
}

/** Says in words how far loading is, in steps of so many percent. */
export function loadingText({ work, progress }, step) {
  const percent = progress === undefined ? '' : Math.floor(progress * 100 / step) * step + ' %';
  const known = [work, percent].filter(Boolean).join(', ');
  return 'The model is loading' + (known ? ': ' + known : '') + '.';
}

/** GETs JSON. */
export async function get(path, onLoading) {
  return (await request(path, { onLoading })).json();
}

/** The data of server-sent events, in whatever pieces they arrive. */
export async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split('\n').filter(line => line.startsWith('data:')).map(line => line.slice(5).trimStart());
      if (data.length > 0) {
        yield data.join('\n');
      }
    }
  }
}

/** POSTs a chat and yields its chunks; throws what the stream reports as an error. */
export async function* chat(body, signal, onLoading) {
  const response = await request('/v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
    onLoading,
  });
  for await (const data of events(response.body)) {
    if (data === '[DONE]') {
      return;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) {
      throw new ApiError(chunk.error.code, chunk.error.message);
    }
    yield chunk;
  }
  throw new ApiError(0, 'the connection ended before the answer did');
}
