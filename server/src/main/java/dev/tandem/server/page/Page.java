package dev.tandem.server.page;

import dev.tandem.server.http.Response;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The files of the page, as they lie in the jar. The document is asked for anew each time and has the style in it; it
 * names the other files under a folder that is the digest of all of them, so that browsers may keep those for ever.
 *
 * <p>Owned by: any thread; immutable.
 */
public final class Page {
    /** Where the files besides the document are. */
    static final String FOLDER = "/ui/";

    private static final String DOCUMENT = "index.html";
    /** Stands for the folder of the files in the document. */
    private static final String FOLDER_NAME = "@files@";
    /** Is in the document, so that a browser paints before it asks for anything else. */
    private static final String STYLE = "page.css";
    /** Stands for the style in the document. */
    private static final String STYLE_NAME = "@style@";
    /** The value of {@code Sec-Fetch-Site} for an address that was typed, or opened from outside the browser. */
    private static final String USER_ORIGINATED = "none";
    /** Every file of the page; a file that is not listed is not served. */
    private static final List<String> FILES = List.of(
            "api.js",
            "app.js",
            "chat.js",
            "conversations.js",
            "dom.js",
            "engine.js",
            "icon.svg",
            "lanes.js",
            "markdown.js",
            "requests.js",
            "uPlot.iife.min.js",
            "uPlot.min.css");

    private static final Map<String, String> TYPES = Map.of(
            "js", "text/javascript; charset=utf-8",
            "css", "text/css; charset=utf-8",
            "svg", "image/svg+xml",
            "html", "text/html; charset=utf-8");

    /** A file and its entity tag. */
    private record PageFile(byte[] content, String type, String tag) {}

    private final PageFile document;
    private final Map<String, PageFile> files;
    private final String policy;

    private Page(PageFile document, Map<String, PageFile> files, String policy) {
        this.document = document;
        this.files = files;
        this.policy = policy;
    }

    /**
     * Reads the files.
     *
     * @throws IllegalStateException when one is missing in the jar
     */
    public static Page load() {
        Map<String, byte[]> contents = new LinkedHashMap<>();
        MessageDigest all = sha256();
        for (String name : FILES) {
            byte[] content = read(name);
            contents.put(name, content);
            all.update(content);
        }
        String folder = FOLDER + digest(all) + "/";
        Map<String, PageFile> files = new LinkedHashMap<>();
        contents.forEach((name, content) -> files.put(folder + name, file(name, content)));
        byte[] style = read(STYLE);
        String document = new String(read(DOCUMENT), StandardCharsets.UTF_8)
                .replace(FOLDER_NAME, folder)
                .replace(STYLE_NAME, new String(style, StandardCharsets.UTF_8));
        return new Page(file(DOCUMENT, document.getBytes(StandardCharsets.UTF_8)), Map.copyOf(files), policy(style));
    }

    /**
     * Only files of this server run, and none of them may turn text into markup or code: the page shows what a model
     * wrote. The one style in the document is allowed by its SHA-256, in Base64.
     */
    private static String policy(byte[] style) {
        String digest = Base64.getEncoder().encodeToString(sha256().digest(style));
        return "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-" + digest + "'; img-src 'self';"
                + " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
                + " require-trusted-types-for 'script'; trusted-types 'none'";
    }

    private static PageFile file(String name, byte[] content) {
        String type = TYPES.getOrDefault(name.substring(name.lastIndexOf('.') + 1), "");
        MessageDigest digest = sha256();
        digest.update(content);
        return new PageFile(content, type, '"' + digest(digest) + '"');
    }

    private static byte[] read(String name) {
        try (InputStream resource = Page.class.getResourceAsStream(name)) {
            if (resource == null) {
                throw new IllegalStateException(name + " of the page is missing beside " + Page.class.getName());
            }
            return resource.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java runtime has SHA-256", e);
        }
    }

    /** The first 16 digits: enough to tell versions apart. */
    private static String digest(MessageDigest digest) {
        return HexFormat.of().formatHex(digest.digest()).substring(0, 16);
    }

    /** The paths of all files, the document's included. */
    List<String> paths() {
        List<String> paths = new ArrayList<>(files.keySet());
        paths.add("/");
        return paths;
    }

    /**
     * The answer to a request for the document or a file; 404 for a file that is not part of this version.
     *
     * <p>The opener policy cuts a page of another site off from a window that it opened with this page. A browser then
     * needs a new process once the headers are there, so a document that a person has opened goes without: nobody is to
     * be cut off (ADR 79). Where a browser does not say who opens it, it has the policy.
     *
     * @param known the entity tags that the client has, as {@code If-None-Match} lists them
     * @param site where the request began, as {@code Sec-Fetch-Site} says; empty where the browser does not say
     */
    Response answer(String path, String known, String site) {
        boolean isDocument = path.equals("/");
        PageFile file = isDocument ? document : files.get(path);
        if (file == null) {
            return new Response(
                    404,
                    "text/plain; charset=utf-8",
                    "this server's page has no such file; reload the page\n".getBytes(StandardCharsets.UTF_8),
                    Map.of("Cache-Control", "no-store"));
        }
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("ETag", file.tag());
        headers.put("Cache-Control", isDocument ? "no-cache" : "public, max-age=31536000, immutable");
        headers.put("X-Content-Type-Options", "nosniff");
        headers.put("Referrer-Policy", "no-referrer");
        if (isDocument) {
            headers.put("Vary", "Sec-Fetch-Site");
            if (!site.equals(USER_ORIGINATED)) {
                headers.put("Cross-Origin-Opener-Policy", "same-origin");
            }
        }
        headers.put("Cross-Origin-Resource-Policy", "same-origin");
        headers.put("Content-Security-Policy", policy);
        return known.contains(file.tag())
                ? Response.empty(304, headers)
                : new Response(200, file.type(), file.content(), headers);
    }
}
