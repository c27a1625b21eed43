// Conversations in this browser's storage.

const STORE = 'tandem.conversations';
/** Older conversations are dropped first: browsers store some 5 MB per site. */
const MAX_CONVERSATIONS = 50;

export const DEFAULTS = { system: '', temperature: '', top_p: '', max_tokens: '', seed: '', tools: '' };

/** All conversations, newest first. A conversation has id, title, messages, settings. */
export class Conversations {
  constructor(storage) {
    this.storage = storage;
    this.all = [];
    try {
      const stored = JSON.parse(storage.getItem(STORE) ?? '[]');
      this.all = Array.isArray(stored) ? stored.filter(c => c && c.id && Array.isArray(c.messages)) : [];
    } catch {
      // what cannot be read is of no use
    }
  }

  /** Starts a conversation with the settings of another. */
  add(settings = DEFAULTS) {
    const conversation = { id: crypto.randomUUID?.() ?? String(performance.now()), title: '', messages: [], settings: { ...settings } };
    this.all.unshift(conversation);
    this.all.length = Math.min(this.all.length, MAX_CONVERSATIONS);
    return conversation;
  }

  remove(conversation) {
    this.all = this.all.filter(other => other !== conversation);
    this.save();
  }

  /** Stores all; the oldest ones go when the browser has no room. Empty ones are not stored. */
  save() {
    for (let kept = this.all.length; kept >= 0; kept--) {
      try {
        const stored = this.all.slice(0, kept).filter(conversation => conversation.messages.length > 0);
        this.storage.setItem(STORE, JSON.stringify(stored));
        return;
      } catch {
        // no room: try without the oldest
      }
    }
  }
}
