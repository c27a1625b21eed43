package dev.tandem.app.config;

import java.nio.file.Path;

/** Where the value of an option comes from; an earlier one of these wins over a later one. */
public sealed interface Source {
    /** The command line. */
    record CommandLine() implements Source {
        @Override
        public String toString() {
            return "command line";
        }
    }

    /** A variable of the environment. */
    record Environment(String variable) implements Source {
        @Override
        public String toString() {
            return variable;
        }
    }

    /**
     * A line of a configuration file.
     *
     * @param line from 1
     */
    record File(Path path, int line) implements Source {
        @Override
        public String toString() {
            return path + ":" + line;
        }
    }

    /** The option's own default. */
    record Default() implements Source {
        @Override
        public String toString() {
            return "default";
        }
    }
}
