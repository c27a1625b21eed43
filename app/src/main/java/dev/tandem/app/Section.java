package dev.tandem.app;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The heading under which {@code --help} lists the options of a class. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@interface Section {
    Heading value();

    /** Headings in the order of the help. */
    enum Heading {
        COMMAND("This command"),
        MODEL("Model"),
        MEMORY("Memory"),
        SCHEDULING("Scheduling"),
        HYBRID("Hybrid execution"),
        SERVER("Server"),
        ADVANCED("Advanced"),
        HELP("Help");

        final String text;

        Heading(String text) {
            this.text = text;
        }
    }
}
