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
import org.jspecify.annotations.Nullable;

/**
 * Renders one template once. A template that does not end, or would fill the memory, is stopped by the
 * {@link RenderBudget}.
 *
 * <p>Owned by: the thread that renders.
 */
final class Interpreter {
    private enum Flow {
        NEXT,
        BREAK,
        CONTINUE
    }

    private final RenderBudget budget;
    private TextBuilder out;
    private Scope scope;

    private static final class Scope {
        final Optional<Scope> outer;
        final Map<String, Object> names = new HashMap<>();

        Scope(Optional<Scope> outer) {
            this.outer = outer;
        }

        @Nullable
        Object find(String name) {
            Object value = names.get(name);
            return value != null ? value : outer.map(o -> o.find(name)).orElse(null);
        }
    }

    Interpreter(RenderBudget budget, Map<String, ?> variables, Supplier<ZonedDateTime> now) {
        this.budget = budget;
        this.out = new TextBuilder(budget);
        Scope globals = new Scope(Optional.empty());
        globals.names.put("range", (Callable) (args, named) -> range(budget, args));
        globals.names.put("namespace", (Callable) (args, named) -> {
            Values.Namespace namespace = new Values.Namespace();
            namespace.putAll(named);
            return namespace;
        });
        globals.names.put("dict", (Callable) (args, named) -> new LinkedHashMap<>(named));
        globals.names.put("raise_exception", (Callable) (args, named) -> {
            throw new JinjaException(args.isEmpty() ? "" : Values.text(budget, args.getFirst()), true);
        });
        globals.names.put(
                "strftime_now", (Callable) (args, named) -> time(budget, now.get(), Values.string(args.getFirst())));
        variables.forEach((name, value) -> globals.names.put(name, Values.of(budget, value)));
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
        budget.enter();
        try {
            return runEntered(node);
        } finally {
            budget.leave();
        }
    }

    private Flow runEntered(Node node) {
        switch (node) {
            case Node.Text text -> out.append(text.text());
            case Node.Output output -> out.append(Values.text(budget, evaluate(output.expression())));
            case Node.If branches -> {
                for (Node.If.Branch branch : branches.branches()) {
                    if (Values.truthy(evaluate(branch.condition()))) {
                        return run(branch.body());
                    }
                }
                return run(branches.elseBody());
            }
            case Node.For loop -> runLoop(loop);
            case Node.Set set -> assign(set.targets(), evaluate(set.value()));
            case Node.SetAttribute set -> {
                if (!(lookup(set.object()) instanceof Values.Namespace namespace)) {
                    throw new JinjaException(
                            "only attributes of a namespace can be set, and '" + set.object() + "' is not a namespace");
                }
                namespace.put(set.attribute(), evaluate(set.value()));
            }
            case Node.SetBlock set -> scope.names.put(set.target(), capture(set.body()));
            case Node.Macro macro -> scope.names.put(macro.name(), macro(macro, scope));
            case Node.FilterBlock filter ->
                out.append(Values.text(
                        budget,
                        Filters.apply(
                                budget,
                                filter.name(),
                                capture(filter.body()),
                                positional(filter.arguments()),
                                named(filter.arguments()))));
            case Node.Break b -> {
                return Flow.BREAK;
            }
            case Node.Continue c -> {
                return Flow.CONTINUE;
            }
        }
        return Flow.NEXT;
    }

    private String capture(List<Node> body) {
        TextBuilder outer = out;
        out = new TextBuilder(budget);
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
        List<Object> parts = Values.iterate(budget, value);
        if (parts.size() != targets.size()) {
            throw new JinjaException(parts.size() + " values cannot be unpacked into " + targets.size() + " names");
        }
        for (int i = 0; i < parts.size(); i++) {
            scope.names.put(targets.get(i), parts.get(i));
        }
    }

