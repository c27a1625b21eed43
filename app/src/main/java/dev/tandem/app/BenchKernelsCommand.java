package dev.tandem.app;

import dev.tandem.cuda.kernels.KernelCatalogue;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.model.config.DataType;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** Runs {@code bench kernels}. */
@Command(
        name = "kernels",
        mixinStandardHelpOptions = true,
        description = "Compiles every CUDA kernel for every GPU generation and for the shapes of representative models,"
                + " and lists registers and spilled bytes. It needs no GPU.",
        footerHeading = "%nExample:%n",
        footer = "  tandem bench kernels")
final class BenchKernelsCommand implements Callable<Integer> {
    @Option(
            names = "--cuda-libraries",
            defaultValue = "auto",
            paramLabel = "SOURCE",
            description = "Where NVRTC comes from: system, fetch, a folder, or auto, which takes the installed one and"
                    + " else fetches it. Default: ${DEFAULT-VALUE}.")
    String libraries = "auto";

    private record Row(int capability, DataType type, String model, String kernel, int registers, int spilledBytes) {}

    @Override
    public Integer call() {
        KernelCompiler compiler = new KernelCompiler(
                CudaBackend.libraries(libraries, Terminal.standardError())::nvrtc,
                CudaBackend.cache().resolve("kernels"));
        System.out.printf(
                "%-10s %-9s %-24s %-26s %9s %14s%n",
                "capability", "type", "heads/KV heads x size", "kernel", "registers", "spilled bytes");
        for (int capability : KernelCatalogue.CAPABILITIES) {
            for (DataType type : KernelCatalogue.types(capability)) {
                Set<Row> rows = new LinkedHashSet<>();
                for (ModelShape shape : KernelCatalogue.models(type)) {
                    collect(compiler, capability, shape, rows);
                }
                rows.forEach(row -> System.out.printf(
                        Locale.ROOT,
                        "%-10s %-9s %-24s %-26s %9d %14d%n",
                        row.capability() / 10.0,
                        row.type().flag(),
                        row.model(),
                        row.kernel(),
                        row.registers(),
                        row.spilledBytes()));
            }
        }
        return 0;
    }

    private static void collect(KernelCompiler compiler, int capability, ModelShape shape, Set<Row> rows) {
        String model = shape.config().heads() + "/" + shape.config().kvHeads() + " x "
                + shape.config().headDim();
        boolean first = rows.isEmpty();
        for (KernelCatalogue.Unit unit :
                KernelCatalogue.units(shape, capability, KernelCatalogue.sharedMemory(capability))) {
            boolean attention = unit.source().equals("decode") || unit.source().startsWith("prefill");
            // other kernels do not depend on the head size, so they are measured for the first model only
            if (attention || first) {
                String tokens = tokens(unit);
                compiler.compile(unit.source(), capability, unit.defines())
                        .usage()
                        .forEach(usage -> rows.add(new Row(
                                capability,
                                shape.type(),
                                attention ? model : "any",
                                usage.kernel() + tokens,
                                usage.registers(),
                                usage.spilledBytes())));
            }
        }
    }

    /** The numbers of tokens for which a GEMM kernel is compiled; empty for other kernels. */
    private static String tokens(KernelCatalogue.Unit unit) {
        return Stream.of(new Define("-DTILES=", 8), new Define("-DTOKENS=", 1))
                .flatMap(define -> unit.defines().stream()
                        .filter(text -> text.startsWith(define.name()))
                        .map(define::tokens))
                .findFirst()
                .orElse("");
    }

    private record Define(String name, int tokensEach) {
        String tokens(String text) {
            return " " + tokensEach * Integer.parseInt(text.substring(name.length())) + " tokens";
        }
    }
}
