// How tokens are shown: a shade by probability, marks of what the grammar did, and the table of one token.

export function spanOf(token, note, inspect) {
  const span = document.createElement("span");
  span.className = `t ${shade(token, note)}`;
  span.textContent = shown(token.token);
  span.tabIndex = 0;
  for (const event of ["mouseenter", "focus"]) span.addEventListener(event, () => inspect(token, note));
  return span;
}

function shade(token, note) {
  if (note?.forced) return "forced";
  const probability = Math.exp(token.logprob);
  return ["p0", "p1", "p2", "p3", "p4"][[0.05, 0.2, 0.5, 0.8].filter((bound) => probability >= bound).length];
}

function shown(text) {
  return text.replaceAll("\u0000", "\u2400");
}

export function describe(element, token, note) {
  element.replaceChildren();
  const head = document.createElement("p");
  head.append("chosen ", code(token.token), ` with probability ${percent(Math.exp(token.logprob))}`);
  element.append(head);
  if (note) {
    const facts = document.createElement("ul");
    facts.id = "facts";
    const add = (...parts) => {
      const item = document.createElement("li");
      item.append(...parts);
      facts.append(item);
    };
    if (note.forced) add("forced: the grammar left no choice");
    const allowed = note.allowed === 1 ? "1 token was" : `${note.allowed?.toLocaleString("en")} tokens were`;
    if (note.allowed != null) add(`${allowed} allowed here`);
    if (note.removed != null) add(`the grammar took away ${percent(note.removed)} of the model's probability`);
    if (note.pointer != null) add("in force: ", code(note.pointer === "" ? "the whole schema" : note.pointer));
    if (facts.childElementCount) element.append(facts);
  }
  const others = token.top_logprobs ?? [];
  if (!others.length) return;
  const table = document.createElement("table");
  for (const other of others) {
    const row = table.insertRow();
    row.insertCell().append(code(other.token));
    const probability = Math.exp(other.logprob);
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${Math.round(probability * 120)}px`;
    row.insertCell().append(bar);
    row.insertCell().append(percent(probability));
  }
  element.append(table);
}

function code(text) {
  const element = document.createElement("code");
  element.textContent = JSON.stringify(text);
  return element;
}

function percent(share) {
  return share > 0 && share < 0.001 ? "<0.1%" : `${(share * 100).toFixed(1)}%`;
}
