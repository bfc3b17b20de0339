// OpenAI's client for Node: `node with_openai.mjs URL`, in a folder where `openai` and `zod` are installed.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0, timeout: 120_000 });
const model = "smollm2-135m-instruct";
const messages = [{ role: "user", content: "Describe a small wooden train as a toy." }];
const Toy = z.object({
  name: z.string().max(12),
  colour: z.enum(["red", "blue"]),
  parts: z.array(z.object({ name: z.string().max(12), count: z.number().int().min(1).max(9) })).min(1).max(2),
  owner: z.string().max(12).nullable(),
});

// Typed output.
const parsed = await client.chat.completions.parse({
  model, messages, temperature: 0, response_format: zodResponseFormat(Toy, "toy"),
});
Toy.parse(parsed.choices[0].message.parsed);

// A stream of it.
const stream = client.chat.completions.stream({
  model, messages, temperature: 0, response_format: zodResponseFormat(Toy, "toy"), stream_options: { include_usage: true },
});
let pieces = 0;
for await (const chunk of stream) pieces += chunk.choices.length;
const final = await stream.finalChatCompletion();
Toy.parse(JSON.parse(final.choices[0].message.content));
assert(pieces > 10 && final.usage.completion_tokens > 10);

// Plain text, streamed.
let text = "";
for await (const chunk of await client.chat.completions.create({ model, messages, max_tokens: 20, stream: true })) {
  text += chunk.choices[0]?.delta?.content ?? "";
}
assert(text.length > 0);

// A tool round trip, run by the client.
const called = [];
const weather = zodFunction({
  name: "weather",
  description: "Get the weather of a place.",
  parameters: z.object({ place: z.string().max(20) }),
});
const first = await client.chat.completions.parse({
  model, messages: [{ role: "user", content: "What is the weather in Paris?" }],
  tools: [weather], tool_choice: "required", parallel_tool_calls: false, temperature: 0,
});
const [call] = first.choices[0].message.tool_calls;
called.push(call.function.parsed_arguments.place);
assert.equal(first.choices[0].finish_reason, "tool_calls");
const second = await client.chat.completions.create({
  model, temperature: 0, max_tokens: 40, tools: [weather], tool_choice: "none",
  messages: [
    { role: "user", content: "What is the weather in Paris?" },
    { role: "assistant", content: null, tool_calls: first.choices[0].message.tool_calls },
    { role: "tool", tool_call_id: call.id, content: "sunny" },
  ],
});
assert(second.choices[0].message.content.length > 0);

// A streamed call.
const calling = client.chat.completions.stream({
  model, messages, tools: [weather], tool_choice: "required", parallel_tool_calls: false, temperature: 0,
});
const made = await calling.finalChatCompletion();
assert.equal(typeof JSON.parse(made.choices[0].message.tool_calls[0].function.arguments).place, "string");

// The Responses API.
const response = await client.responses.parse({
  model, input: "Describe a small wooden train as a toy.", temperature: 0, text: { format: zodTextFormat(Toy, "toy") },
});
Toy.parse(response.output_parsed);
console.log("ok");
