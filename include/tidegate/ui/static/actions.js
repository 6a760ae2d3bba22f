// Sends user actions, and shows the answer in place. The page itself is updated by its events, as always.
// An id is generated before the first try, and kept until the outcome is known, so a retry is safe.

const api = new URL("../../api/v1/", import.meta.url);
const unanswered = new WeakMap(); // by form: the request and its id
const asking = new WeakSet();
const GIVE_UP = 20000;

function newId() {
  // `crypto.randomUUID` exists only with TLS.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function idOf(form, asked) {
  if (unanswered.get(form)?.asked !== asked) unanswered.set(form, { asked, id: newId() });
  return unanswered.get(form).id;
}

function say(text, tone) {
  const place = document.getElementById("answer");
  if (!place) return;
  place.className = tone;
  place.textContent = text;
}

function lead(page) {
  const link = document.createElement("a");
  link.href = page;
  link.dataset.airflow = "";
  link.textContent = "Show the progress";
  document.getElementById("answer")?.append(" ", link, ".");
}

const ask = (url, options) => fetch(url, { cache: "no-store", signal: AbortSignal.timeout(GIVE_UP), ...options });

async function post(url, body) {
  const known = await ask(new URL("token", api));
  if (!known.ok) return known;
  const { token } = await known.json();
  const headers = { "Content-Type": "application/json", "Tidegate-Token": token };
  return ask(url, { method: "POST", headers, body: JSON.stringify(body) });
}

function sentenceOf(document_) {
  if (document_.sentence) return document_.sentence;
  if (document_.errors) return document_.errors.join(" ");
  return "The server does not understand the request.";
}

function bodyOf(form, given) {
  const body = Object.fromEntries(given);
  for (const { name } of form.querySelectorAll("[data-many]")) {
    body[name] = given.filter(([key]) => key === name).map(([, value]) => value);
  }
  return body;
}

async function carryOut(form, button) {
  const given = [...new FormData(form, button)].filter(([, value]) => value !== "");
  const asked = `${button.formAction} ${JSON.stringify(given)}`;
  const body = { ...bodyOf(form, given), request_id: idOf(form, asked) };
  say("Sending …", "muted");
  let answer;
  let told;
  try {
    answer = await post(button.formAction, body);
    told = await answer.json();
  } catch {
    return say("The server does not answer. Press the button again; an action is never carried out twice.", "bad");
  }
  if (answer.status >= 500) return say(`${sentenceOf(told)} Press the button again; an action is never carried out twice.`, "bad");
  unanswered.delete(form);
  say(sentenceOf(told), answer.ok ? "good" : "bad");
  if (!answer.ok) return;
  if (told.page && form.matches("[data-leads]")) return location.assign(told.page);
  if (told.page) lead(told.page);
  form.reset();
  form.closest("details")?.removeAttribute("open");
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-action]")) return;
  event.preventDefault();
  if (asking.has(form)) return;
  asking.add(form);
  try {
    await carryOut(form, event.submitter);
  } finally {
    asking.delete(form);
  }
});
