// A small Markdown renderer. It makes nodes, never markup, so no text of a model can become an element that is not
// listed here, an attribute, or a script.

import { element } from './dom.js';

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_LINE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
/** Deeper quotes and lists stay text, so that a model cannot exhaust the stack. */
const MAX_DEPTH = 8;

/** Splits lines into blocks: {type, from, to, …} with line numbers. */
export function blocks(lines) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const from = at;
    let match;
    if (line.trim() === '') {
      at++;
      continue;
    }
    if ((match = FENCE.exec(line))) {
      const fence = match[1];
      at++;
      while (at < lines.length && !isClosing(lines[at], fence)) {
        at++;
      }
      found.push({
        type: 'code', from, to: Math.min(++at, lines.length), language: match[2].trim(), text: lines.slice(from + 1, at - 1),
      });
    } else if ((match = HEADING.exec(line))) {
      found.push({ type: 'heading', from, to: ++at, level: match[1].length, text: match[2] });
    } else if (RULE.test(line)) {
      found.push({ type: 'rule', from, to: ++at });
    } else if (QUOTE.test(line)) {
      while (at < lines.length && QUOTE.test(lines[at])) {
        at++;
      }
      found.push({ type: 'quote', from, to: at, text: lines.slice(from, at).map(l => QUOTE.exec(l)[1]) });
    } else if (ITEM.test(line)) {
      at = endOfList(lines, at);
      found.push({ type: 'list', from, to: at, text: lines.slice(from, at) });
    } else if (line.includes('|') && at + 1 < lines.length && TABLE_LINE.test(lines[at + 1])
        && cells(line).length === cells(lines[at + 1]).length) {
      at += 2;
      while (at < lines.length && lines[at].includes('|')) {
        at++;
      }
      found.push({ type: 'table', from, to: at, text: lines.slice(from, at) });
    } else {
      at++;
      while (at < lines.length && lines[at].trim() !== '' && !startsBlock(lines[at])) {
        at++;
      }
      found.push({ type: 'paragraph', from, to: at, text: lines.slice(from, at) });
    }
  }
  return found;
}

function isClosing(line, fence) {
  const text = line.trim();
  return text.length >= fence.length && text === fence[0].repeat(text.length);
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

/** A list goes on with items and with lines that are indented; one blank line may be between them. */
function endOfList(lines, from) {
  const marker = ITEM.exec(lines[from]);
  const ordered = /\d/.test(marker[2]);
  let at = from + 1;
  while (at < lines.length) {
    const blank = lines[at].trim() === '';
    const line = blank ? lines[at + 1] ?? '' : lines[at];
    const item = ITEM.exec(line);
    const same = item && (item[1].length > marker[1].length || /\d/.test(item[2]) === ordered);
    const indented = /^ {2,}\S/.test(line);
    if (line.trim() === '' || RULE.test(line) || !(same || indented || (!blank && !startsBlock(line)))) {
      return at;
    }
    at += blank ? 2 : 1;
  }
  return at;
}

function cells(line) {
  return line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).map(cell => cell.trim().replaceAll('\\|', '|'));
}

function render(block, depth) {
  switch (block.type) {
    case 'code': return codeBlock(block);
    // the page's own headings are above those of an answer
    case 'heading': return element('h' + Math.min(6, block.level + 2), {}, ...inline(block.text));
    case 'rule': return element('hr');
    case 'quote': return element('blockquote', {}, ...renderAll(block.text, depth + 1));
    case 'list': return list(block.text, depth);
    case 'table': return table(block.text);
    default: return element('p', {}, ...inline(block.text.join('\n')));
  }
}

function renderAll(lines, depth) {
  return depth > MAX_DEPTH ? [lines.join('\n')] : blocks(lines).map(block => render(block, depth));
}

function codeBlock(block) {
  const text = block.text.join('\n');
  const copy = element('button', { type: 'button', class: 'copy', 'aria-label': 'Copy this code' }, 'Copy');
  copy.addEventListener('click', () => navigator.clipboard?.writeText(text));
  return element('div', { class: 'code' },
    element('div', { class: 'code-head' }, element('span', {}, block.language || 'text'), copy),
    element('pre', { tabindex: '0', 'aria-label': 'Code' }, element('code', {}, text)));
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent) {
      items.push([item[3]]);
    } else {
      items[items.length - 1].push(line.replace(new RegExp('^ {0,' + (indent + first[2].length + 1) + '}'), ''));
    }
  }
  const start = ordered ? parseInt(first[2], 10) : 1;
  return element(ordered ? 'ol' : 'ul', start === 1 ? {} : { start },
    ...items.map(item => element('li', {}, ...itemContent(item, depth))));
}

