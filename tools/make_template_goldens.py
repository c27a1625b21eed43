"""Renders chat templates with Python's jinja2, set up as in transformers: the reference for Tandem's own Jinja.

Reads DIRECTORY/*.jinja and writes DIRECTORY/goldens.json: [{template, variables, output | error}]. The templates' clock
is fixed at 2026-01-02 03:04:05. Needs jinja2.
"""

import argparse
import datetime
import json
import pathlib

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather at a place.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "A city's name"},
                                         "unit": {"type": "string", "enum": ["°C", "°F"]}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "add", "description": "Adds \"numbers\".", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 1.5}}}}},
]
CALL = [{"id": "abcdef123", "type": "function",
         "function": {"name": "get_weather", "arguments": {"city": "Zürich", "unit": "°C"}}}]
BASE = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None, "add_generation_prompt": True}
CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "What is 2 + 2?"}]},
    {"messages": [{"role": "system", "content": " You are terse. "}, {"role": "user", "content": "Hi\n"}]},
    {"messages": [{"role": "user", "content": "Grüße, 世界 🙂 <|im_end|>"},
                  {"role": "assistant", "content": " Hello! "},
                  {"role": "user", "content": "And again?"}], "add_generation_prompt": False},
    {"messages": [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "Weather in Zürich?"},
                  {"role": "assistant", "content": "", "tool_calls": CALL},
                  {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "{\"temp\": 21.5}"},
                  {"role": "assistant", "content": "It is 21.5 °C."}, {"role": "user", "content": "Thanks"}],
     "tools": TOOLS},
    {"messages": [{"role": "user", "content": "Weather in Zürich?"}], "tools": TOOLS},
    {"messages": [{"role": "user", "content": "Think."},
                  {"role": "assistant", "content": "<think>\nhm\n</think>\n\nDone."},
                  {"role": "user", "content": "More?"},
                  {"role": "assistant", "content": "<think>a</think>b"}], "add_generation_prompt": False,
     "enable_thinking": True},
    {"messages": [{"role": "user", "content": "Quick."}], "enable_thinking": False},
    {"messages": [{"role": "assistant", "content": "I begin."}, {"role": "assistant", "content": "Again."}]},
    {"messages": [{"role": "user", "content": "Weather in Zürich?"},
                  {"role": "assistant", "content": "", "thinking": "Look it up.", "tool_calls": CALL},
                  {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "21.5"}],
     "tools": TOOLS, "reasoning_effort": "high"},
]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body, lineno=line)


def environment():
    def fail(message):
        raise TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = fail
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


def main(folder):
    goldens = []
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        for conversation in CONVERSATIONS:
            variables = BASE | conversation
            entry = {"template": path.name, "variables": variables}
            try:
                entry["output"] = environment().from_string(path.read_bytes().decode()).render(**variables)
            except Exception as e:
                entry["error"] = str(e)
            goldens.append(entry)
    (pathlib.Path(folder) / "goldens.json").write_text(json.dumps(goldens, ensure_ascii=False, indent=1))
    print(len(goldens), "renderings,", sum("error" in g for g in goldens), "errors")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("directory", help="the directory with *.jinja")
main(parser.parse_args().directory)
