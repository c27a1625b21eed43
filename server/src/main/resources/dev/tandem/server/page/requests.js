// The table of live requests.

import { element, time } from './dom.js';

const STATES = { waiting: 'waits', dropped: 'waits again', gpu: 'on the GPU', host: 'on the host', in_flight: 'in flight' };

export class RequestsView {
  constructor(root) {
    this.count = element('p', { class: 'muted' });
    this.body = element('tbody');
    const heads = ['Request', 'Where', 'Why', 'Tokens', 'On the host', 'KV blocks', 'Age', 'Queued', 'Preempted'];
    root.append(element('div', { class: 'panel wide' }, element('h2', {}, 'Requests'), this.count,
      element('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Live requests' }, element('table', {},
        element('thead', {}, element('tr', {}, ...heads.map(head => element('th', { scope: 'col' }, head)))), this.body))));
  }

  update(data) {
    const { list, live } = data.requests;
    this.count.textContent = live === 0 ? 'No request is live.' : live > list.length ? `${live} requests; the first ${list.length} are shown.` : `${live} requests.`;
    this.body.replaceChildren(...list.map(request => element('tr', {},
      element('th', { scope: 'row' }, element('code', { title: request.id }, request.id.length > 20 ? request.id.slice(0, 19) + '…' : request.id)),
      element('td', {}, element('span', { class: 'state ' + request.state }, STATES[request.state] ?? request.state)),
      element('td', {}, request.why),
      element('td', {}, `${request.prompt_tokens} + ${request.output_tokens} of ${request.max_tokens}`),
      element('td', {}, String(request.host_tokens)),
      element('td', {}, String(request.blocks)),
      element('td', {}, time(request.age_ms)),
      element('td', {}, time(request.queued_ms)),
      element('td', {}, String(request.preemptions)))));
  }
}
