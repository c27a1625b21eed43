package dev.tandem.text.jinja;

import dev.tandem.text.jinja.Values.Callable;
import dev.tandem.text.jinja.Values.Undefined;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Renders one template once. A runaway template is stopped by the size of its output and the depth of its macros.
 *
 * <p>Owned by: the thread that renders.
 */
final class Interpreter {
    private static final int MOST_CHARACTERS = 64 << 20;
    private static final int MOST_DEPTH = 200;
    private static final long MOST_RANGE = 1_000_000;

    private enum Flow {
        NEXT,
        BREAK,
        CONTINUE
    }

    private StringBuilder out = new StringBuilder();
    private Scope scope;
    private int depth;

    private static final class Scope {
        final Optional<Scope> outer;
        final Map<String, Object> names = new HashMap<>();

        Scope(Optional<Scope> outer) {
            this.outer = outer;
        }

        Object find(String name) {
            Object value = names.get(name);
            return value != null ? value : outer.map(o -> o.find(name)).orElse(null);
        }
    }

    Interpreter(Map<String, ?> variables, Supplier<ZonedDateTime> now) {
        Scope globals = new Scope(Optional.empty());
        globals.names.put("range", (Callable) (args, named) -> range(args));
        globals.names.put("namespace", (Callable) (args, named) -> {
            Values.Namespace namespace = new Values.Namespace();
            namespace.putAll(named);
            return namespace;
        });
        globals.names.put("dict", (Callable) (args, named) -> new LinkedHashMap<>(named));
        globals.names.put("raise_exception", (Callable) (args, named) -> {
            throw new JinjaException(args.isEmpty() ? "" : Values.text(args.getFirst()), true);
        });
        globals.names.put("strftime_now", (Callable) (args, named) -> time(now.get(), Values.text(args.getFirst())));
        variables.forEach((name, value) -> globals.names.put(name, Values.of(value)));
        scope = new Scope(Optional.of(globals));
    }

    String render(List<Node> nodes) {
        run(nodes);
        return out.toString();
    }

    private Flow run(List<Node> nodes) {
        for (Node node : nodes) {
            Flow flow = run(node);
            if (flow != Flow.NEXT) {
                return flow;
            }
        }
        return Flow.NEXT;
    }

    private Flow run(Node node) {
        switch (node) {
            case Node.Text text -> write(text.text());
            case Node.Output output -> write(Values.text(evaluate(output.expression())));
            case Node.If branches -> {
                for (Node.If.Branch branch : branches.branches()) {
                    if (Values.truthy(evaluate(branch.condition()))) {
                        return run(branch.body());
                    }
                }
                return run(branches.otherwise());
            }
            case Node.For loop -> runLoop(loop);
            case Node.Set set -> assign(set.targets(), evaluate(set.value()));
            case Node.SetAttribute set -> {
                if (!(lookup(set.object()) instanceof Values.Namespace namespace)) {
                    throw new JinjaException("only a namespace's attributes can be set, and '" + set.object() + "' is none");
                }
                namespace.put(set.attribute(), evaluate(set.value()));
            }
            case Node.SetBlock set -> scope.names.put(set.target(), capture(set.body()));
            case Node.Macro macro -> scope.names.put(macro.name(), macro(macro, scope));
            case Node.FilterBlock filter -> write(Values.text(Filters.apply(
                    filter.name(), capture(filter.body()), positional(filter.arguments()), named(filter.arguments()))));
            case Node.Break b -> {
                return Flow.BREAK;
            }
            case Node.Continue c -> {
                return Flow.CONTINUE;
            }
        }
        return Flow.NEXT;
    }

    private void write(String text) {
        if (out.length() + text.length() > MOST_CHARACTERS) {
            throw new JinjaException("the template produces more than " + MOST_CHARACTERS + " characters");
        }
        out.append(text);
    }

    private String capture(List<Node> body) {
        StringBuilder outer = out;
        out = new StringBuilder();
        try {
            run(body);
            return out.toString();
        } finally {
            out = outer;
        }
    }

