package dev.tandem.bench.ideal;

import java.util.Arrays;
import java.util.List;
import org.ojalgo.optimisation.Optimisation;
import org.ojalgo.optimisation.linear.LinearSolver;

/** Maximises a linear objective over non-negative variables. */
final class LinearProgram {
    private LinearProgram() {}

    /** A row: coefficients per variable, and the value that their sum equals or does not exceed. */
    record Row(double[] coefficients, double value) {}

    /** The variables' values at the max; empty where no values satisfy the rows. */
    static double[] maximise(double[] objective, List<Row> equal, List<Row> atMost) {
        double[] negated = new double[objective.length];
        for (int i = 0; i < objective.length; i++) {
            negated[i] = -objective[i];
        }
        LinearSolver.Builder program =
                LinearSolver.newBuilder().objective(negated).lower(0.0);
        equal.forEach(row -> program.equality(row.value(), row.coefficients()));
        atMost.forEach(row -> program.inequality(row.value(), row.coefficients()));
        Optimisation.Result result = program.build().solve();
        // slack variables follow the variables
        return result.getState().isOptimal() ? Arrays.copyOf(result.toRawCopy1D(), objective.length) : new double[0];
    }
}
