package dev.tandem.cpu.simd;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeModel;
import java.lang.classfile.MethodModel;
import java.lang.classfile.attribute.CodeAttribute;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The rules of {@link GroupScales}, by which the compiler keeps vectors in registers; and that it does. */
class VectorsInRegistersTest {
    /** HotSpot's FreqInlineSize: it inlines no hot method with more bytes of code. */
    private static final int MAX_INLINED = 325;

    private static final String VECTORS = "jdk/incubator/vector/";
    private static final int ROUNDS = 200;
    private static final int CALLS = 100;

    @ParameterizedTest
    @ValueSource(classes = {GroupScales.class, GroupGemv.class, GroupGemm.class, QuantUnpack.class})
    void methodsWithVectorsAreCompiledAloneAndCallOnlyTheJdk(Class<?> kernels) throws IOException {
        int checked = 0;
        for (MethodModel method : parse(kernels).methods()) {
            CodeModel code = method.code().orElseThrow();
            List<String> callees = code.elementStream()
                    .filter(InvokeInstruction.class::isInstance)
                    .map(call -> ((InvokeInstruction) call).owner().asInternalName())
                    .toList();
            String name = method.methodName().stringValue();
            if (name.equals("<clinit>") || callees.stream().noneMatch(owner -> owner.startsWith(VECTORS))) {
                continue;
            }
            checked++;
            assertThat(callees).as(name).allMatch(owner -> owner.startsWith(VECTORS));
            assertThat(((CodeAttribute) code).codeLength()).as(name).isGreaterThan(MAX_INLINED);
        }
        assertThat(checked).isPositive();
    }

    private static ClassModel parse(Class<?> type) throws IOException {
        try (InputStream bytes = type.getResourceAsStream(type.getSimpleName() + ".class")) {
            return ClassFile.of().parse(bytes.readAllBytes());
        }
    }

    /** Once compiled, kernels allocate nothing; a vector that is an object takes 96 bytes with 512 bits. */
    @ParameterizedTest
    @EnumSource(QuantFormat.class)
    void kernelsAllocateNothing(QuantFormat format) {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        int depth = 512;
        int rows = 15;
        try (Arena arena = Arena.ofConfined()) {
            PackedMatrix.Quantised shape = new PackedMatrix.Quantised(depth, Lanes.PANEL, format, MemorySegment.NULL);
            PackedMatrix matrix =
                    new PackedMatrix.Quantised(depth, Lanes.PANEL, format, arena.allocate(shape.panelBytes(), 64));
            float[] x = new float[rows * depth];
            float[] out = new float[rows * Lanes.PANEL];
            long scratch = arena.allocate(PanelGemm.SCRATCH_BYTES, 64).address();
            GemmInput few = input(matrix, 1, x);
            GemmInput many = input(matrix, rows, x);
            long allocated = Long.MAX_VALUE;
            // a compiler thread decides when it is done; many rounds that allocate would be a failure
            for (int round = 0; round < ROUNDS && allocated > 0; round++) {
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int call = 0; call < CALLS; call++) {
                    PanelGemm.multiply(matrix, 0, 1, few, 0, 1, out, 0, Lanes.PANEL, scratch);
                    PanelGemm.multiply(matrix, 0, 1, many, 0, rows, out, 0, Lanes.PANEL, scratch);
                }
                allocated = threads.getCurrentThreadAllocatedBytes() - before;
            }
            assertThat(allocated).as("bytes of %d calls", CALLS).isZero();
        }
    }

    private static GemmInput input(PackedMatrix matrix, int rows, float[] x) {
        GemmInput input = new GemmInput(ActivationPrecision.EXACT);
        input.begin(matrix, rows, x, matrix.depth());
        for (int part = 0; part < input.parts(); part++) {
            input.arrange(part);
        }
        return input;
    }
}
