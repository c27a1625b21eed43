///usr/bin/env jbang "$0" "$@" ; exit $?
//JAVA 25+
//DEPS dev.tandem:tandem-library:0.1.0
//RUNTIME_OPTIONS --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED

import dev.tandem.library.LoadOptions;
import dev.tandem.library.Tandem;

/** Asks a model in this process: {@code jbang Ask.java [MODEL] QUESTION}. */
public final class Ask {
    private Ask() {}

    /** Prints the answer while the model writes it. */
    public static void main(String[] arguments) {
        if (arguments.length < 1 || arguments.length > 2) {
            System.err.println("usage: jbang Ask.java [MODEL] QUESTION");
            System.exit(2);
        }
        LoadOptions options = arguments.length == 1 ? LoadOptions.defaults() : LoadOptions.of(arguments[0]);
        try (Tandem tandem = Tandem.load(options)) {
            tandem.chat(arguments[arguments.length - 1]).forEach(System.out::print);
            System.out.println();
        }
    }
}
