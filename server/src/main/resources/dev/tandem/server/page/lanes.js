// Draws two lanes: steps of the GPU, and the CPU's attention in them.

/** Milliseconds that are shown. */
const SPAN = 2000;

export class Lanes {
  constructor(canvas) {
    this.canvas = canvas;
  }

  draw(steps) {
    const canvas = this.canvas;
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (width === 0) {
      return;
    }
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext('2d');
    const style = getComputedStyle(canvas);
    const color = name => style.getPropertyValue(name).trim();
    context.scale(scale, scale);
    context.font = '12px system-ui, sans-serif';
    const left = 44;
    const lane = (height - 26) / 2;
    const span = shownSpan(steps);
    const x = ago => left + (width - left) * (1 - ago / span);
    context.fillStyle = color('--muted');
    context.fillText('GPU', 4, 4 + lane / 2 + 4);
    context.fillText('CPU', 4, 10 + lane * 1.5 + 4);
    for (let tick = 0; tick <= 4; tick++) {
      const ago = span * (1 - tick / 4);
      const text = tick === 4 ? 'now' : '−' + Math.round(ago) + ' ms';
      context.textAlign = tick === 0 ? 'left' : tick === 4 ? 'right' : 'center';
      context.fillText(text, x(ago), height - 3);
    }
    context.textAlign = 'left';
    for (const step of steps) {
      if (step.ago_ms - step.ms > span) {
        continue;
      }
      const from = Math.max(left, x(step.ago_ms));
      const wide = Math.max(1, x(step.ago_ms - step.ms) - from - 0.5);
      context.fillStyle = color(step.prefill > 0 ? '--prompt' : '--gpu');
      context.fillRect(from, 4, wide, lane);
      const cpu = Math.min(step.cpu_attention_ms, step.ms);
      if (cpu > 0) {
        context.fillStyle = color('--host');
        context.fillRect(from, 10 + lane, Math.max(0, x(step.ago_ms - cpu) - from), lane);
      }
    }
  }
}

/** The last steps, up to the span: short steps would be too narrow to see in all of it. */
function shownSpan(steps) {
  const last = steps.slice(-40);
  return last.length === 0 ? SPAN : Math.min(SPAN, Math.max(50, last[0].ago_ms));
}

/** What the lanes show, in words. */
export function inWords(steps) {
  const last = steps.slice(-20);
  if (last.length === 0) {
    return 'No step has run yet.';
  }
  const mean = name => last.reduce((sum, step) => sum + step[name], 0) / last.length;
  return `The last ${last.length} steps took ${mean('ms').toFixed(2)} ms each, with ${mean('cpu_attention_ms').toFixed(2)} ms of the CPU's attention, `
    + `${mean('prefill').toFixed(0)} prompt tokens and ${mean('decode').toFixed(1)} decoded tokens, ${mean('host').toFixed(1)} of them on the host.`;
}