    private void runLoop(Node.For loop) {
        Object value = evaluate(loop.items());
        Scope outer = scope;
        scope = new Scope(Optional.of(outer));
        List<Object> items;
        try {
            // the body may change the list that it iterates over
            items = loop.condition().isPresent() ? filtered(loop, value) : Values.copy(budget, value);
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
            run(loop.elseBody());
        }
    }

    private List<Object> filtered(Node.For loop, Object value) {
        List<Object> kept = new ArrayList<>();
        for (Object item : Values.copy(budget, value)) {
            assign(loop.targets(), item);
            if (Values.truthy(evaluate(loop.condition().get()))) {
                kept.add(item);
            }
        }
        return kept;
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
        loop.put("cycle", (Callable) (args, named) -> {
            if (args.isEmpty()) {
                throw new JinjaException("loop.cycle needs at least one argument");
            }
            return args.get(i % args.size());
        });
        return loop;
    }

    private Callable macro(Node.Macro macro, Scope defined) {
        return (args, named) -> {
            Scope caller = scope;
            scope = new Scope(Optional.of(defined));
            try {
                int i = 0;
                for (Map.Entry<String, Optional<Expression>> parameter :
                        macro.parameters().entrySet()) {
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
            }
        };
    }

    private Object lookup(String name) {
        Object value = scope.find(name);
        return value == null ? new Undefined(name) : value;
    }

    private Object evaluate(Expression expression) {
        budget.enter();
        try {
            return evaluateEntered(expression);
        } finally {
            budget.leave();
        }
    }

    private Object evaluateEntered(Expression expression) {
        return switch (expression) {
            case Expression.Literal literal -> literal.value();
            case Expression.Name name -> lookup(name.name());
            case Expression.ListOf list -> {
                budget.elements(list.items().size());
                List<Object> items = list.tuple() ? new Values.Tuple() : new ArrayList<>();
                for (Expression item : list.items()) {
                    items.add(evaluate(item));
                }
                yield items;
            }
            case Expression.DictOf dict -> {
                budget.elements(dict.entries().size());
                Map<Object, Object> map = new LinkedHashMap<>();
                for (Map.Entry<Expression, Expression> entry : dict.entries()) {
                    map.put(Values.key(evaluate(entry.getKey())), evaluate(entry.getValue()));
                }
                yield map;
            }
            case Expression.Attribute attribute -> attribute(budget, evaluate(attribute.target()), attribute.name());
            case Expression.Item item -> item(budget, evaluate(item.target()), evaluate(item.index()));
            case Expression.Slice slice -> slice(slice);
            case Expression.Call call -> call(call);
            case Expression.Filter filter ->
                Filters.apply(
                        budget,
                        filter.name(),
                        evaluate(filter.target()),
                        positional(filter.arguments()),
                        named(filter.arguments()));
            case Expression.Test test ->
                test.negated()
                        != Tests.holds(budget, test.name(), evaluate(test.target()), positional(test.arguments()));
            case Expression.Unary unary -> unary(unary);
            case Expression.Binary binary -> binary(binary);
            case Expression.Comparison comparison -> compare(comparison);
            case Expression.Conditional conditional ->
                Values.truthy(evaluate(conditional.condition()))
                        ? evaluate(conditional.then())
                        : conditional.elseValue().map(this::evaluate).orElse(new Undefined("else"));
        };
    }

    private List<Object> positional(Expression.Arguments arguments) {
        List<Object> values = new ArrayList<>();
        for (Expression argument : arguments.positional()) {
            values.add(evaluate(argument));
        }
        return values;
    }

    private Map<String, Object> named(Expression.Arguments arguments) {
        Map<String, Object> values = new LinkedHashMap<>();
        for (Map.Entry<String, Expression> argument : arguments.named().entrySet()) {
            values.put(argument.getKey(), evaluate(argument.getValue()));
        }
        return values;
    }

    private static Object attribute(RenderBudget budget, Object target, String name) {
        if (target instanceof Undefined undefined) {
            throw new JinjaException("'" + undefined.name() + "' is undefined and has no '" + name + "'");
        }
        Optional<Callable> method = Methods.find(budget, target, name);
        if (method.isPresent() && !(target instanceof Values.Namespace)) {
            return method.get();
        }
        Object value = target instanceof Map<?, ?> map ? map.get(name) : null;
        return value == null ? new Undefined(name) : value;
    }

    static Object item(RenderBudget budget, Object target, Object index) {
        return switch (target) {
            case Undefined undefined ->
                throw new JinjaException("'" + undefined.name() + "' is undefined and has no items");
            case Map<?, ?> map -> {
                Object value = map.get(Values.key(index));
                yield value == null ? new Undefined(Values.text(budget, index)) : value;
            }
            case List<?> list
            when index instanceof Long i -> {
                long at = i < 0 ? i + list.size() : i;
                yield at >= 0 && at < list.size() ? list.get((int) at) : new Undefined(i.toString());
            }
            case String s when index instanceof Long i -> character(budget, s, i);
            default ->
                index instanceof String name
                        ? attribute(budget, target, name)
                        : new Undefined(Values.text(budget, index));
        };
    }

    private static Object character(RenderBudget budget, String s, long index) {
        budget.read(s.length());
        int count = s.codePointCount(0, s.length());
        long at = index < 0 ? index + count : index;
        return at >= 0 && at < count
                ? Character.toString(s.codePointAt(s.offsetByCodePoints(0, (int) at)))
                : new Undefined(Long.toString(index));
    }

    private Object slice(Expression.Slice slice) {
        Object target = evaluate(slice.target());
        long step = slice.step()
                .map(this::evaluate)
                .filter(s -> s != Values.NONE)
                .map(Numbers::integer)
                .orElse(1L);
        if (step == 0) {
            throw new JinjaException("a slice's step is 0");
        }
        boolean text = target instanceof String;
        List<Object> items = text ? List.of() : Values.iterate(budget, target);
        int size = target instanceof String s ? s.codePointCount(0, s.length()) : items.size();
        long from = bound(slice.from(), step > 0 ? 0 : size - 1, size, step);
        long to = bound(slice.to(), step > 0 ? size : -1, size, step);
        long distance = step > 0 ? to - from : from - to;
        // Long.MIN_VALUE has no absolute value; as a step it yields at most one item
        long stride = step == Long.MIN_VALUE ? Long.MAX_VALUE : Math.abs(step);
        long count = distance <= 0 ? 0 : 1 + (distance - 1) / stride;
        if (target instanceof String s) {
            return slice(s, (int) from, count, step);
        }
        budget.elements(count);
        List<Object> part = target instanceof Values.Tuple ? new Values.Tuple() : new ArrayList<>();
        for (long i = 0; i < count; i++) {
            part.add(items.get((int) (from + i * step)));
        }
        return part;
    }

    private String slice(String s, int from, long count, long step) {
        budget.read(s.length());
        if (count == 0) {
            return "";
        }
        if (step == 1) {
            int begin = s.offsetByCodePoints(0, from);
            return budget.made(s.substring(begin, s.offsetByCodePoints(begin, (int) count)));
        }
        TextBuilder part = new TextBuilder(budget);
        int[] characters = s.codePoints().toArray();
        for (long i = 0; i < count; i++) {
            part.appendCodePoint(characters[(int) (from + i * step)]);
        }
        return part.toString();
    }

    private long bound(Optional<Expression> bound, long otherwise, int size, long step) {
        Object value = bound.map(this::evaluate).orElse(Values.NONE);
        if (value == Values.NONE) {
            return otherwise;
        }
        long at = Numbers.integer(value);
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
        return unary.operator().equals("not") ? (Object) !Values.truthy(operand) : Numbers.negate(operand);
    }

    /** Evaluates each operand of {@code a < b < c} at most once, and stops at the first comparison that fails. */
    private Object compare(Expression.Comparison comparison) {
        Object left = evaluate(comparison.first());
        for (Expression.Comparison.Part part : comparison.parts()) {
            Object right = evaluate(part.operand());
            if (!holds(part.operator(), left, right)) {
                return false;
            }
            left = right;
        }
        return true;
    }

    private boolean holds(String operator, Object left, Object right) {
        return switch (operator) {
            case "==" -> Values.equal(budget, left, right);
            case "!=" -> !Values.equal(budget, left, right);
            case "<" -> Values.compare(budget, left, right) < 0;
            case ">" -> Values.compare(budget, left, right) > 0;
            case "<=" -> Values.compare(budget, left, right) <= 0;
            case ">=" -> Values.compare(budget, left, right) >= 0;
            case "in" -> Values.contains(budget, right, left);
            case "not in" -> !Values.contains(budget, right, left);
            default -> throw new JinjaException("the operator '" + operator + "' is not known");
        };
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
        return binary.operator().equals("~")
                ? joined(Values.text(budget, left), Values.text(budget, right))
                : arithmetic(binary.operator(), left, right);
    }

    /** Without a builder, which copies a long text twice more. */
    private String joined(String a, String b) {
        budget.text((long) a.length() + b.length());
        return a.concat(b);
    }

    private Object arithmetic(String operator, Object left, Object right) {
        if (operator.equals("+") && left instanceof String a && right instanceof String b) {
            return joined(a, b);
        }
        if (operator.equals("+") && left instanceof List<?> a && right instanceof List<?> b) {
            List<Object> joined = emptyLike(a);
            budget.elements(a.size() + b.size());
            joined.addAll(a);
            joined.addAll(b);
            return joined;
        }
        if (operator.equals("*") && (left instanceof String || left instanceof List)) {
            return repeat(left, Numbers.integer(right));
        }
        if (operator.equals("*") && (right instanceof String || right instanceof List)) {
            return repeat(right, Numbers.integer(left));
        }
        if (!Numbers.is(left) || !Numbers.is(right)) {
            throw new JinjaException("'" + operator + "' is not defined for " + Values.typeName(left) + " and "
                    + Values.typeName(right));
        }
        return Numbers.arithmetic(operator, left, right);
    }

    private static List<Object> emptyLike(List<?> list) {
        return list instanceof Values.Tuple ? new Values.Tuple() : new ArrayList<>();
    }

    private Object repeat(Object value, long times) {
        if (value instanceof String s) {
            return new TextBuilder(budget).repeat(s, Math.max(0, times)).toString();
        }
        List<?> list = (List<?>) value;
        List<Object> repeated = emptyLike(list);
        long count = list.isEmpty() ? 0 : Math.max(0, times);
        budget.elements(count > RenderBudget.MAX_TOTAL ? count : count * list.size());
        for (long i = 0; i < count; i++) {
            repeated.addAll(list);
        }
        return repeated;
    }

    private static List<Object> range(RenderBudget budget, List<Object> args) {
        long from = args.size() > 1 ? Numbers.integer(args.get(0)) : 0;
        long to = Numbers.integer(args.get(args.size() > 1 ? 1 : 0));
        long step = args.size() > 2 ? Numbers.integer(args.get(2)) : 1;
        // as doubles, because the difference may overflow
        double count = step == 0 ? Double.POSITIVE_INFINITY : Math.ceil(((double) to - from) / step);
        if (count > RenderBudget.MAX_RANGE) {
            throw new JinjaException("range(" + from + ", " + to + ", " + step
                    + ") is not allowed: its step must not be 0, and it may have at most " + RenderBudget.MAX_RANGE
                    + " items");
        }
        budget.elements((long) Math.max(0, count));
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            values.add(from + i * step);
        }
        return values;
    }

    /** Formats the time by those strftime directives that templates use. */
    private static String time(RenderBudget budget, ZonedDateTime now, String format) {
        TextBuilder text = new TextBuilder(budget);
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
