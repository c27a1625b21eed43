package dev.tandem.app;

/** The exit statuses of the process. */
final class ExitCode {
    static final int OK = 0;
    /** A request, a run or the engine failed after the start. */
    static final int FAILED = 1;
    /** An option, a file or a missing feature of this machine prevented the start. */
    static final int CANNOT_START = 2;
    /** A defect of Tandem: EX_SOFTWARE of sysexits.h. */
    static final int BUG = 70;

    private ExitCode() {}
}
