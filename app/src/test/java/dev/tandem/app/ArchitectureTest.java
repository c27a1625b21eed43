package dev.tandem.app;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import dev.tandem.engine.clock.Clock;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Which module may know which, and what no code may reach for by itself. */
class ArchitectureTest {
    private static final JavaClasses CLASSES = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .withImportOption(location -> !location.contains("-tests.jar"))
            .importPackages("dev.tandem");

    private static void mayKnow(String module, String... allowed) {
        String[] packages = new String[allowed.length + 1];
        System.arraycopy(allowed, 0, packages, 0, allowed.length);
        packages[allowed.length] = "dev.tandem." + module + "..";
        classes()
                .that()
                .resideInAPackage("dev.tandem." + module + "..")
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(Stream.concat(Stream.of(packages), Stream.of("org.jspecify.annotations"))
                        .toArray(String[]::new))
                .check(CLASSES);
    }

    @Test
    void dependenciesPointOneWay() {
        mayKnow("engine", "java..", "jdk.jfr");
        mayKnow("fetch", "java..", "tools.jackson..");
        mayKnow("text", "java..", "tools.jackson..", "ai.djl..");
        mayKnow("grammar", "java..", "tools.jackson..", "dev.tandem.engine..", "dev.tandem.text..");
        mayKnow("model", "java..", "tools.jackson..", "dev.tandem.engine..");
        mayKnow("cpu", "java..", "jdk.incubator.vector..", "dev.tandem.engine..", "dev.tandem.model..");
        mayKnow(
                "cuda",
                "java..",
                "dev.tandem.engine..",
                "dev.tandem.model..",
                "dev.tandem.fetch..",
                "dev.tandem.cpu..");
        mayKnow("bench", "java..", "tools.jackson..", "org.HdrHistogram..", "org.ojalgo..", "dev.tandem.engine..");
        mayKnow(
                "server",
                "java..",
                "tools.jackson..",
                "io.netty..",
                "io.prometheus..",
                "org.zeromq..",
                "dev.tandem.engine..",
                "dev.tandem.text..",
                "dev.tandem.grammar..");
    }

    /**
     * Packages of the engine by floor, the lowest first; packages of one floor may know each other. A sequence owns its
     * block table and its sampler, so request, kv and sampling share a floor.
     */
    private static final List<List<String>> ENGINE_FLOORS = List.of(
            List.of("clock", "config"),
            List.of("request", "kv", "sampling"),
            List.of("step"),
            List.of("queue", "executor"),
            List.of("schedule"),
            List.of("cost"),
            List.of("strategy"),
            List.of("observe"),
            List.of("output"),
            List.of("loop"));

    @Test
    void engineFloorsKnowOnlyThoseBelow() {
        List<String> below = new ArrayList<>(List.of("java..", "jdk.jfr", "org.jspecify.annotations"));
        for (List<String> floor : ENGINE_FLOORS) {
            floor.forEach(name -> below.add("dev.tandem.engine." + name + ".."));
            classes()
                    .that()
                    .resideInAnyPackage(floor.stream()
                            .map(name -> "dev.tandem.engine." + name + "..")
                            .toArray(String[]::new))
                    .should()
                    .onlyDependOnClassesThat()
                    .resideInAnyPackage(below.toArray(String[]::new))
                    .check(CLASSES);
        }
    }

    @Test
    void everyEnginePackageHasAFloor() {
        String[] known = ENGINE_FLOORS.stream()
                .flatMap(List::stream)
                .map(name -> "dev.tandem.engine." + name + "..")
                .toArray(String[]::new);
        classes()
                .that()
                .resideInAPackage("dev.tandem.engine..")
                .should()
                .resideInAnyPackage(known)
                .check(CLASSES);
    }

    /** A call with more positional values than that cannot be read. */
    private static final int MAX_COMPONENTS = 7;

    @Test
    void largeRecordsAreBuiltInOnePlace() {
        noClasses()
                .should(new ArchCondition<>("construct a record of more than " + MAX_COMPONENTS + " components") {
                    @Override
                    public void check(JavaClass type, ConditionEvents events) {
                        type.getConstructorCallsFromSelf().stream()
                                .filter(call -> call.getTargetOwner().isRecord()
                                        && call.getTarget()
                                                        .getRawParameterTypes()
                                                        .size()
                                                > MAX_COMPONENTS
                                        && !outermost(type).equals(outermost(call.getTargetOwner()))
                                        && isChecked(call.getTargetOwner()))
                                .forEach(call ->
                                        events.add(SimpleConditionEvent.satisfied(call, call.getDescription())));
                    }
                })
                .check(CLASSES);
    }

    /** Records of the engine, but for the options of strategies, and of the CUDA executor. */
    private static boolean isChecked(JavaClass type) {
        String name = type.getPackageName();
        return name.startsWith("dev.tandem.engine") && !name.startsWith("dev.tandem.engine.strategy")
                || name.startsWith("dev.tandem.cuda");
    }

