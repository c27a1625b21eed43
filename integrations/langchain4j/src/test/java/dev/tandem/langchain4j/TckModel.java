package dev.tandem.langchain4j;

import dev.tandem.library.ScriptedTandem;
import dev.tandem.library.Tandem;
import dev.tandem.server.ScriptedServer;

/** The model of LangChain4j's TCK, which answers by the script of the tests over HTTP. */
final class TckModel {
    private TckModel() {}

    /** One for all tests of the process. */
    static final Tandem TANDEM = ScriptedTandem.of(ScriptedServer.ofTck().model());
}
