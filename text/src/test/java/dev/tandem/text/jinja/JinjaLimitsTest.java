package dev.tandem.text.jinja;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.math.BigInteger;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Stops a template that does not end, or would fill the memory or the stack, with an error that names the limit. */
class JinjaLimitsTest {
    private static String render(String template, Map<String, ?> variables) {
        return new JinjaTemplate(template, ZonedDateTime::now).render(variables);
    }

    private static void assertStopped(String template, Map<String, ?> variables, String message) {
        assertThatThrownBy(() -> render(template, variables))
                .isInstanceOf(JinjaException.class)
                .hasMessageContaining(message);
    }

    @ParameterizedTest
    @CsvSource(
            delimiterString = "=>",
            quoteCharacter = '`',
            value = {
                "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %} => characters in all",
                "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %} => characters "
                        + "in all",
                "{% set r = range(999) %}{% for a in r %}{% for b in r %}{% for c in r %}{{ a < b < c }}{% endfor "
                        + "%}{% endfor %}{% endfor %} => characters in all",
                "{{ range(1000000) }} => at most 100000 items",
                "{{ range(0, 9223372036854775807, 1) }} => at most 100000 items",
                "{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807) | length }}{{ range(1, 2, "
                        + "0) }} => must not be 0",
                "{{ 'x' * 10 ** 9 }} => a text of 1000000000 characters; the limit is 16777216",
                "{{ 'xx' * 9223372036854775807 }} => the limit is 16777216",
                "{{ [1] * 10 ** 9 }} => characters in all",
                "{{ ([1] * 1000) * 9223372036854775807 }} => characters in all",
                "{{ 'a,b'.split('') }} => split with an empty separator",
                "{{ 10 ** 5000 }} => takes more than 4096 bits",
                "{{ 'x' | indent(10 ** 9, true) }} => the limit is",
                "{{ ('\\n' * 100000) | indent(100000, true, true) }} => the limit is",
                "{{ {'a': {'b': 1}} | tojson(indent=10 ** 9) }} => the limit is",
                "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% "
                        + "endfor %} => the limit is 16777216",
                "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %} => "
                        + "characters in all",
                "{% set ns = namespace(x='a') %}{% for i in range(9) %}{% set ns.x = ns.x.replace('a', "
                        + "'aaaaaaaaaaaaaaaa') %}{% endfor %} => the limit is 16777216",
                "{% set ns = namespace(x='a') %}{% for i in range(9) %}{% set ns.x = ns.x.replace('', "
                        + "'aaaaaaaaaaaaaaaa') %}{% endfor %} => the limit is 16777216",
                "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
                        + "}} => nested more than 510 deep",
                "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
                        + "| tojson }} => nested more than 510 deep",
                "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
                        + "== [ns.x] or ns.x < ns.x }} => nested more than 510 deep",
                "{% set l = [] %}{{ l.append(l) }}{{ l }} => nested more than 510 deep",
                "{% set l = [] %}{{ l.append(l) }}{{ l | tojson }} => nested more than 510 deep",
                "{% set l = [] %}{{ l.append(l) }}{{ {l: 1} }} => cannot be the key of a dict",
                "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }} => nested more than 500 deep",
                "{% macro m(x) %}{% for i in [1] %}{% if true %}{{ [[m(x)]] }}{% endif %}{% endfor %}{% endmacro "
                        + "%}{{ m(1) }} => nested more than 500 deep",
                "{% set l = range(99999) %}{{ l | unique | list }} => steps",
                "{% set x = 'x' * 9999999 %}{% for i in range(99999) %}{{ 'y' in x }}{% endfor %} => steps",
                "{% set x = 'x' * 999999 %}{% for i in range(99999) %}{% set y = x | upper %}{% endfor %} => "
                        + "characters in all",
                "{{ 'abc'[::9223372036854775807] }}{{ 'abc'[2::-9223372036854775807 - 1] }}{{ [1, "
                        + "2][::9223372036854775807] }}{{ 1 // 0 }} => division by zero",
                "{{ 1.5 % 0 }} => division by zero",
                "{{ strftime_now('%Q') }} => does not know %Q",
                "{{ '{99999999999}'.format(1) }} => format has no value",
                "{{ 'x' | tojson(no=1) }} => tojson takes",
                "{{ 'x'.join }}{{ [1].pop(9223372036854775807) }} => wrong arguments",
            })
    void isStopped(String template, String message) throws Exception {
        // a small stack, because the limits must hold on any thread
        FutureTask<Void> test = new FutureTask<>(() -> assertStopped(template, Map.of(), message), null);
        Thread thread = new Thread(null, test, "rendering", 512 << 10);
        thread.start();
        test.get();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "( | )",
                "[ | ]",
                "{'a': | }",
                "not | ``",
                "- | ``",
                "a[ | ]",
                "f( | )",
                "a if b else | ``",
                "a.f( | )"
            })
    void deepExpressionsAreRefusedBeforeTheStackOverflows(String open, String close) {
        String template = "{{ " + (open + " ").repeat(60_000) + "1" + close.repeat(60_000) + " }}";
        assertThatThrownBy(() -> new JinjaTemplate(template, ZonedDateTime::now))
                .isInstanceOf(JinjaException.class)
                .hasMessageContaining("nested more than 150 deep");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{% if true %}",
                "{% for a in b %}",
                "{% set x %}",
                "{% filter upper %}",
                "{% macro m() %}",
                "{% generation %}"
            })
    void deepBlocksAreRefusedBeforeTheStackOverflows(String piece) {
        assertThatThrownBy(() -> new JinjaTemplate(piece.repeat(10_000), ZonedDateTime::now))
                .isInstanceOf(JinjaException.class)
                .hasMessageContaining("nested more than 150 deep");
    }

    /** The deepest evaluation and the deepest value together, on a thread with the JVM's usual stack of 1 MiB. */
    @Test
    void bothDepthLimitsTogetherFitTheStack() throws Exception {
        Object list = "x";
        Object map = "x";
        for (int level = 0; level < 500; level++) {
            list = List.of(list);
            map = Map.of("k", map);
        }
        Map<String, Object> variables = Map.of("list", list, "map", map);
        String deep = "{% if n > 0 %}{{ m(n - 1) }}{% else %}{{ (list | tojson ~ list ~ map | tojson ~ map) | length }}"
                + "{{ list == list and map == map and not list < list }}{% endif %}";
        for (int depth = 60; depth < 200; depth += 10) {
            String template = "{% macro m(n) %}" + deep + "{% endmacro %}{{ m(" + depth + ") }}";
            FutureTask<String> rendering = new FutureTask<>(() -> {
                try {
                    return render(template, variables);
                } catch (JinjaException e) {
                    return e.getMessage();
                }
            });
            Thread thread = new Thread(null, rendering, "rendering", 1 << 20);
            thread.start();
            assertThat(rendering.get()).matches("[0-9]+True|.*nested more than 500 deep");
        }
    }

    @Test
    void longChainsAreStopped() {
        assertStopped("{{ 1" + " + 1".repeat(100_000) + " }}", Map.of(), "nested more than 500 deep");
        assertStopped("{{ x" + ".a".repeat(100_000) + " }}", Map.of(), "nested more than 500 deep");
        assertStopped("{{ x" + "|upper".repeat(100_000) + " }}", Map.of(), "nested more than 500 deep");
        assertThat(render("{{ 1" + " + 1".repeat(400) + " }}", Map.of())).isEqualTo("401");
    }

    @Test
    void templatesBeyondTheSizeLimitAreRefused() {
        assertThatThrownBy(() -> new JinjaTemplate("x".repeat(2 << 20), ZonedDateTime::now))
                .isInstanceOf(JinjaException.class)
                .hasMessageContaining("has 2097152 characters; the limit is 1048576");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"'\\u12'", "'\\uzzzz'", "'\\u+123'", "'\\x4'", "'\\UFFFFFFFF'", "0x", "a.'b'", "'open", "0b_"})
    void malformedLiteralsAreTemplateErrors(String literal) {
        assertStopped("{{ " + literal + " }}", Map.of(), "line 1: ");
    }

    @Test
    void integersAreBounded() {
        assertStopped("{{ " + "9".repeat(2000) + " }}", Map.of(), "has 2000 digits; the limit is 1300");
        assertStopped(
                "{% set ns = namespace(x=2) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
                Map.of(), "the limit is 4096");
    }

    /**
     * 1.8 MB of nested tools and {@code tojson(indent=4)} filled the heap: indentation grows with the square of the
     * depth.
     */
    @Test
    void indentationOfNestedToolsIsBounded() {
        List<Object> tools = new ArrayList<>();
        for (int i = 0; i < 400; i++) {
            Object nested = "x";
            for (int level = 0; level < 480; level++) {
                nested = level % 2 == 0 ? List.of(nested, 1) : Map.of("p", nested);
            }
            tools.add(nested);
        }
        assertStopped("{{ tools | tojson(indent=4) }}", Map.of("tools", tools), "the limit is 16777216");
        assertStopped(
                "{% for t in tools %}{% for u in range(99) %}{% set x = t | tojson(indent=4) %}{% endfor %}{% "
                        + "endfor %}",
                Map.of("tools", tools), "characters in all");
    }

    @Test
    void requestValuesAreBounded() {
        Object deep = "x";
        for (int level = 0; level < 600; level++) {
            deep = List.of(deep);
        }
        assertStopped("x", Map.of("messages", deep), "nested more than 510 deep");
    }

    @Test
    void largeIntegersOfTheRequestAreKeptExactly() {
        Map<String, Object> variables = new HashMap<>();
        variables.put("n", new BigInteger("18446744073709551615"));
        assertThat(render("{{ n | tojson }} {{ n + 1 }}", variables))
                .isEqualTo("18446744073709551615 18446744073709551616");
    }

    /** Conversations far above real use still work: 20,000 messages, and one message of 600,000 characters. */
    @Test
    void longConversationsAreRendered() {
        List<Map<String, String>> messages = new ArrayList<>();
        for (int i = 0; i < 20_000; i++) {
            messages.add(Map.of("role", i % 2 == 0 ? "user" : "assistant", "content", " message " + i));
        }
        messages.add(Map.of("role", "user", "content", "x".repeat(600_000)));
        String template =
                "{%- for m in messages %}{%- if m.role == 'user' and m.content is string and loop.index0 % 2 == 0 %}"
                        + "{{ '<|im_start|>' + m.role + '\\n' + m.content | trim + '<|im_end|>\\n' }}{%- else %}"
                        + "{{ '<|im_start|>' ~ m['role'] ~ '\\n' ~ m.content[1:] ~ '<|im_end|>' }}{%- endif %}{%- "
                        + "endfor %}";
        assertThat(render(template, Map.of("messages", messages)).length()).isGreaterThan(1_000_000);
    }
}
