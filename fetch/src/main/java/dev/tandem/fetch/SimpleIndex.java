package dev.tandem.fetch;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Parses a project's page of a simple package index, in JSON (PEP 691) or HTML (PEP 503). */
final class SimpleIndex {
    private static final Pattern ANCHOR =
            Pattern.compile("<a\\s[^>]*href\\s*=\\s*[\"']([^\"']+)[\"'][^>]*>([^<]*)</a>", Pattern.CASE_INSENSITIVE);
    private static final Pattern HASH = Pattern.compile("sha256=([0-9a-fA-F]{64})");

    /** @param sha256 empty when the index does not publish one */
    record Entry(String filename, URI url, String sha256) {}

    private SimpleIndex() {}

    static List<Entry> parse(URI page, String contentType, String body) {
        return contentType.contains("json") ? parseJson(page, body) : parseHtml(page, body);
    }

    private static List<Entry> parseJson(URI page, String body) {
        List<Entry> entries = new ArrayList<>();
        try {
            for (JsonNode file : new ObjectMapper().readTree(body).path("files")) {
                entries.add(new Entry(
                        file.path("filename").asString(),
                        page.resolve(file.path("url").asString()),
                        file.path("hashes").path("sha256").asString("")));
            }
        } catch (JacksonException e) {
            throw new FetchException(page + " answered with JSON that cannot be read: " + e.getOriginalMessage(), e);
        }
        return entries;
    }

    private static List<Entry> parseHtml(URI page, String body) {
        List<Entry> entries = new ArrayList<>();
        Matcher anchor = ANCHOR.matcher(body);
        while (anchor.find()) {
            String link = anchor.group(1).replace("&amp;", "&");
            int fragment = link.indexOf('#');
            Matcher hash = HASH.matcher(fragment < 0 ? "" : link.substring(fragment));
            String address = fragment < 0 ? link : link.substring(0, fragment);
            entries.add(new Entry(
                    anchor.group(2).strip(),
                    page.resolve(address),
                    hash.find() ? hash.group(1).toLowerCase(Locale.ROOT) : ""));
        }
        return entries;
    }
}
