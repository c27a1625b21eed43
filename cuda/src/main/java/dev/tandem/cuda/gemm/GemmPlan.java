package dev.tandem.cuda.gemm;

import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Who computes the GEMMs of how many rows. For few rows, where the time is that of reading the weights, the project's
 * own kernels: they leave partial sums, which the next row-wise kernel adds up. For more rows cublasLt, whose results
 * are finished.
 *
 * @param methods by the max rows that each is for; more rows are the library's
 * @param crossover for which rows of the library gate, up and SwiGLU are one kernel (gemm_swiglu.cu); empty: for none
 */
public record GemmPlan(NavigableMap<Integer, Method> methods, Optional<SwigluCrossover> crossover) {
    /** Rows of a GEMM of cublasLt are rounded up to this: fewer shapes to choose algorithms for. */
    public static final int ROW_STEP = 64;

    /** Who computes a GEMM. */
    public enum Method {
        /** gemv_tma.cu: partial sums; the Tensor Memory Accelerator brings the weights. */
        GEMV_TMA,
        /** gemv.cu: partial sums; weights go straight to registers. */
        GEMV,
        /** gemm_wgmma.cu: partial sums; warpgroups multiply what the Tensor Memory Accelerator brings. */
        WGMMA,
        /** cublasLt: finished results; gate and up of gemm_swiglu.cu where that is faster. */
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

    /** Whether the gate and up GEMM leaves activations, rather than gate and up. */
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

    /** This plan with gemm_swiglu.cu where the crossover says so. */
    public GemmPlan with(SwigluCrossover other) {
        return new GemmPlan(methods, Optional.of(other));
    }

    /** The choice for each number of rows, in words. */
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
