// Chat, streams, a tool loop and structured output with clients for JavaScript, unmodified: node clients.mjs URL.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const url = process.argv[2];
const openai = new OpenAI({ baseURL: url + "/v1", apiKey: "unused", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "unused", maxRetries: 0 });
const model = (await openai.models.list()).data[0].id;
const ask = [{ role: "user", content: "How warm is it in Bern?" }];
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const definition = { name: "weather", description: "The weather of a city", parameters: schema };
const answer = "It is 21 degrees.";
const askJson = [{ role: "user", content: "as JSON" }];
const Weather = z.object({ city: z.literal("Bern"), degrees: z.number().int() });
const inBern = { city: "Bern", degrees: 21 };

function weather(call) {
  assert.deepEqual(call, { city: "Bern" });
  return "21 degrees";
}

async function chat() {
  const tools = [{ type: "function", function: definition }];
  const first = (await openai.chat.completions.create({ model, messages: ask, tools })).choices[0];
  assert.equal(first.finish_reason, "tool_calls");
  const call = first.message.tool_calls[0];
  const content = weather(JSON.parse(call.function.arguments));
  const messages = [...ask, first.message, { role: "tool", tool_call_id: call.id, content }];
  const last = (await openai.chat.completions.create({ model, messages, tools })).choices[0];
  assert.equal(last.message.content, answer);
  const streamed = await openai.chat.completions.stream({ model, messages: ask, tools }).finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const runner = openai.chat.completions.runTools({
    model,
    messages: ask,
    tools: [{ type: "function", function: { ...definition, parse: JSON.parse, function: weather } }],
  });
  assert.equal(await runner.finalContent(), answer);
  const json = await openai.chat.completions.create({
    model,
    messages: askJson,
    response_format: { type: "json_schema", json_schema: { name: "city", schema, strict: true } },
  });
  assert.equal(JSON.parse(json.choices[0].message.content).city, "Bern");
  const structured = { model, messages: askJson, response_format: zodResponseFormat(Weather, "weather") };
  const parsed = await openai.chat.completions.parse(structured);
  assert.deepEqual(parsed.choices[0].message.parsed, inBern);
  const parsedStream = await openai.chat.completions.stream(structured).finalChatCompletion();
  assert.deepEqual(parsedStream.choices[0].message.parsed, inBern);
}

async function responses() {
  const tools = [{ type: "function", ...definition, strict: false }];
  const first = await openai.responses.create({ model, input: ask, tools });
  assert.deepEqual(first.output.map((item) => item.type), ["reasoning", "function_call"]);
  const call = first.output.at(-1);
  const output = weather(JSON.parse(call.arguments));
  const last = await openai.responses.create({
    model,
    tools,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output }],
  });
  assert.equal(last.output_text, answer);
  const streamed = await openai.responses.stream({ model, input: ask, tools }).finalResponse();
  assert.equal(streamed.output.at(-1).arguments, call.arguments);
  const structured = { model, input: "as JSON", text: { format: zodTextFormat(Weather, "weather") } };
  assert.deepEqual((await openai.responses.parse(structured)).output_parsed, inBern);
  assert.deepEqual((await openai.responses.stream(structured).finalResponse()).output_parsed, inBern);
}

async function messages() {
  const request = {
    model,
    max_tokens: 200,
    tools: [{ name: "weather", description: definition.description, input_schema: schema }],
    thinking: { type: "enabled", budget_tokens: 100 },
  };
  const first = await anthropic.messages.create({ ...request, messages: ask });
  assert.deepEqual(first.content.map((block) => block.type), ["thinking", "tool_use"]);
  assert.equal(first.stop_reason, "tool_use");
  const call = first.content.at(-1);
  const result = { type: "tool_result", tool_use_id: call.id, content: weather(call.input) };
  const history = [...ask, { role: "assistant", content: first.content }, { role: "user", content: [result] }];
  const last = await anthropic.messages.create({ ...request, messages: history });
  assert.equal(last.content.at(-1).text, answer);
  const streamed = await anthropic.messages.stream({ ...request, messages: ask }).finalMessage();
  assert.deepEqual(streamed.content.at(-1).input, { city: "Bern" });
  let pieces = "";
  for await (const event of await anthropic.messages.create({ ...request, messages: ask, stream: true })) {
    pieces += event.delta?.type === "input_json_delta" ? event.delta.partial_json : "";
  }
  assert.deepEqual(JSON.parse(pieces), { city: "Bern" });
  const lastStreamed = await anthropic.messages.stream({ ...request, messages: history }).finalMessage();
  assert.equal(lastStreamed.content.at(-1).text, answer);
  const structured = { model, max_tokens: 200, messages: askJson };
  const parsed = await anthropic.messages.parse({ ...structured, output_config: { format: zodOutputFormat(Weather) } });
  assert.deepEqual(parsed.parsed_output, inBern);
}

for (const one of [chat, responses, messages]) {
  await one();
  console.log(`${one.name}: fine`);
}
console.log("all fine");
