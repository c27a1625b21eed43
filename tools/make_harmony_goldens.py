"""Renders and parses answers in gpt-oss's harmony format with OpenAI's own package: the reference for HarmonyStage.

Writes FILE: [{text, messages: [{channel, recipient, content}]}]. A text is what a model writes after a prompt that ends
with <|start|>assistant. Texts of MESSAGES are rendered by the package; those of TEXTS are orders of the header that the
template or OpenAI's guide to the format shows. The package parses both, which gives the messages.
Needs openai-harmony 0.0.8; where its vocabulary cannot be fetched, TIKTOKEN_ENCODINGS_BASE names a directory with
o200k_base.tiktoken.
"""

import argparse
import json
import pathlib

from openai_harmony import (
    Conversation,
    HarmonyEncodingName,
    Message,
    RenderConversationConfig,
    Role,
    load_harmony_encoding,
)

PROMPT = Message.from_role_and_content(Role.USER, "How warm is it in Zürich?")
CALL = '{"city": "Zürich", "note": "\\"} <|x 🌧"}'
# each a list of (channel, recipient, content type, content)
MESSAGES = [
    [("final", None, None, "It is 21.5 °C.\n")],
    [("analysis", None, None, "Simple.\n\nNo tool."), ("final", None, None, "Hello 🙂 <b> { \"a\": 1 }")],
    [("analysis", None, None, "Look it up."), ("commentary", "functions.weather", "<|constrain|>json", CALL)],
    [("commentary", None, None, "I look."), ("commentary", "functions.time", "<|constrain|>json", "{}")],
    [("analysis", None, None, "a"), ("analysis", None, None, "b"), ("final", None, None, "c")],
    [("analysis", None, None, "a"), ("commentary", None, None, "Plan: 1."),
     ("commentary", "functions.weather", "json", "{\"city\":\n \"Bern\"}")],
    [("commentary", "functions.time", None, "{\"a\": [1, {\"b\": null}]}")],
    [("final", None, None, "")],
]
TEXTS = [
    " to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"Bern\"}<|call|>",
    "<|channel|>commentary to=functions.weather json<|message|>{\"city\": \"Bern\"}<|call|>",
    "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.time "
    "<|constrain|>json<|message|>{}<|call|>",
    "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant to=functions.time<|channel|>commentary "
    "<|constrain|>json<|message|>{}<|call|>",
]


def message(channel, recipient, content_type, content):
    result = Message.from_role_and_content(Role.ASSISTANT, content).with_channel(channel)
    if recipient:
        result = result.with_recipient(recipient)
    return result.with_content_type(content_type) if content_type else result


def main(file):
    encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
    everything = RenderConversationConfig(auto_drop_analysis=False)

    def render(messages):
        conversation = Conversation.from_messages([PROMPT, *messages])
        return encoding.render_conversation_for_training(conversation, config=everything)

    prompt = encoding.render_conversation_for_completion(Conversation.from_messages([PROMPT]), Role.ASSISTANT)
    answers = [render([message(*fields) for fields in messages])[len(prompt):] for messages in MESSAGES]
    answers += [encoding.encode(text, allowed_special="all") for text in TEXTS]
    goldens = []
    for tokens in answers:
        parsed = encoding.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT)
        messages = [
            {"channel": one.channel, "recipient": one.recipient, "content": "".join(c.text for c in one.content)}
            for one in parsed
        ]
        goldens.append({"text": encoding.decode_utf8(tokens), "messages": messages})
    pathlib.Path(file).write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(len(goldens), "answers")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file", help="the file of goldens to write")
main(parser.parse_args().file)