    private void assign(List<String> targets, Object value) {
        if (targets.size() == 1) {
            scope.names.put(targets.getFirst(), value);
            return;
        }
        List<Object> parts = Values.iterate(value);
        if (parts.size() != targets.size()) {
            throw new JinjaException(parts.size() + " values cannot be unpacked into " + targets.size() + " names");
        }
        for (int i = 0; i < parts.size(); i++) {
            scope.names.put(targets.get(i), parts.get(i));
        }
    }

    private void runLoop(Node.For loop) {
        List<Object> items = Values.iterate(evaluate(loop.items()));
        Scope outer = scope;
        scope = new Scope(Optional.of(outer));
        try {
            if (loop.condition().isPresent()) {
                items.removeIf(item -> {
                    assign(loop.targets(), item);
                    return !Values.truthy(evaluate(loop.condition().get()));
                });
            }
            for (int i = 0; i < items.size(); i++) {
                scope = new Scope(Optional.of(outer));
                scope.names.put("loop", loopVariables(items, i));
                assign(loop.targets(), items.get(i));
                if (run(loop.body()) == Flow.BREAK) {
                    break;
                }
            }
        } finally {
            scope = outer;
        }
        if (items.isEmpty()) {
            run(loop.otherwise());
        }
    }

    private static Map<String, Object> loopVariables(List<Object> items, int i) {
        Map<String, Object> loop = new HashMap<>();
        loop.put("index", i + 1L);
        loop.put("index0", (long) i);
        loop.put("revindex", (long) items.size() - i);
        loop.put("revindex0", items.size() - i - 1L);
        loop.put("first", i == 0);
        loop.put("last", i == items.size() - 1);
        loop.put("length", (long) items.size());
        loop.put("previtem", i > 0 ? items.get(i - 1) : new Undefined("previtem"));
        loop.put("nextitem", i + 1 < items.size() ? items.get(i + 1) : new Undefined("nextitem"));
        loop.put("cycle", (Callable) (args, named) -> args.get(i % args.size()));
        return loop;
    }

    private Callable macro(Node.Macro macro, Scope defined) {
        return (args, named) -> {
            if (++depth > MOST_DEPTH) {
                throw new JinjaException("macros are nested more than " + MOST_DEPTH + " deep");
            }
            Scope caller = scope;
            scope = new Scope(Optional.of(defined));
            try {
                int i = 0;
                for (Map.Entry<String, Optional<Expression>> parameter : macro.parameters().entrySet()) {
                    String name = parameter.getKey();
                    Object value = i < args.size()
                            ? args.get(i)
                            : named.containsKey(name)
                                    ? named.get(name)
                                    : parameter.getValue().map(this::evaluate).orElse(new Undefined(name));
                    scope.names.put(name, value);
                    i++;
                }
                return capture(macro.body());
            } finally {
                scope = caller;
                depth--;
            }
        };
    }

    private Object lookup(String name) {
        Object value = scope.find(name);
        return value == null ? new Undefined(name) : value;
    }

    private Object evaluate(Expression expression) {
        return switch (expression) {
            case Expression.Literal literal -> literal.value();
            case Expression.Name name -> lookup(name.name());
            case Expression.ListOf list -> {
                List<Object> items = list.tuple() ? new Values.Tuple() : new ArrayList<>();
                list.items().forEach(item -> items.add(evaluate(item)));
                yield items;
            }
            case Expression.DictOf dict -> {
                Map<Object, Object> map = new LinkedHashMap<>();
                dict.entries().forEach(e -> map.put(evaluate(e.getKey()), evaluate(e.getValue())));
                yield map;
            }
            case Expression.Attribute attribute -> attribute(evaluate(attribute.target()), attribute.name());
            case Expression.Item item -> item(evaluate(item.target()), evaluate(item.index()));
            case Expression.Slice slice -> slice(slice);
            case Expression.Call call -> call(call);
            case Expression.Filter filter -> Filters.apply(
                    filter.name(), evaluate(filter.target()), positional(filter.arguments()), named(filter.arguments()));
            case Expression.Test test -> test.negated()
                    != Tests.holds(test.name(), evaluate(test.target()), positional(test.arguments()));
            case Expression.Unary unary -> unary(unary);
            case Expression.Binary binary -> binary(binary);
            case Expression.Conditional conditional -> Values.truthy(evaluate(conditional.condition()))
                    ? evaluate(conditional.then())
                    : conditional.otherwise().map(this::evaluate).orElse(new Undefined("else"));
        };
    }

