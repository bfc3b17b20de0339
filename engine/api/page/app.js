// The chat page: a conversation beside the shape that its answers take. It speaks the server's own API and nothing else.

import { describe, spanOf } from "./tokens.js";

const $ = (id) => document.getElementById(id);
const EXAMPLES = {
  json_schema: {
    person: {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 40 },
        age: { type: "integer", minimum: 0, maximum: 120 },
        email: { type: "string", format: "email" },
        tags: { type: "array", items: { enum: ["new", "regular", "gold"] }, uniqueItems: true, maxItems: 2 },
      },
      required: ["name", "age"],
      additionalProperties: false,
    },
    "yes or no, with a reason": {
      type: "object",
      properties: { reason: { type: "string", maxLength: 80 }, answer: { type: "boolean" } },
      required: ["reason", "answer"],
      additionalProperties: false,
    },
    "a shape": {
      oneOf: [
        { type: "object", properties: { kind: { const: "circle" }, radius: { type: "number", exclusiveMinimum: 0 } }, required: ["kind", "radius"], additionalProperties: false },
        { type: "object", properties: { kind: { const: "square" }, side: { type: "number", exclusiveMinimum: 0 } }, required: ["kind", "side"], additionalProperties: false },
      ],
    },
  },
  regex: { "a date": "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])", "a phone number": "\\+\\d{2} \\d{3,4} \\d{5,8}" },
  choice: { feelings: "happy\nsad\nneutral" },
  grammar: { arithmetic: "%import arithmetic.expression\nroot ::= expression", query: "%import sql.query\nroot ::= query" },
};
const history = [];
let running = null;

function headers() {
  const key = $("key").value.trim();
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function post(path, body, signal) {
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!response.ok) throw new Error(await reason(response));
  return response;
}

async function reason(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

// ---- the shape

function constraint() {
  const kind = $("kind").value;
  const source = $("source").value;
  if (kind === "json_schema") {
    return { response_format: { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(source) } } };
  }
  if (kind === "json_object") return { response_format: { type: "json_object" } };
  if (kind === "regex") return { guided_regex: source };
  if (kind === "choice") return { guided_choice: source.split("\n").filter((line) => line) };
  if (kind === "grammar") return { response_format: { type: "grammar", grammar: source, syntax: "grammarbnf" } };
  return {};
}

function fillExamples() {
  const examples = EXAMPLES[$("kind").value] ?? {};
  $("example").replaceChildren(...Object.keys(examples).map((name) => new Option(name)));
  $("example").disabled = $("source").disabled = !Object.keys(examples).length;
  takeExample();
}

function takeExample() {
  const chosen = EXAMPLES[$("kind").value]?.[$("example").value];
  $("source").value = chosen === undefined ? "" : typeof chosen === "string" ? chosen : JSON.stringify(chosen, null, 2);
  check();
}

let checking = 0;
async function check() {
  const report = $("report");
  const mine = ++checking;
  if ($("kind").value === "none") return report.replaceChildren();
  try {
    const response = await post("/v1/grammar/check", { model: $("model").value || undefined, ...constraint() });
    const found = await response.json();
    if (mine === checking) show(report, found);
  } catch (error) {
    if (mine === checking) report.replaceChildren(line(error.message, "bad"));
  }
}

function show(report, found) {
  const enforced = found.entries.filter((entry) => entry.status === "enforced").length;
  const parts = [];
  if (found.entries.length) parts.push(`${enforced} of ${found.entries.length} keywords enforced, the others are annotations`);
  if (found.shortest != null) parts.push(`shortest answer: ${found.shortest.slice(0, 80)}`);
  report.replaceChildren(line(parts.join("; ") || "can be served", "good"));
  if (!found.advice.length) return;
  const list = document.createElement("ul");
  for (const advice of found.advice) {
    const item = document.createElement("li");
    item.textContent = `${advice.pointer || "/"}: ${advice.message}`;
    list.append(item);
  }
  report.append(list);
}

function line(text, kind) {
  const paragraph = document.createElement("p");
  paragraph.className = kind;
  paragraph.textContent = text;
  return paragraph;
}

async function validate(verdict, text, shape) {
  try {
    const found = await (await post("/v1/grammar/check", { model: $("model").value, text, ...shape })).json();
    verdict.textContent = found.accepts ? "valid" : "not valid";
    verdict.className = `verdict ${found.accepts ? "good" : "bad"}`;
  } catch (error) {
    verdict.textContent = error.message;
    verdict.className = "verdict bad";
  }
  verdict.hidden = false;
}

// ---- the conversation

