"""Chat, streams, a tool loop and structured output with clients for Python, unmodified: python3 clients.py URL."""

import json
import os
import sys
from typing import Literal

import anthropic
import langchain_anthropic
import langchain_core.messages
import langchain_core.tools
import langchain_openai
import openai
import pydantic

URL = sys.argv[1]
OPENAI = openai.OpenAI(base_url=URL + "/v1", api_key="unused", max_retries=0)
ANTHROPIC = anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0)
MODEL = OPENAI.models.list().data[0].id
ASK = [{"role": "user", "content": "How warm is it in Bern?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather of a city", "parameters": SCHEMA}
RESULT = "21 degrees"
ANSWER = "It is 21 degrees."


class City(pydantic.BaseModel):
    city: str


class Weather(pydantic.BaseModel):
    city: Literal["Bern"]
    degrees: int


AS_JSON = [{"role": "user", "content": "as JSON"}]
IN_BERN = Weather(city="Bern", degrees=21)


def check(name, holds, seen):
    if not holds:
        sys.exit(f"{name} failed: {seen}")
    print(f"{name}: fine")


def weather(arguments):
    return RESULT if arguments == {"city": "Bern"} else f"no such city: {arguments}"


def chat(create, name, model):
    """A tool loop over chat completions."""
    tools = [{"type": "function", "function": FUNCTION}]
    first = create(model=model, messages=ASK, tools=tools).choices[0]
    call = first.message.tool_calls[0]
    check(name, first.finish_reason == "tool_calls" and first.message.reasoning_content == "Look it up.", first)
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(json.loads(call.function.arguments))}
    last = create(model=model, messages=[*ASK, first.message, result], tools=tools).choices[0]
    check(name + " loop", last.message.content == ANSWER and last.finish_reason == "stop", last)
    calls = {}
    for chunk in create(model=model, messages=ASK, tools=tools, stream=True):
        for delta in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            calls.setdefault(delta.index, [delta.id, delta.function.name, ""])[2] += delta.function.arguments or ""
    check(name + " stream", [c[1:] for c in calls.values()] == [["weather", call.function.arguments]], calls)


def openai_chat():
    chat(OPENAI.chat.completions.create, "openai chat", MODEL)
    with OPENAI.chat.completions.stream(
        model=MODEL, messages=ASK, tools=[openai.pydantic_function_tool(City, name="weather")]
    ) as stream:
        final = stream.get_final_completion()
    check("openai chat.stream", final.choices[0].message.tool_calls[0].function.name == "weather", final)
    parsed = OPENAI.chat.completions.parse(
        model=MODEL, messages=AS_JSON, response_format=Weather
    )
    check("openai parse", parsed.choices[0].message.parsed == IN_BERN, parsed)


def openai_responses():
    tools = [{"type": "function", **FUNCTION}]
    first = OPENAI.responses.create(model=MODEL, input=ASK, tools=tools)
    kinds = [item.type for item in first.output]
    check("openai responses", kinds == ["reasoning", "function_call"], first)
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": weather(json.loads(call.arguments))}
    last = OPENAI.responses.create(model=MODEL, input=[result], tools=tools, previous_response_id=first.id)
    check("openai responses loop", last.output_text == ANSWER, last)
    again = OPENAI.responses.create(model=MODEL, input=[*ASK, *first.output, result], tools=tools)
    check("openai responses loop without the store", again.output_text == ANSWER, again)
    with OPENAI.responses.stream(model=MODEL, input=ASK, tools=tools) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_response()
    check("openai responses.stream", [item.type for item in final.output] == kinds, final)
    check("openai responses.stream arguments", final.output[-1].arguments == call.arguments, final)
    check("openai responses.stream events", "response.reasoning_text.delta" in events, events)
    parsed = OPENAI.responses.parse(model=MODEL, input="as JSON", text_format=Weather)
    check("openai responses.parse", parsed.output_parsed == IN_BERN, parsed)


