package dev.tandem.fetch.hub;

import dev.tandem.fetch.Progress;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/** A process that downloads all files of a model, one range at a time. */
final class PullProcess {
    static final int RANGE = 1 << 20;

    private PullProcess() {}

    static Process start(String endpoint, Path home, String repository) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--enable-native-access=ALL-UNNAMED",
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        System.getProperty("java.class.path"),
                        PullProcess.class.getName(),
                        home.toString(),
                        repository))
                .inheritIO();
        builder.environment().put("HF_ENDPOINT", endpoint);
        builder.environment().put("HF_HOME", home.toString());
        builder.environment().keySet().removeAll(List.of("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"));
        return builder.start();
    }

    public static void main(String[] args) {
        Hub.Settings settings =
                new Hub.Settings(1, 1, RANGE, Hub.Settings.DEFAULT.maxWait(), Hub.Settings.DEFAULT.pause());
        Hub hub = new Hub(HubLocation.of(System.getenv(), Path.of(args[0])), Progress.SILENT, settings);
        HubListing listing = hub.list(HubModel.parse(args[1]).orElseThrow());
        hub.fetch(listing, listing.files());
    }
}
