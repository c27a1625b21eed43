package dev.tandem.cuda.gemm;

import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Says which method computes the GEMMs of each row count. For few rows, where reading the weights takes the time, these
 * are the project's own split-K kernels, whose partial sums the next row-wise kernel adds up. For more rows it is
 * cublasLt, which leaves finished results.
 *
 * @param methods by the max rows of each; more rows are the library's
 * @param crossover for which of the library's row counts gate, up and SwiGLU are one kernel (gemm_swiglu.cu); empty for
 *     none
 */
public record GemmPlan(NavigableMap<Integer, Method> methods, Optional<SwigluCrossover> crossover) {
    /** Rows of cublasLt's GEMMs are rounded up to a multiple of this, so that fewer shapes need an algorithm. */
    public static final int ROW_STEP = 64;

    /** A way to compute a GEMM. */
    public enum Method {
        /** gemv_tma.cu: partial sums; the Tensor Memory Accelerator loads the weights. */
        GEMV_TMA,
        /** gemv.cu: partial sums; weights are loaded straight into registers. */
        GEMV,
        /** gemm_wgmma.cu: partial sums; the Tensor Memory Accelerator loads the operands of warpgroup MMA. */
        WGMMA,
        /** The same with thread blocks of twice as many weight rows, where these do not leave multiprocessors idle. */
        WGMMA_TALL,
        /** cublasLt: finished results; gemm_swiglu.cu computes gate and up where that is faster. */
        LIBRARY
    }

    public GemmPlan {
        methods = Collections.unmodifiableNavigableMap(new TreeMap<>(methods));
    }

    public static int roundUp(int rows) {
        return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    }

    Method method(int rows) {
        Map.Entry<Integer, Method> chosen = methods.ceilingEntry(rows);
        return chosen == null ? Method.LIBRARY : chosen.getValue();
    }

    /** Whether results for so many rows are finished, rather than partial sums. */
    public boolean finishes(int rows) {
        return method(rows) == Method.LIBRARY;
    }

    /** Whether the gate and up GEMM applies SwiGLU itself. */
    public boolean activates(int rows) {
        return !finishes(rows) || crossover.isPresent() && crossover.get().pays(rows);
    }

    /** The max rows of each choice, ascending. */
    public List<Integer> choices() {
        return List.copyOf(methods.keySet());
    }

    /** This plan with another method for so many rows. */
    public GemmPlan with(int rows, Method method) {
        NavigableMap<Integer, Method> changed = new TreeMap<>(methods);
        changed.put(methods.ceilingKey(rows), method);
        return new GemmPlan(changed, crossover);
    }

    /** This plan with another crossover. */
    public GemmPlan with(SwigluCrossover other) {
        return new GemmPlan(methods, Optional.of(other));
    }

    /** The method of each row count, for the log. */
    public String text() {
        StringBuilder text = new StringBuilder();
        methods.forEach((rows, method) -> text.append(text.isEmpty() ? "" : ", ")
                .append("up to ")
                .append(rows)
                .append(" rows ")
                .append(method.name().toLowerCase(Locale.ROOT)));
        crossover.ifPresent(rows -> text.append("; beyond that library, but gate and up with SwiGLU in one kernel at ")
                .append(rows.text())
                .append(" rows"));
        return text.toString();
    }
}