def anthropic_messages():
    request = {
        "model": MODEL,
        "max_tokens": 200,
        "tools": [{"name": "weather", "description": FUNCTION["description"], "input_schema": SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 100},
    }
    first = ANTHROPIC.messages.create(messages=ASK, **request)
    check("anthropic messages", [b.type for b in first.content] == ["thinking", "tool_use"], first)
    check("anthropic stop_reason", first.stop_reason == "tool_use", first)
    call = first.content[-1]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": weather(call.input)}
    history = [*ASK, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = ANTHROPIC.messages.create(messages=history, **request)
    check("anthropic loop", last.content[-1].text == ANSWER and last.stop_reason == "end_turn", last)
    with ANTHROPIC.messages.stream(messages=ASK, **request) as stream:
        final = stream.get_final_message()
    check("anthropic stream", final.content[-1].input == {"city": "Bern"}, final)
    check("anthropic thinking", final.content[0].thinking == "Look it up." and final.content[0].signature, final)
    as_json = {"model": MODEL, "max_tokens": 200, "messages": AS_JSON}
    parsed = ANTHROPIC.messages.parse(output_format=Weather, **as_json)
    check("anthropic structured", parsed.parsed_output == IN_BERN, parsed)
    with ANTHROPIC.messages.stream(output_format=Weather, **as_json) as stream:
        parsed = stream.get_final_message()
    check("anthropic structured stream", parsed.parsed_output == IN_BERN, parsed)


def litellm_chat():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network otherwise
    import litellm

    litellm.suppress_debug_info = True

    for protocol, base in (("openai", URL + "/v1"), ("anthropic", URL)):

        def create(base=base, **arguments):
            return litellm.completion(api_base=base, api_key="unused", num_retries=0, max_tokens=200, **arguments)

        name = "litellm " + protocol
        model = f"{protocol}/{MODEL}"
        chat(create, name, model)
        structured = {"model": model, "messages": AS_JSON, "response_format": Weather}
        text = create(**structured).choices[0].message.content
        check(name + " structured", Weather.model_validate_json(text) == IN_BERN, text)
        chunks = [chunk.choices[0].delta.content or "" for chunk in create(stream=True, **structured)]
        check(name + " structured stream", Weather.model_validate_json("".join(chunks)) == IN_BERN, chunks)


def langchain_chat(name, model):
    """Chat, a stream, a tool loop and structured output with one of LangChain's chat models."""

    @langchain_core.tools.tool("weather")
    def tool(city: str) -> str:
        """The weather of a city"""
        return weather({"city": city})

    history = [langchain_core.messages.HumanMessage(ASK[0]["content"])]
    first = model.bind_tools([tool]).invoke(history)
    check(name, [(c["name"], c["args"]) for c in first.tool_calls] == [("weather", {"city": "Bern"})], first)
    history += [first, tool.invoke(first.tool_calls[0])]
    last = model.bind_tools([tool]).invoke(history)
    check(name + " loop", last.text == ANSWER, last)
    joined = sum(model.bind_tools([tool]).stream(history[:1]), start=langchain_core.messages.AIMessageChunk(""))
    check(name + " stream", [c["args"] for c in joined.tool_calls] == [{"city": "Bern"}], joined)
    check(name + " usage", joined.usage_metadata["output_tokens"] > 0, joined)
    parsed = model.with_structured_output(Weather, method="json_schema").invoke("as JSON")
    check(name + " structured", parsed == IN_BERN, parsed)


openai_chat()
openai_responses()
anthropic_messages()
litellm_chat()
langchain_chat(
    "langchain openai",
    langchain_openai.ChatOpenAI(model=MODEL, base_url=URL + "/v1", api_key="unused", max_retries=0, stream_usage=True),
)
langchain_chat(
    "langchain responses",
    langchain_openai.ChatOpenAI(
        model=MODEL, base_url=URL + "/v1", api_key="unused", max_retries=0, use_responses_api=True
    ),
)
langchain_chat(
    "langchain anthropic",
    langchain_anthropic.ChatAnthropic(model=MODEL, base_url=URL, api_key="unused", max_retries=0, max_tokens=200),
)
print("all fine")
