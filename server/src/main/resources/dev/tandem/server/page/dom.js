// Makes elements without markup in strings: text stays text, whatever it contains.

/** Makes an element; a name that begins with "on" is an event. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      node.addEventListener(name.slice(2), value);
    } else if (value === true) {
      node.setAttribute(name, '');
    } else if (value !== false && value !== undefined) {
      node.setAttribute(name, value);
    }
  }
  node.append(...children);
  return node;
}

/** A button with a visible or spoken name. */
export function button(text, action, attributes = {}) {
  return element('button', { type: 'button', onclick: action, ...attributes }, text);
}

/** A number with few digits. */
export function short(value) {
  if (value === undefined || value === null || Number.isNaN(value)) {
    return '–';
  }
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits });
}

/** Milliseconds as a time that people read. */
export function time(ms) {
  if (ms === undefined || ms === null) {
    return '–';
  }
  if (ms < 1000) {
    return short(ms) + ' ms';
  }
  return ms < 120000 ? short(ms / 1000) + ' s' : short(ms / 60000) + ' min';
}

/** A gain as a percentage with its sign. */
export function gain(value) {
  return value === undefined ? 'not known' : (value >= 0 ? '+' : '−') + short(Math.abs(value) * 100) + ' %';
}
