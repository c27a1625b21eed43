// Talks to the server. The API key stays in this tab's sessionStorage.

const KEY = 'tandem.key';

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

async function request(path, options) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(key ? { Authorization: 'Bearer ' + key } : {}) };
    const response = await fetch(path, { ...options, headers });
    if (response.status === 401 && key !== sessionStorage.getItem(KEY)) {
      continue; // another request has asked for a key meanwhile
    }
    if (response.status === 401 && await askForKey()) {
      continue;
    }
    if (!response.ok) {
      const text = await response.text();
      let message = text;
      try {
        message = JSON.parse(text).error.message;
      } catch {
        // an error of a proxy is no JSON
      }
      throw new ApiError(response.status, message || 'status ' + response.status);
    }
    return response;
  }
}

/** GETs JSON. */
export async function get(path, signal) {
  return (await request(path, { signal })).json();
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
export async function* chat(body, signal) {
  const response = await request('/v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
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
