"""The official OpenAI client, unmodified, against a running server: python openai_client_test.py BASE_URL API_KEY."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=0)
MODEL = client.models.list().data[0].id
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def expect(error, **arguments):
    try:
        client.chat.completions.create(**({"model": MODEL, "messages": QUESTION, "max_tokens": 4} | arguments))
    except error as e:
        return e
    raise AssertionError(f"{arguments}: {error.__name__} was expected")


chat = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
assert "Paris" in chat.choices[0].message.content, chat
assert chat.choices[0].finish_reason == "stop" and chat.usage.completion_tokens == 8, chat
assert chat.usage.total_tokens == chat.usage.prompt_tokens + 8

text, finish, usage = "", None, None
for chunk in client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, stream=True,
                                            stream_options={"include_usage": True}):
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
    usage = chunk.usage or usage
assert text == chat.choices[0].message.content and finish == "stop", (text, finish)
assert usage.completion_tokens == 8, usage

probs = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, logprobs=True, top_logprobs=3,
                                       max_tokens=5)
content = probs.choices[0].logprobs.content
assert len(content) == 5 and all(len(c.top_logprobs) == 3 for c in content), content
assert all(c.top_logprobs[0].token == c.token and c.logprob <= 0 for c in content), content

two = client.chat.completions.create(model=MODEL, messages=QUESTION, n=2, seed=5, temperature=1.5, max_tokens=12)
again = client.chat.completions.create(model=MODEL, messages=QUESTION, n=2, seed=5, temperature=1.5, max_tokens=12)
assert [c.message.content for c in two.choices] == [c.message.content for c in again.choices]
assert [c.index for c in two.choices] == [0, 1]

stop = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, stop=[" France"])
assert stop.choices[0].message.content == "The capital of", stop
assert stop.choices[0].finish_reason == "stop"

completion = client.completions.create(model=MODEL, prompt=["The capital of France is", "1, 2, 3,"], max_tokens=3,
                                       temperature=0, logprobs=1)
assert [c.index for c in completion.choices] == [0, 1] and completion.choices[0].text.startswith(" Paris"), completion
assert len(completion.choices[0].logprobs.tokens) == 3, completion
echo = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=2, temperature=0, echo=True)
assert echo.choices[0].text.startswith("The capital of France is Paris"), echo
# log-probabilities of a prompt are those of writing it
written = completion.choices[0].logprobs
scored = client.completions.create(model=MODEL, prompt="The capital of France is" + completion.choices[0].text,
                                   max_tokens=0, temperature=0, logprobs=1, echo=True)
assert scored.usage.completion_tokens == 0 and scored.choices[0].logprobs.token_logprobs[0] is None, scored
assert scored.choices[0].logprobs.tokens[-3:] == written.tokens, scored
assert all(abs(a - b) < 1e-3 for a, b in zip(scored.choices[0].logprobs.token_logprobs[-3:], written.token_logprobs,
                                             strict=True)), (scored, written)
only = client.completions.create(model=MODEL, prompt="x", max_tokens=3, temperature=1, extra_body={
    "allowed_token_ids": [260]})
assert len(set(only.choices[0].text.split())) == 1, only
other = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=3, temperature=0,
                                  extra_body={"bad_words": ["Paris"]})
assert "Paris" not in other.choices[0].text, other
streamed = "".join(c.choices[0].text for c in client.completions.create(
    model=MODEL, prompt="The capital of France is", max_tokens=3, temperature=0, stream=True))
assert streamed == completion.choices[0].text, streamed
bias = client.completions.create(model=MODEL, prompt="x", max_tokens=3, temperature=0, logit_bias={"260": 100})
assert len(set(client.completions.create(model=MODEL, prompt="x", max_tokens=3, temperature=0,
                                         logit_bias={"260": 100}).choices[0].text.split())) == 1, bias
lengths = client.completions.create(model=MODEL, prompt="Hello", max_tokens=9, temperature=0,
                                    extra_body={"ignore_eos": True, "min_tokens": 9})
assert lengths.usage.completion_tokens == 9 and lengths.choices[0].finish_reason == "length"

e = expect(openai.NotFoundError, model="no-such-model")
assert "no-such-model" in str(e), e
e = expect(openai.BadRequestError, temperature=-1)
assert e.body["param"] == "temperature" and e.body["code"] == 400, e.body
expect(openai.BadRequestError, messages=[])
expect(openai.BadRequestError, messages=[{"role": "user", "content": "word " * 20000}])
expect(openai.BadRequestError, top_p=0)
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
for name, value in {"some_unknown_field": 1, "guided_whitespace_pattern": "x", "structural_tag": {},
                    "bad_words": [" "], "allowed_token_ids": [],
                    "prompt_logprobs": 21, "truncate_prompt_tokens": 0,
                    "chat_template": "x", "documents": [{"text": "x"}]}.items():
    e = expect(openai.BadRequestError, extra_body={name: value})
    assert e.body["param"] == name and name in e.body["message"], e.body
for name, arguments in {"tools": {"tools": [TOOL]}, "functions": {"functions": [TOOL["function"]]},
                        "tool_choice.function.name": {
                            "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "nothing"}}},
                        "modalities": {"modalities": ["text", "audio"]},
                        "reasoning_effort": {"reasoning_effort": "high"},
                        "response_format": {"response_format": {"type": "xml"}}}.items():
    e = expect(openai.BadRequestError, **arguments)
    assert e.body["param"] == name, e.body
client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1, user="u", metadata={"a": "b"}, store=False,
                               service_tier="auto", tools=[TOOL], tool_choice="none", parallel_tool_calls=True)
history = [*QUESTION, {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {
    "name": "weather", "arguments": '{"city": "Paris"}'}}]}, {"role": "tool", "tool_call_id": "1", "content": "sunny"}]
client.chat.completions.create(model=MODEL, messages=history, max_tokens=1)
expect(openai.BadRequestError, extra_body={"top_logprobs": 3})
try:
    openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="wrong", max_retries=0).models.list()
    raise AssertionError("a wrong key was accepted")
except openai.AuthenticationError:
    pass
print("the OpenAI client is content")
