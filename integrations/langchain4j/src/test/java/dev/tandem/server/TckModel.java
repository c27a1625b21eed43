package dev.tandem.server;

import dev.tandem.library.ScriptedTandem;
import dev.tandem.library.Tandem;

/** The model of LangChain4j's TCK, which answers by the script of the tests over HTTP. */
public final class TckModel {
    private TckModel() {}

    /** One for all tests of the process. */
    public static final Tandem TANDEM =
            ScriptedTandem.of(new ScriptedServer(ClientsTest.TEMPLATE, ClientsTest::tck).model);
}