    private List<Object> positional(Expression.Arguments arguments) {
        List<Object> values = new ArrayList<>();
        arguments.positional().forEach(argument -> values.add(evaluate(argument)));
        return values;
    }

    private Map<String, Object> named(Expression.Arguments arguments) {
        Map<String, Object> values = new LinkedHashMap<>();
        arguments.named().forEach((name, argument) -> values.put(name, evaluate(argument)));
        return values;
    }

    private static Object attribute(Object target, String name) {
        if (target instanceof Undefined undefined) {
            throw new JinjaException("'" + undefined.name() + "' is undefined and has no '" + name + "'");
        }
        Optional<Callable> method = Methods.find(target, name);
        if (method.isPresent() && !(target instanceof Values.Namespace)) {
            return method.get();
        }
        Object value = target instanceof Map<?, ?> map ? map.get(name) : null;
        return value == null ? new Undefined(name) : value;
    }

    private static Object item(Object target, Object index) {
        return switch (target) {
            case Undefined undefined ->
                throw new JinjaException("'" + undefined.name() + "' is undefined and has no items");
            case Map<?, ?> map -> {
                Object value = map.get(index);
                yield value == null ? new Undefined(Values.text(index)) : value;
            }
            case List<?> list when index instanceof Long i -> {
                int at = (int) (i < 0 ? i + list.size() : i);
                yield at >= 0 && at < list.size() ? list.get(at) : new Undefined(i.toString());
            }
            case String s when index instanceof Long i -> item(Values.iterate(s), index);
            default -> index instanceof String name ? attribute(target, name) : new Undefined(Values.text(index));
        };
    }

    private Object slice(Expression.Slice slice) {
        Object target = evaluate(slice.target());
        List<Object> items = Values.iterate(target);
        long step = slice.step().map(this::evaluate).map(Values::integer).orElse(1L);
        int size = items.size();
        if (step == 0) {
            throw new JinjaException("a slice's step is 0");
        }
        long from = bound(slice.from(), step > 0 ? 0 : size - 1, size, step);
        long to = bound(slice.to(), step > 0 ? size : -1, size, step);
        List<Object> part = new ArrayList<>();
        for (long i = from; step > 0 ? i < to : i > to; i += step) {
            part.add(items.get((int) i));
        }
        return target instanceof String ? String.join("", part.stream().map(Values::text).toList()) : part;
    }

    private long bound(Optional<Expression> bound, long otherwise, int size, long step) {
        if (bound.isEmpty() || evaluate(bound.get()) == Values.NONE) {
            return otherwise;
        }
        long at = Values.integer(evaluate(bound.get()));
        at = at < 0 ? at + size : at;
        return step > 0 ? Math.clamp(at, 0, size) : Math.clamp(at, -1, size - 1);
    }

    private Object call(Expression.Call call) {
        Object target = evaluate(call.target());
        if (!(target instanceof Callable callable)) {
            String name = switch (call.target()) {
                case Expression.Name n -> n.name();
                case Expression.Attribute a -> a.name();
                default -> Values.typeName(target);
            };
            throw new JinjaException("'" + name + "' cannot be called");
        }
        return callable.call(positional(call.arguments()), named(call.arguments()));
    }

    private Object unary(Expression.Unary unary) {
        Object operand = evaluate(unary.operand());
        if (unary.operator().equals("not")) {
            return !Values.truthy(operand);
        }
        return operand instanceof Long l ? (Object) (-l) : (Object) (-Values.number(operand));
    }

