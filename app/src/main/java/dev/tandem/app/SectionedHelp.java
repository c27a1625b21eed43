package dev.tandem.app;

import java.lang.reflect.Member;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.IHelpSectionRenderer;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.UsageMessageSpec;

/** Prints the options of a command: first the ten most important ones, then the others by {@link Section}. */
final class SectionedHelp implements IHelpSectionRenderer {
    /** The most important options, in this order; a command shows those that it has. */
    static final List<String> FIRST = List.of(
            "--device",
            "--dtype",
            "--max-model-len",
            "--gpu-memory-utilization",
            "--host-kv",
            "--strategy",
            "--host",
            "--port",
            "--api-key",
            "--served-model-name");

    /** Commands with fewer options have no headings, and list all options in the synopsis. */
    private static final int FEW = 12;

    private static final int WIDTH = 100;
    private static final int NAME_WIDTH = 34;

    private SectionedHelp() {}

    /** Installs this help for a command and all its subcommands. */
    static void install(CommandLine command) {
        command.setUsageHelpWidth(WIDTH);
        command.setUsageHelpLongOptionsMaxWidth(NAME_WIDTH);
        if (command.getCommandSpec().options().size() > FEW) {
            command.getCommandSpec().usageMessage().abbreviateSynopsis(true);
            command.getHelpSectionMap().put(UsageMessageSpec.SECTION_KEY_OPTION_LIST, new SectionedHelp());
        }
        command.getSubcommands().values().forEach(SectionedHelp::install);
    }

    @Override
    public String render(Help help) {
        List<OptionSpec> first = FIRST.stream()
                .map(name -> help.commandSpec().findOption(name))
                .filter(Objects::nonNull)
                .toList();
        StringBuilder out = new StringBuilder();
        append(out, help, "Most used", first);
        Map<Section.Heading, List<OptionSpec>> sections = new EnumMap<>(Section.Heading.class);
        for (OptionSpec option : help.commandSpec().options()) {
            if (!first.contains(option)) {
                sections.computeIfAbsent(heading(option), heading -> new ArrayList<>())
                        .add(option);
            }
        }
        sections.forEach((heading, options) -> append(out, help, heading.text, options));
        return out.toString();
    }

    private static void append(StringBuilder out, Help help, String heading, List<OptionSpec> options) {
        if (options.isEmpty()) {
            return;
        }
        Help.Layout layout = help.createDefaultLayout();
        layout.addOptions(options, help.createDefaultParamLabelRenderer());
        out.append(String.format("%n%s:%n", heading)).append(layout);
    }

    /** The section of the class that declares the option. */
    static Section.Heading heading(OptionSpec option) {
        if (!(option.userObject() instanceof Member member)) {
            return Section.Heading.HELP;
        }
        Section section = member.getDeclaringClass().getAnnotation(Section.class);
        if (section != null) {
            return section.value();
        }
        return member.getDeclaringClass().getName().startsWith("picocli.")
                ? Section.Heading.HELP
                : Section.Heading.COMMAND;
    }
}