    private static JavaClass outermost(JavaClass type) {
        return type.getEnclosingClass().map(ArchitectureTest::outermost).orElse(type);
    }

    /** Only the committer changes the scheduler's state, and only it and the cache change blocks. */
    @Test
    void strategiesReadTheStateOnly() {
        noClasses()
                .that()
                .resideInAPackage("dev.tandem.engine.strategy..")
                .should()
                .dependOnClassesThat()
                .haveSimpleName("PlanCommitter")
                .orShould()
                .dependOnClassesThat()
                .haveSimpleName("KvCache")
                .orShould()
                .dependOnClassesThat()
                .haveSimpleName("WaitingQueue")
                .check(CLASSES);
    }

    /** Packages of cuda, from the top floor to the ground: each may know those behind it. */
    private static final List<String> CUDA_FLOORS = List.of(
            "tune",
            "step",
            "sampling",
            "forward",
            "gemm",
            "kv",
            "hostattention",
            "weights",
            "kernels",
            "device",
            "ffi");

    @Test
    void eachFloorOfCudaKnowsOnlyThoseBelow() {
        for (int floor = 0; floor < CUDA_FLOORS.size(); floor++) {
            String[] above = Stream.concat(
                            Stream.of("dev.tandem.cuda"),
                            CUDA_FLOORS.subList(0, floor).stream().map(name -> "dev.tandem.cuda." + name))
                    .toArray(String[]::new);
            noClasses()
                    .that()
                    .resideInAPackage("dev.tandem.cuda." + CUDA_FLOORS.get(floor))
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage(above)
                    .check(CLASSES);
        }
    }

    @Test
    void timeAndChanceAreInjected() {
        noClasses()
                .that()
                .areNotAssignableTo(Clock.class)
                .should()
                .callMethod(System.class, "nanoTime")
                .orShould()
                .callMethod(System.class, "currentTimeMillis")
                .check(CLASSES);
        noClasses()
                .that()
                .resideInAnyPackage(
                        "dev.tandem.engine..",
                        "dev.tandem.model..",
                        "dev.tandem.cpu..",
                        "dev.tandem.cuda..",
                        "dev.tandem.server..")
                .should()
                .callMethod(Instant.class, "now")
                .orShould()
                .callConstructor(Random.class)
                .orShould()
                .callMethod(Math.class, "random")
                .check(CLASSES);
    }

    @Test
    void onlyTheEngineThreadsOwnPackagesTouchItsState() {
        noClasses()
                .that()
                .resideInAnyPackage(
                        "dev.tandem.server..", "dev.tandem.bench..", "dev.tandem.app..", "dev.tandem.text..")
                .and()
                .doNotHaveFullyQualifiedName("dev.tandem.bench.SimulatedRun") // its thread is the engine's
                .should()
                .dependOnClassesThat()
                .haveFullyQualifiedName("dev.tandem.engine.request.Sequence")
                .orShould()
                .dependOnClassesThat()
                .haveFullyQualifiedName("dev.tandem.engine.kv.KvCache")
                .orShould()
                .dependOnClassesThat()
                .haveFullyQualifiedName("dev.tandem.engine.loop.EngineLoop")
                .check(CLASSES);
    }

    @Test
    void thereIsNoGlobalMutableState() {
        noClasses()
                .that()
                .resideInAPackage("dev.tandem.engine..")
                .should(new ArchCondition<>("have static fields that are not final") {
                    @Override
                    public void check(JavaClass type, ConditionEvents events) {
                        type.getFields().stream()
                                .filter(field -> field.getModifiers().contains(JavaModifier.STATIC)
                                        && !field.getModifiers().contains(JavaModifier.FINAL)
                                        && !field.getModifiers().contains(JavaModifier.SYNTHETIC))
                                .forEach(field ->
                                        events.add(SimpleConditionEvent.satisfied(field, field.getFullName())));
                    }
                })
                .check(CLASSES);
    }

    /** What a step can look like, then the papers' systems, then the choice between them. */
    @Test
    void theFloorsOfTheStrategiesPointOneWay() {
        String steps = "dev.tandem.engine.strategy";
        String papers = "dev.tandem.engine.strategy.paper..";
        String select = "dev.tandem.engine.strategy.select..";
        mayNotKnow(steps, papers, select);
        mayNotKnow(papers, select);
        noClasses()
                .that()
                .resideInAPackage("dev.tandem.engine..")
                .and()
                .resideOutsideOfPackage("dev.tandem.engine.strategy..")
                .should()
                .dependOnClassesThat()
                .resideInAPackage("dev.tandem.engine.strategy..")
                .check(CLASSES);
    }

    private static void mayNotKnow(String floor, String... above) {
        noClasses()
                .that()
                .resideInAPackage(floor)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(above)
                .check(CLASSES);
    }
}
