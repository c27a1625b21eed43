// The live view of the engine.

import { element, gain, short, time } from './dom.js';
import { Lanes, inWords } from './lanes.js';

const HISTORY = 240; // polls of which queue and KV are kept: two minutes

const PHASES = {
  measure: 'measures the GPU alone',
  warm_up: 'fills the host',
  run: 'offloads, and compares each window with the GPU alone',
  drain: 'stops offloading; host requests finish or return',
  pause: 'pauses after a loss',
};

export class EngineView {
  constructor(root) {
    this.canvas = element('canvas', { class: 'lanes', role: 'img', 'aria-label': 'Steps of the GPU and the CPU' });
    this.lanes = new Lanes(this.canvas);
    this.words = element('p', { class: 'muted' });
    this.numbers = element('dl', { class: 'tiles' });
    this.reason = element('p', { class: 'reason' });
    this.gains = element('dl', { class: 'tiles' });
    this.guard = element('ol', { class: 'guard' });
    this.guardTitle = element('h3', {}, 'Guard');
    this.rates = chart('Tokens per second', ['output', 'host', 'prompt']);
    this.kv = chart('KV in use, %', ['GPU', 'host']);
    this.queue = chart('Requests', ['running', 'waiting']);
    this.past = { at: [], gpu: [], host: [], running: [], waiting: [] };
    root.append(
      element('div', { class: 'panel wide' }, element('h2', {}, 'Steps'), this.canvas,
        element('p', { class: 'legend' }, key('gpu', 'decodes'), key('prompt', 'computes prompts'), key('host', 'CPU attention')), this.words),
      element('div', { class: 'panel' }, element('h2', {}, 'Now'), this.numbers),
      element('div', { class: 'panel' }, element('h2', {}, 'Strategy'), this.reason, this.gains, this.guardTitle, this.guard),
      this.rates.node, this.kv.node, this.queue.node);
  }

  update(data) {
    loadPlots();
    this.remember(data);
    this.lanes.draw(data.steps);
    const words = inWords(data.steps);
    this.words.textContent = words;
    this.canvas.setAttribute('aria-label', words);
    const seconds = data.per_second.output;
    const lastSecond = seconds.length > 0 ? seconds[seconds.length - 1] : 0;
    const pool = tier => (tier.blocks === 0 ? 'none' : `${tier.used.toLocaleString('en')} of ${tier.blocks.toLocaleString('en')} blocks`);
    fill(this.numbers, [
      ['Output', short(lastSecond) + ' tokens/s'],
      ['Running', data.requests.running + (data.requests.in_flight > 0 ? `, ${data.requests.in_flight} in flight` : '')],
      ['Waiting', String(data.requests.waiting)],
      ['Swapped out', String(data.requests.swapped)],
      ['First token, p50 / p99', pair(data.time_to_first_token_ms)],
      ['Per token, p50 / p99', pair(data.inter_token_latency_ms)],
      ['KV on the GPU', pool(data.kv.gpu)],
      ['KV on the host', pool(data.kv.host)],
      ['Preemptions', short(data.kv.preemptions)],
      ['Prefix cache hits', data.kv.prefix_queries > 0 ? short(100 * data.kv.prefix_hits / data.kv.prefix_queries) + ' %' : '–'],
    ]);
    this.showStrategy(data.strategy);
    const rates = data.per_second;
    const x = rates.output.map((_, i) => i - rates.output.length);
    this.rates.set([x, rates.output, rates.host, rates.prompt]);
    const past = this.past.at.map(at => (at - this.past.at[this.past.at.length - 1]) / 1000);
    this.kv.set([past, this.past.gpu, this.past.host]);
    this.queue.set([past, this.past.running, this.past.waiting]);
  }

