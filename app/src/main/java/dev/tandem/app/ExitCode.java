package dev.tandem.app;

/** What the process's exit status says. */
final class ExitCode {
    static final int OK = 0;
    /** A request, a run or the engine failed after the start. */
    static final int FAILED = 1;
    /** An option, a file or this machine does not allow the start. */
    static final int CANNOT_START = 2;
    /** A mistake in Tandem: EX_SOFTWARE of sysexits.h. */
    static final int BUG = 70;

    private ExitCode() {}
}
