// The connection over which the server reports changes: one for all tabs, reopened automatically.
// Listeners receive {state: "connecting" | "live" | "lost" | "silent"} and {changed: [pipelines]}, or {changed: null} for all.

const PATIENCE = 6000; // a proxy that buffers events is silent for longer
const AGAIN = 2000;

export class Events {
  constructor(url) {
    this.url = url;
    this.listeners = new Set();
    this.state = "connecting";
    this.source = null;
    this.timer = 0;
  }

  join(listener) {
    this.listeners.add(listener);
    listener({ state: this.state });
    if (!this.source) this.open();
  }

  leave(listener) {
    this.listeners.delete(listener);
    if (this.listeners.size === 0) this.close();
  }

  open() {
    this.close();
    const source = new EventSource(this.url);
    this.source = source;
    this.timer = setTimeout(() => this.tell("silent"), PATIENCE);
    source.addEventListener("back", () => {
      this.tell("live");
      this.say({ changed: null });
    });
    source.addEventListener("changed", (event) => {
      this.tell("live");
      this.say({ changed: JSON.parse(event.data).pipelines });
    });
    source.addEventListener("lost", () => this.tell("lost"));
    source.onerror = () => {
      this.say({ changed: null }); // a request now finds out whether the server is there
      clearTimeout(this.timer);
      if (source.readyState === EventSource.CLOSED) {
        this.tell("lost");
        this.timer = setTimeout(() => this.open(), AGAIN);
      } else {
        this.timer = setTimeout(() => this.tell("lost"), AGAIN); // the server ends it from time to time
      }
    };
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    this.state = "connecting";
  }

  tell(state) {
    clearTimeout(this.timer);
    if (state !== this.state) {
      this.state = state;
      this.say({ state });
    }
  }

  say(message) {
    for (const listener of this.listeners) listener(message);
  }
}

export const eventsUrl = new URL("../../api/v1/events", import.meta.url).href;