  /** Keeps queue and KV, of which the server tells only the present. Called on every poll. */
  remember(data) {
    const percent = pool => (pool.blocks === 0 ? 0 : 100 * pool.used / pool.blocks);
    const past = this.past;
    past.at.push(performance.now());
    past.gpu.push(percent(data.kv.gpu));
    past.host.push(percent(data.kv.host));
    past.running.push(data.requests.running);
    past.waiting.push(data.requests.waiting);
    if (past.at.length > HISTORY) {
      Object.values(past).forEach(list => list.shift());
    }
  }

  showStrategy(strategy) {
    const guarded = strategy.guarded ? (strategy.offloading ? ', offloading' : ', the GPU alone') : '';
    this.reason.replaceChildren(element('strong', {}, strategy.name + guarded), element('br'),
      strategy.reason || 'The strategy gives no reason: it has one kind of step.');
    const gains = [['Last step', strategy.step_shape ?? '–']];
    if (strategy.guarded) {
      gains.push(['Expected gain', gain(strategy.expected_gain)], ['Measured gain', gain(strategy.measured_gain)], ['Best possible', gain(strategy.ideal_gain)],
        ['Lost windows', String(strategy.losses)]);
    }
    fill(this.gains, gains);
    this.guardTitle.hidden = !strategy.guarded;
    this.guard.hidden = !strategy.guarded;
    const phases = strategy.phases ?? [];
    this.guard.replaceChildren(...phases.slice(-12).reverse().map(change => element('li', {},
      element('strong', {}, change.phase.replace('_', ' ')), ` ${PHASES[change.phase] ?? ''}, since ${time(change.ago_ms)}`,
      change.measured_gain === undefined ? '' : `; measured ${gain(change.measured_gain)}`)));
  }
}

function key(name, text) {
  return element('span', {}, element('i', { class: 'swatch ' + name, 'aria-hidden': 'true' }), text);
}

function pair(latencies) {
  return latencies.count === 0 ? '–' : time(latencies.p50) + ' / ' + time(latencies.p99);
}

function fill(list, rows) {
  list.replaceChildren(...rows.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))));
}

const COLORS = { output: '--gpu', GPU: '--gpu', running: '--gpu', host: '--host', prompt: '--prompt', waiting: '--prompt' };

/** Loads uPlot, which only this view needs. A chart is drawn by the first update after that. */
function loadPlots() {
  const files = document.getElementById('plots');
  files?.replaceWith(files.content);
}

/** A plot over the last two minutes. */
function chart(title, names) {
  const box = element('div', { class: 'plot', role: 'img', 'aria-label': title });
  const legend = element('p', { class: 'legend' }, ...names.map(name => key(COLORS[name].slice(2), name)));
  const node = element('div', { class: 'panel' }, element('h2', {}, title), box, legend);
  let plot;
  let width = 0;
  return {
    node,
    set(data) {
      if (box.clientWidth === 0 || !globalThis.uPlot) {
        return;
      }
      const color = name => getComputedStyle(box).getPropertyValue(name).trim();
      if (!plot || box.clientWidth !== width) {
        plot?.destroy();
        width = box.clientWidth;
        const axis = { stroke: () => color('--muted'), grid: { stroke: () => color('--line'), width: 1 }, ticks: { show: false } };
        plot = new globalThis.uPlot({
          width,
          height: 150,
          legend: { show: false },
          cursor: { show: false },
          scales: { x: { time: false, range: [-120, 0] }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
          axes: [{ ...axis, size: 30, values: (_, ticks) => ticks.map(tick => (tick === 0 ? 'now' : tick + ' s')) }, { ...axis, size: 48 }],
          series: [{}, ...names.map(name => ({ stroke: () => color(COLORS[name]), width: 2, points: { show: false } }))],
        }, data, box);
      } else {
        plot.setData(data);
      }
      const last = names.map((name, i) => `${name} ${short(data[i + 1][data[i + 1].length - 1] ?? 0)}`).join(', ');
      box.setAttribute('aria-label', `${title}, now: ${last}`);
    },
  };
}
