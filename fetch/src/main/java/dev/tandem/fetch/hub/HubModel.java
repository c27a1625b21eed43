package dev.tandem.fetch.hub;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A model on the hub, written {@code ORGANISATION/NAME[@REVISION][:TAG]}.
 *
 * @param repository {@code ORGANISATION/NAME}
 * @param revision a branch, a tag of git or a commit
 * @param tag the quantisation of a GGUF file, such as {@code Q4_K_M}; empty for the repository's usual files
 */
public record HubModel(String repository, String revision, Optional<String> tag) {
    private static final String PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}";
    private static final Pattern FORM =
            Pattern.compile("(" + PART + "/" + PART + ")(?:@([A-Za-z0-9][A-Za-z0-9._/-]*))?(?::([A-Za-z0-9._-]+))?");
    private static final String DEFAULT_REVISION = "main";
    private static final Pattern COMMIT = Pattern.compile("[0-9a-f]{40}");

    public HubModel {
        if (revision.contains("..")) {
            throw new IllegalArgumentException("the revision " + revision + " has two dots");
        }
    }

    /** The model that the text names; empty when the text has another form. */
    public static Optional<HubModel> parse(String text) {
        Matcher form = FORM.matcher(text);
        if (!form.matches() || text.contains("..")) {
            return Optional.empty();
        }
        return Optional.of(new HubModel(
                form.group(1),
                Optional.ofNullable(form.group(2)).orElse(DEFAULT_REVISION),
                Optional.ofNullable(form.group(3))));
    }

    /** Whether the model was named without a revision. */
    public boolean isDefaultRevision() {
        return revision.equals(DEFAULT_REVISION);
    }

    /** Whether the revision is a commit, which never changes. */
    boolean isCommit() {
        return COMMIT.matcher(revision).matches();
    }

    @Override
    public String toString() {
        return repository
                + (isDefaultRevision() ? "" : "@" + revision)
                + tag.map(t -> ":" + t).orElse("");
    }
}
