// Keeps a page up to date: reloads it after a change, and shows when that is not possible.
// Open, scrolled and focused elements stay, because only differences are replaced.
import { Events, eventsUrl } from "./events.js";
import { drawCharts } from "./charts.js";

const TOGETHER = 30; // changes that arrive together lead to one request
const APART = 250; // and a busy pipeline to four requests a second
const POLL = 5000;
const AGES = 60000; // ages are shown on the page
const LASTS = 2000; // and durations of running steps
const GIVE_UP = 10000;

const sign = document.getElementById("live");
const pipeline = document.body.dataset.pipeline;
let state = "connecting";
let answered = new Date();
let trouble = "";
let asking = false;
let due = 0;
let asked = Date.now();
let timer = 0;

const clock = (at) => at.toTimeString().slice(0, 8);

function show() {
  let shown = "live";
  let text = "Live";
  if (trouble) {
    shown = "lost";
    text = `${trouble} The page shows the data of ${clock(answered)}.`;
  } else if (state !== "live") {
    shown = "polling";
    text = state === "connecting" ? "Connecting" : `No live updates; polling every ${POLL / 1000} s`;
  }
  sign.dataset.state = shown;
  if (sign.textContent !== text) sign.textContent = text;
}

function soon(after) {
  const at = Math.max(Date.now() + after, asked + APART);
  if (due && due <= at) return;
  due = at;
  clearTimeout(timer);
  timer = setTimeout(ask, at - Date.now());
}

async function ask() {
  due = 0;
  if (asking || document.hidden) return soon(APART);
  asking = true;
  asked = Date.now();
  try {
    const answer = await fetch(location.href, {
      cache: "no-store",
      headers: { "Tidegate-Live": "1" },
      signal: AbortSignal.timeout(GIVE_UP),
    });
    if (answer.ok || answer.status === 404) {
      const text = await answer.text();
      await htmx.swap({ text, target: "#page", swap: "outerMorph", select: "#page", sourceElement: document.body });
      drawCharts();
      answered = new Date();
      trouble = "";
    } else if (answer.status === 401 || answer.status === 403) {
      trouble = "You are no longer logged in. Log in, then reload.";
    } else {
      trouble = answer.status === 503 ? "The database does not answer." : `The server answers ${answer.status}.`;
    }
  } catch {
    trouble = "The server does not answer.";
  } finally {
    asking = false;
    show();
    if (trouble) soon(2000);
    else if (state !== "live") soon(POLL);
    else soon(document.querySelector("[data-lasts]") ? LASTS : AGES);
  }
}

function hear(message) {
  if ("state" in message) {
    state = message.state;
    show();
    soon(state === "live" ? TOGETHER : APART);
  } else if (!pipeline || !message.changed || message.changed.includes(pipeline)) {
    soon(TOGETHER);
  }
}

function connect() {
  if (!window.SharedWorker) {
    const events = new Events(eventsUrl);
    return { join: () => events.join(hear), leave: () => events.leave(hear) };
  }
  const worker = new SharedWorker(new URL("./events_worker.js", import.meta.url), { type: "module" });
  worker.port.onmessage = ({ data }) => hear(data);
  worker.port.start();
  return { join: () => worker.port.postMessage("join"), leave: () => worker.port.postMessage("leave") };
}

if (sign) {
  const connection = connect();
  connection.join();
  window.addEventListener("pagehide", () => connection.leave());
  window.addEventListener("pageshow", (event) => event.persisted && connection.join());
  document.addEventListener("visibilitychange", () => document.hidden || soon(0));
}
