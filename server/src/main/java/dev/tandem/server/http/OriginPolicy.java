package dev.tandem.server.http;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * Decides which web pages may use the server, and by which host names clients may reach it. A page of any site can make
 * its visitor's browser send requests to 127.0.0.1; the browser then sends {@code Origin}. With DNS rebinding the
 * page's own host name resolves to 127.0.0.1; the browser then sends that name in {@code Host}.
 *
 * <p>Owned by: any thread; immutable.
 */
public final class OriginPolicy {
    private static final String ANY = "*";
    /** Host names that DNS rebinding cannot redirect: localhost and IP addresses. */
    private static final Pattern SAFE_HOST =
            Pattern.compile("localhost|.+\\.localhost|\\d{1,3}(\\.\\d{1,3}){3}|\\[[0-9a-f:.]+]");

    private static final Pattern PORT = Pattern.compile(":\\d*$");
    private static final Pattern HEADER_NAMES = Pattern.compile("[A-Za-z0-9, _-]{0,1000}");
    private static final String PREFLIGHT_SECONDS = "600";

    private final boolean checkHost;
    private final List<String> allowedHosts;
    private final List<String> allowedOrigins;

    /**
     * @param loopback whether the server listens on a loopback address only: {@code Host} is checked then
     * @param allowedHosts names accepted besides localhost and IP addresses, without port; when there are any,
     *     {@code Host} is checked whatever the server listens on
     * @param allowedOrigins such as {@code https://chat.example.org}, or {@code *} for every page
     */
    public OriginPolicy(boolean loopback, List<String> allowedHosts, List<String> allowedOrigins) {
        this.checkHost = loopback || !allowedHosts.isEmpty();
        this.allowedHosts =
                allowedHosts.stream().map(host -> host.toLowerCase(Locale.ROOT)).toList();
        this.allowedOrigins = List.copyOf(allowedOrigins);
    }

    /** The reason why the request is refused; empty when it is not. */
    Optional<String> refusal(RequestHead head) {
        String host = head.header("host");
        if (checkHost && head.has("host") && !isAllowedHost(host)) {
            return Optional.of("the Host header names '" + Printable.of(host)
                    + "', which is not this server; use localhost or its address, or start it with --allowed-hosts");
        }
        if (head.has("origin") && !isAllowedOrigin(head.header("origin")) && !isOwnPage(head)) {
            return Optional.of("web pages of '" + Printable.of(head.header("origin"))
                    + "' may not use this server; start it with --allowed-origins to allow them");
        }
        return Optional.empty();
    }

    private boolean isAllowedHost(String header) {
        String host = PORT.matcher(header.toLowerCase(Locale.ROOT)).replaceFirst("");
        return SAFE_HOST.matcher(host).matches() || allowedHosts.contains(host) || allowedHosts.contains(ANY);
    }

    private boolean isAllowedOrigin(String origin) {
        return allowedOrigins.contains(ANY) || allowedOrigins.contains(origin);
    }

    /**
     * Whether the request comes from a page of this server. A name that is neither localhost, an address nor allowed
     * may be one that DNS rebinding redirects, so pages under such a name are not this server's.
     */
    private boolean isOwnPage(RequestHead head) {
        String host = head.header("host").toLowerCase(Locale.ROOT);
        String origin = head.header("origin");
        return isAllowedHost(host) && (origin.equals("http://" + host) || origin.equals("https://" + host));
    }

    /** The CORS headers that let a page in the browser read the answer. */
    Map<String, String> headers(RequestHead head) {
        Map<String, String> headers = new LinkedHashMap<>();
        if (head.has("origin")) {
            headers.put("Access-Control-Allow-Origin", allowedOrigins.contains(ANY) ? ANY : head.header("origin"));
            headers.put("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
        }
        if (!allowedOrigins.isEmpty()) {
            headers.put("Vary", "Origin");
        }
        return headers;
    }

    /** The answer to a CORS preflight request, which has no API key; empty when the request is none. */
    Optional<Response> preflight(RequestHead head) {
        if (!head.method().equals("OPTIONS") || !head.has("origin") || !head.has("access-control-request-method")) {
            return Optional.empty();
        }
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
        String asked = head.header("access-control-request-headers");
        headers.put(
                "Access-Control-Allow-Headers",
                !asked.isEmpty() && HEADER_NAMES.matcher(asked).matches()
                        ? asked
                        : "Authorization, Content-Type, X-Api-Key, X-Request-Id");
        headers.put("Access-Control-Max-Age", PREFLIGHT_SECONDS);
        return Optional.of(Response.empty(204, headers));
    }
}
