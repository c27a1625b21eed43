"""Checks a running server with the official packages openai and anthropic; opt-in, as they come from the network.

    pip install openai anthropic
    python3 sdk_client_test.py http://127.0.0.1:8000 [KEY]
"""

import sys

import anthropic
import openai

KEY = sys.argv[2] if len(sys.argv) > 2 else "unused"
OPENAI = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=KEY, max_retries=0)
ANTHROPIC = anthropic.Anthropic(base_url=sys.argv[1], api_key=KEY, max_retries=0)
HELLO = [{"role": "user", "content": "Say hello."}]


def check(name, holds, seen):
    if not holds:
        sys.exit(f"{name} failed: {seen}")
    print(f"{name}: fine")


def fails(error, call):
    try:
        call()
    except error as e:
        return e
    sys.exit(f"no {error.__name__}")


def models():
    name = OPENAI.models.list().data[0].id
    check("models.retrieve", OPENAI.models.retrieve(name).id == name, name)
    fails(openai.NotFoundError, lambda: OPENAI.models.retrieve("no/such model"))
    return name


def chat(model):
    answer = OPENAI.chat.completions.create(model=model, messages=HELLO, max_completion_tokens=8)
    check("chat", answer.usage.completion_tokens <= 8 and answer._request_id, answer)
    late = fails(
        openai.APIStatusError,
        lambda: OPENAI.chat.completions.create(
            model=model, messages=HELLO, extra_body={"timeout": 1e-6, "ignore_eos": True}
        ),
    )
    check("chat timeout", late.status_code == 408 and late.param == "timeout", late)


def responses(model):
    first = OPENAI.responses.create(model=model, input="Say hello.", max_output_tokens=8)
    check("responses.create", first.output_text and first.usage.output_tokens <= 8, first)
    check("responses.retrieve", OPENAI.responses.retrieve(first.id) == first, first)
    with OPENAI.responses.stream(
        model=model, input="And again.", previous_response_id=first.id, max_output_tokens=8
    ) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        last = stream.get_final_response()
    check("responses.stream", text == last.output_text, (text, last))
    check("responses continue", last.usage.input_tokens > first.usage.input_tokens, last)
    background = OPENAI.responses.create(
        model=model, input="Count.", background=True, extra_body={"max_output_tokens": 400}
    )
    check("responses.background", background.status == "queued", background)
    try:
        cancelled = OPENAI.responses.cancel(background.id)
        check("responses.cancel", cancelled.status == "cancelled", cancelled)
    except openai.BadRequestError as e:
        check("responses.cancel of an ended one", "can be cancelled" in str(e), e)
    lost = fails(
        openai.NotFoundError,
        lambda: OPENAI.responses.create(model=model, input="x", previous_response_id="resp_none"),
    )
    check("responses lost", "send the whole conversation" in str(lost), lost)


def messages(model):
    request = {"model": model, "max_tokens": 8, "messages": HELLO, "system": "Be brief."}
    answer = ANTHROPIC.messages.create(**request)
    check("messages.create", answer.content[0].text and answer.usage.output_tokens <= 8, answer)
    with ANTHROPIC.messages.stream(**request) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    check("messages.stream", text == last.content[0].text and last.stop_reason, (text, last))
    count = ANTHROPIC.messages.count_tokens(model=model, messages=HELLO, system="Be brief.")
    check("messages.count_tokens", count.input_tokens == last.usage.input_tokens, count)
    fails(anthropic.NotFoundError, lambda: ANTHROPIC.messages.create(**{**request, "model": "other"}))


MODEL = models()
chat(MODEL)
responses(MODEL)
messages(MODEL)
print("all fine")