    private Object binary(Expression.Binary binary) {
        Object left = evaluate(binary.left());
        if (binary.operator().equals("and")) {
            return Values.truthy(left) ? evaluate(binary.right()) : left;
        }
        if (binary.operator().equals("or")) {
            return Values.truthy(left) ? left : evaluate(binary.right());
        }
        Object right = evaluate(binary.right());
        return switch (binary.operator()) {
            case "==" -> Values.equal(left, right);
            case "!=" -> !Values.equal(left, right);
            case "<" -> Values.compare(left, right) < 0;
            case ">" -> Values.compare(left, right) > 0;
            case "<=" -> Values.compare(left, right) <= 0;
            case ">=" -> Values.compare(left, right) >= 0;
            case "in" -> Values.contains(right, left);
            case "~" -> Values.text(left) + Values.text(right);
            default -> arithmetic(binary.operator(), left, right);
        };
    }

    private static Object arithmetic(String operator, Object left, Object right) {
        if (operator.equals("+") && left instanceof String a && right instanceof String b) {
            return a + b;
        }
        if (operator.equals("+") && left instanceof List<?> a && right instanceof List<?> b) {
            List<Object> joined = new ArrayList<>(a);
            joined.addAll(b);
            return joined;
        }
        if (operator.equals("*") && left instanceof String s && right instanceof Long times) {
            return s.repeat((int) Math.max(0, times));
        }
        if (!Values.isNumber(left) || !Values.isNumber(right)) {
            throw new JinjaException("'" + operator + "' does not go with " + Values.typeName(left) + " and "
                    + Values.typeName(right));
        }
        boolean integers = !(left instanceof Double) && !(right instanceof Double);
        if ((operator.equals("//") || operator.equals("%") || operator.equals("/")) && Values.number(right) == 0) {
            throw new JinjaException("division by zero");
        }
        if (integers && !operator.equals("/")) {
            long a = Values.integer(left);
            long b = Values.integer(right);
            return switch (operator) {
                case "+" -> a + b;
                case "-" -> a - b;
                case "*" -> a * b;
                case "//" -> Math.floorDiv(a, b);
                case "%" -> Math.floorMod(a, b);
                default -> (long) Math.pow(a, b);
            };
        }
        double a = Values.number(left);
        double b = Values.number(right);
        return switch (operator) {
            case "+" -> a + b;
            case "-" -> a - b;
            case "*" -> a * b;
            case "/" -> a / b;
            case "//" -> Math.floor(a / b);
            case "%" -> a - b * Math.floor(a / b);
            default -> Math.pow(a, b);
        };
    }

    private static List<Object> range(List<Object> args) {
        long from = args.size() > 1 ? Values.integer(args.get(0)) : 0;
        long to = Values.integer(args.get(args.size() > 1 ? 1 : 0));
        long step = args.size() > 2 ? Values.integer(args.get(2)) : 1;
        if (step == 0 || Math.abs((to - from) / step) > MOST_RANGE) {
            throw new JinjaException("range(" + from + ", " + to + ", " + step + ") is not allowed");
        }
        List<Object> values = new ArrayList<>();
        for (long i = from; step > 0 ? i < to : i > to; i += step) {
            values.add(i);
        }
        return values;
    }

    /** The directives of strftime that templates use. */
    private static String time(ZonedDateTime now, String format) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < format.length(); i++) {
            char c = format.charAt(i);
            if (c != '%' || i + 1 == format.length()) {
                text.append(c);
                continue;
            }
            String pattern = switch (format.charAt(++i)) {
                case 'd' -> "dd";
                case 'm' -> "MM";
                case 'Y' -> "yyyy";
                case 'y' -> "yy";
                case 'b' -> "MMM";
                case 'B' -> "MMMM";
                case 'a' -> "EEE";
                case 'A' -> "EEEE";
                case 'H' -> "HH";
                case 'I' -> "hh";
                case 'M' -> "mm";
                case 'S' -> "ss";
                case 'p' -> "a";
                case 'j' -> "DDD";
                default -> throw new JinjaException("strftime_now does not know %" + format.charAt(i));
            };
            text.append(now.format(DateTimeFormatter.ofPattern(pattern, Locale.ENGLISH)));
        }
        return text.toString();
    }
}