function bubble(role) {
  const item = $("message").content.firstElementChild.cloneNode(true);
  item.classList.add(role);
  item.querySelector(".who").textContent = role;
  $("messages").append(item);
  item.scrollIntoView({ block: "end" });
  return item;
}

async function* events(response) {
  const decoder = new TextDecoder();
  let held = "";
  for await (const piece of response.body) {
    held += decoder.decode(piece, { stream: true });
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

async function send(event) {
  event.preventDefault();
  const text = $("prompt").value.trim();
  if (!text || running) return;
  let shape;
  try {
    shape = constraint();
  } catch (error) {
    $("report").replaceChildren(line(`the schema is not JSON: ${error.message}`, "bad"));
    return;
  }
  $("prompt").value = "";
  history.push({ role: "user", content: text });
  bubble("user").querySelector(".text").textContent = text;
  await answer(shape);
}

async function answer(shape) {
  const item = bubble("assistant");
  const place = item.querySelector(".text");
  const inspect = (token, note) => describe($("token"), token, note);
  running = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  $("status").textContent = "...";
  const begun = performance.now();
  let said = "";
  let count = 0;
  let forced = 0;
  let ended = "";
  try {
    const response = await post("/v1/chat/completions", {
      model: $("model").value,
      messages: history,
      temperature: Number($("temperature").value),
      max_tokens: Number($("max-tokens").value),
      stream: true,
      logprobs: true,
      top_logprobs: 5,
      explain: true,
      ...shape,
    }, running.signal);
    for await (const chunk of events(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      const choice = chunk.choices[0];
      if (!choice) continue;
      said += choice.delta.content ?? "";
      const notes = choice.explain ?? [];
      for (const [position, token] of (choice.logprobs?.content ?? []).entries()) {
        const note = notes[position];
        forced += note?.forced ? 1 : 0;
        count += 1;
        place.append(spanOf(token, note, inspect));
      }
      if (choice.finish_reason) ended = choice.forced_close ? "closed in time" : choice.finish_reason;
      $("messages").scrollTop = $("messages").scrollHeight;
    }
    history.push({ role: "assistant", content: said });
    if (Object.keys(shape).length) await validate(item.querySelector(".verdict"), said, shape);
  } catch (error) {
    if (error.name === "AbortError") ended = "stopped";
    else place.append(line(error.message, "bad"));
    if (said) history.push({ role: "assistant", content: said });
    else history.pop();
  } finally {
    const seconds = (performance.now() - begun) / 1000;
    const parts = [`${count} tokens`, `${(count / seconds).toFixed(1)}/s`];
    if (forced) parts.push(`${forced} forced`);
    $("status").textContent = [...parts, ended].filter(Boolean).join(", ");
    running = null;
    $("send").disabled = false;
    $("stop").disabled = true;
  }
}

// ---- the server's numbers

const seen = [];
async function measure() {
  try {
    const response = await fetch("/metrics", { headers: headers() });
    if (!response.ok) return;
    const text = await response.text();
    let total = 0;
    for (const [, value] of text.matchAll(/^slipcast_(?:decoded|forced)_tokens_total\{[^}]*\} (\S+)$/gm)) total += Number(value);
    seen.push([performance.now() / 1000, total]);
    if (seen.length > 31) seen.shift();
    const rates = seen.slice(1).map(([at, count], i) => Math.max(0, (count - seen[i][1]) / (at - seen[i][0])));
    const most = Math.max(1, ...rates);
    $("spark").setAttribute("points", rates.map((rate, i) => `${i * 4},${23 - (rate / most) * 22}`).join(" "));
    $("rate").textContent = `${(rates.at(-1) ?? 0).toFixed(0)} tokens/s`;
  } catch {
    // The server has gone or is starting again: asked again in two seconds.
  }
}

async function loadModels() {
  try {
    const response = await fetch("/v1/models", { headers: headers() });
    if (!response.ok) throw new Error(await reason(response));
    const models = (await response.json()).data;
    $("model").replaceChildren(...models.map((model) => new Option(model.id)));
    $("status").textContent = "";
  } catch (error) {
    $("status").textContent = error.message;
  }
}

$("ask").addEventListener("submit", send);
$("stop").addEventListener("click", () => running?.abort());
$("clear").addEventListener("click", () => {
  history.length = 0;
  $("messages").replaceChildren();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) send(event);
});
$("kind").addEventListener("change", fillExamples);
$("example").addEventListener("change", takeExample);
let typing;
$("source").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(check, 300);
});
$("key").value = sessionStorage.getItem("key") ?? "";
$("key").addEventListener("change", async () => {
  sessionStorage.setItem("key", $("key").value);
  await loadModels();
  check();
});
await loadModels();
fillExamples();
setInterval(measure, 2000);
measure();