/** The only paragraph of an item is not a paragraph of its own. */
function itemContent(lines, depth) {
  const nodes = renderAll(lines, depth + 1);
  return nodes.length > 0 && nodes[0].tagName === 'P' ? [...nodes[0].childNodes, ...nodes.slice(1)] : nodes;
}

function table(lines) {
  const row = (line, tag) => element('tr', {}, ...cells(line).map(cell => element(tag, {}, ...inline(cell))));
  return element('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' }, element('table', {},
    element('thead', {}, row(lines[0], 'th')),
    element('tbody', {}, ...lines.slice(2).map(line => row(line, 'td')))));
}

const INLINE = new RegExp([
  /\\([\\`*_{}[\]()#+.!|~>-])/, // 1 escaped
  /(`+)([^]*?[^`])\2(?!`)/, // 2, 3 code
  /\*\*(?=\S)([^]*?\S)\*\*/, // 4 strong
  /(?<![\w*])\*(?=[^\s*])([^*]*?[^\s*])\*(?!\*)/, // 5 emphasis
  /(?<!\w)_(?=\S)([^_]*?\S)_(?!\w)/, // 6 emphasis
  /~~(?=\S)([^]*?\S)~~/, // 7 deleted
  /!?\[([^\]]*)\]\(\s*<?([^\s)>]*)>?(?:\s+"[^"]*")?\s*\)/, // 8, 9 link; an image is a link too, nothing is loaded
  /(https?:\/\/[^\s<>"')\]]*[^\s<>"')\].,;:!?])/, // 10 address
].map(part => part.source).join('|'), 'g');

/** Text with emphasis, code and links, as nodes. */
export function inline(text, depth = 0) {
  if (depth > MAX_DEPTH) {
    return [text];
  }
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) {
      nodes.push(text.slice(from, match.index));
    }
    nodes.push(inlineNode(match, depth + 1));
    from = match.index + match[0].length;
  }
  if (from < text.length) {
    nodes.push(text.slice(from));
  }
  return nodes;
}

function inlineNode(match, depth) {
  if (match[1] !== undefined) return match[1];
  if (match[3] !== undefined) return element('code', {}, match[3]);
  if (match[4] !== undefined) return element('strong', {}, ...inline(match[4], depth));
  if (match[5] !== undefined) return element('em', {}, ...inline(match[5], depth));
  if (match[6] !== undefined) return element('em', {}, ...inline(match[6], depth));
  if (match[7] !== undefined) return element('del', {}, ...inline(match[7], depth));
  if (match[10] !== undefined) return link(match[10], [match[10]]) ?? match[0];
  return link(match[9], match[8] === '' ? [match[9]] : inline(match[8], depth)) ?? match[0];
}

/** A link to a web or mail address; undefined for any other scheme, so that no link can run a script. */
function link(address, content) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return undefined;
  }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol)
    ? element('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...content)
    : undefined;
}

/** Renders text that grows. Blocks that are complete are rendered once; the last one or two are rendered again. */
export class MarkdownView {
  constructor(node) {
    this.node = node;
    this.lines = [''];
    this.firstOpen = 0; // first line of the blocks that may still change
    this.open = []; // their nodes
    this.dirty = false;
  }

  append(text) {
    const more = text.split('\n');
    this.lines[this.lines.length - 1] += more[0];
    this.lines.push(...more.slice(1));
    this.dirty = true;
  }

  /** Brings the node up to date; call it once per frame. */
  render() {
    if (!this.dirty) {
      return;
    }
    this.dirty = false;
    const found = blocks(this.lines.slice(this.firstOpen));
    this.open.forEach(node => node.remove());
    this.open = [];
    let open = found.length - 1;
    if (open > 0 && this.firstOpen + found[open].from === this.lines.length - 1) {
      open--; // the last line is not complete: it may still belong to the block before
    }
    found.forEach((block, i) => {
      const node = render(block, 0);
      this.node.append(node);
      if (i >= open) {
        this.open.push(node);
      }
    });
    if (open >= 0) {
      this.firstOpen += found[open].from;
    }
  }
}
