package dev.tandem.server.openai;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * All paths of the API.
 *
 * <p>Owned by: any thread; immutable.
 */
final class Routes {
    /** A route and the value of its path's parameter; empty when it has none. */
    record Match(Route route, String id) {}

    /** A route whose path has a parameter between these two texts. */
    private record Pattern(String before, String after, Route route) {
        static Pattern of(Route route) {
            int at = route.path().indexOf(Route.PARAMETER);
            return new Pattern(
                    route.path().substring(0, at), route.path().substring(at + Route.PARAMETER.length()), route);
        }

        boolean matches(String path) {
            return path.length() > before.length() + after.length() && path.startsWith(before) && path.endsWith(after);
        }

        Match match(String path) {
            return new Match(route, decoded(path.substring(before.length(), path.length() - after.length())));
        }
    }

    private final List<Route> all;
    private final Map<String, Route> fixed = new LinkedHashMap<>();
    /** The most specific first: /a/{id}/b before /a/{id}. */
    private final List<Pattern> patterns;

    Routes(List<Route> all) {
        this.all = List.copyOf(all);
        all.stream()
                .filter(route -> !route.path().contains(Route.PARAMETER))
                .forEach(route -> fixed.put(route.path(), route));
        patterns = all.stream()
                .filter(route -> route.path().contains(Route.PARAMETER))
                .map(Pattern::of)
                .sorted(Comparator.comparingInt(
                                (Pattern pattern) -> pattern.after().length())
                        .reversed())
                .toList();
    }

    List<Route> all() {
        return all;
    }

    Optional<Match> find(String path) {
        Route route = fixed.get(path);
        return route != null
                ? Optional.of(new Match(route, ""))
                : patterns.stream()
                        .filter(pattern -> pattern.matches(path))
                        .findFirst()
                        .map(pattern -> pattern.match(path));
    }

    /** Names of models have slashes, which some clients encode and some do not. */
    private static String decoded(String text) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException e) {
            return text; // an invalid escape: no model or response has that name
        }
    }
}
