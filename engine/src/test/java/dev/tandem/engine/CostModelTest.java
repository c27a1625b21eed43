package dev.tandem.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.engine.cost.Component;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Curve;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.cost.ProfileException;
import dev.tandem.engine.strategy.TestProfile;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CostModelTest {
    @Test
    void curvesInterpolateAndExtrapolate() {
        Curve curve = new Curve("c", new double[] {10, 20, 40}, new double[] {1, 3, 4});
        assertThat(curve.at(0)).isZero();
        assertThat(curve.at(5)).as("below the first point: its time").isEqualTo(1);
        assertThat(curve.at(10)).isEqualTo(1);
        assertThat(curve.at(15)).isEqualTo(2);
        assertThat(curve.at(30)).isEqualTo(3.5);
        assertThat(curve.at(60))
                .as("beyond the last point: the slope from 20 on")
                .isEqualTo(5);
        assertThat(curve.covers(40)).isTrue();
        assertThat(curve.covers(41)).isFalse();
        assertThat(new Curve("c", new double[] {4}, new double[] {2}).at(8))
                .as("one point: proportional")
                .isEqualTo(4);
    }

    @Test
    void aNoisyLastSegmentHardlyChangesWhatLiesFarBeyondIt() {
        Curve noisy = new Curve("c", new double[] {10, 36, 40}, new double[] {1, 3.6, 4.4}); // the last slope is 0.2
        assertThat(noisy.at(60)).as("as from 20 to 40: 0.12 each").isCloseTo(6.8, within(1e-9));
        Curve narrow = new Curve("c", new double[] {30, 40}, new double[] {3, 5});
        assertThat(narrow.at(60)).as("no point below half the last size").isCloseTo(9, within(1e-9));
    }

    @Test
    void aCurveFindsTheSegmentOfEverySize() {
        long seed = new SplittableRandom().nextLong();
        SplittableRandom random = new SplittableRandom(seed);
        for (int curves = 0; curves < 200; curves++) {
            double[] sizes = random.doubles(random.nextInt(2, 40), 0, random.nextInt(1, 30))
                    .map(Math::exp) // from points side by side to those far apart
                    .distinct()
                    .sorted()
                    .toArray();
            double[] seconds = IntStream.rangeClosed(1, sizes.length)
                    .mapToDouble(i -> i * i)
                    .toArray();
            Curve curve = new Curve("c", sizes, seconds);
            for (int i = 0; i < sizes.length; i++) {
                assertThat(curve.at(sizes[i])).as("point %d, seed %d", i, seed).isCloseTo(seconds[i], within(1e-6));
                if (i > 0) {
                    double middle = sizes[i - 1] / 2 + sizes[i] / 2;
                    assertThat(curve.at(middle))
                            .as("before point %d, seed %d", i, seed)
                            .isCloseTo((seconds[i - 1] + seconds[i]) / 2, within(1e-3));
                }
            }
        }
    }

    @Test
    void moreWorkNeverTakesLess() {
        Curve noisy = new Curve("c", new double[] {1, 2, 3}, new double[] {5, 4, 6});
        assertThat(noisy.at(2)).isEqualTo(5);
    }

    @Test
    void cpuAttentionDependsOnRowsAndContext() {
        CostModel model = TestProfile.model();
        assertThat(model.cpuAttention(0, 0)).isZero();
        assertThat(model.cpuAttention(1, 50)).isCloseTo(5, within(1e-9));
        assertThat(model.cpuAttention(10, 500)).as("ten rows of 50").isCloseTo(50, within(1e-9));
        assertThat(model.cpuAttention(200, 200 * 50))
                .as("beyond the largest measured")
                .isCloseTo(1000, within(1e-9));
    }

    @Test
    void aFormattedProfileParsesToTheSameProfile() {
        Profile profile = Profile.parse(TestProfile.TEXT, "test");
        Profile again = Profile.parse(profile.format(), "again");
        assertThat(again.format()).isEqualTo(profile.format());
        assertThat(again.name()).isEqualTo("test");
    }

    @Test
    void theTripOverheadDefaultsToTwoStages() {
        Profile old = Profile.parse(TestProfile.TEXT.replace("stage-overhead 0", "stage-overhead 2e-5"), "old");
        assertThat(old.tripOverhead()).isCloseTo(4e-5, within(1e-12));
        Profile profile = Profile.parse(TestProfile.TEXT + "trip-overhead 7e-5\n", "test");
        assertThat(profile.tripOverhead()).isCloseTo(7e-5, within(1e-12));
        assertThat(profile.stageOverhead()).isZero();
        assertThat(profile.withStageOverhead(1e-3).tripOverhead()).isCloseTo(2e-3, within(1e-12));
    }

    @Test
    void hostTokensAddToTheGpusTime() {
        assertThat(Profile.parse(TestProfile.TEXT, "before it was measured").tokenOverhead())
                .isZero();
        Profile profile = Profile.parse(TestProfile.TEXT + "token-overhead 3e-6\n", "test");
        assertThat(profile.tokenOverhead()).isCloseTo(3e-6, within(1e-12));
        assertThat(Profile.parse(profile.format(), "again").tokenOverhead()).isCloseTo(3e-6, within(1e-12));
        assertThat(profile.withStageOverhead(1e-3).tokenOverhead()).isCloseTo(3e-6, within(1e-12));
        assertThat(profile.scaled(component -> 1, 4).tokenOverhead()).isCloseTo(12e-6, within(1e-12));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "linear 1 0",
                "linear 1 -3",
                "linear 1 NaN",
                "linear 1 Infinity",
                "linear 0 1",
                "linear x 1",
                "layers 0",
                "step-overhead -1",
                "stage-overhead NaN",
                "trip-overhead -1",
                "token-overhead -1",
                "linear 1 2 3"
            })
    void impossibleProfilesAreRejected(String line) {
        String key = line.substring(0, line.indexOf(' '));
        StringBuilder text = new StringBuilder();
        for (String good : TestProfile.TEXT.split("\n")) {
            if (!good.startsWith(key + " ")) {
                text.append(good).append('\n');
            }
        }
        text.append(line).append('\n');
        assertThatThrownBy(() -> Profile.parse(text.toString(), "the file")).isInstanceOf(ProfileException.class);
    }

    @Test
    void missingAndUnorderedPointsAreRejected() {
        assertThatThrownBy(() -> Profile.parse("name x\nlayers 2\n", "the file"))
                .hasMessageContaining("the file: linear has 0 sizes")
                .hasMessageContaining("tandem profile");
        assertThatThrownBy(() -> new Curve("c", new double[] {2, 1}, new double[] {1, 1}))
                .hasMessageContaining("ascending");
    }

    @Test
    void componentsLearnBySeparateResiduals() {
        CostModel model = TestProfile.model();
        for (int i = 0; i < 200; i++) {
            double predicted = model.linear(10);
            model.observe(Component.LINEAR, predicted, 15);
        }
        assertThat(model.linear(10)).isCloseTo(15, within(0.05));
        assertThat(model.gpuAttention(100)).as("untouched").isEqualTo(1);
        assertThat(model.corrections()).containsOnlyKeys(Component.LINEAR);
        assertThat(model.corrections().get(Component.LINEAR))
                .as("15 s in place of 10")
                .isCloseTo(1.5, within(0.005));
    }

    @Test
    void stepsCountByTheirCpuAttention() {
        CostModel model = TestProfile.model();
        double few = model.cpuAttention(1, 20);
        double many = model.cpuAttention(20, 2000);
        for (int i = 0; i < 500; i++) {
            double learned = model.cpuAttention(1, 20) / few;
            model.observe(Component.CPU_ATTENTION, learned * few, 3 * few);
            learned = model.cpuAttention(1, 20) / few;
            model.observe(Component.CPU_ATTENTION, learned * many, 1.1 * many);
        }
        double timeSpent = (3 * few + 1.1 * many) / (few + many);
        assertThat(model.cpuAttention(1, 20) / few).isCloseTo(timeSpent, within(0.01));
    }

    @Test
    void theErrorIsOfWholeSteps() {
        CostModel model = TestProfile.model();
        model.observeStep(1, 1.5);
        assertThat(model.error()).isEqualTo(0.5);
        model.observeStep(1, 1);
        assertThat(model.error()).isCloseTo(0.475, within(1e-9));
        model.observeStep(0, 1);
        model.observeStep(1, Double.NaN);
        assertThat(model.error()).isCloseTo(0.475, within(1e-9));
    }

    @Test
    void outliersAreLearnedOnlyInPart() {
        CostModel model = TestProfile.model();
        model.observe(Component.LINEAR, 10, 10);
        model.observe(Component.LINEAR, 10, 10_000);
        assertThat(model.linear(10)).isLessThanOrEqualTo(100);
        model.observe(Component.LINEAR, 10, Double.NaN);
        model.observe(Component.LINEAR, 0, 10);
        assertThat(model.linear(10)).isFinite();
    }

    @Test
    void extrapolationIsCounted() {
        CostModel model = TestProfile.model();
        model.linear(1000);
        model.observeStep(1, 1);
        assertThat(model.extrapolated()).isZero();
        model.linear(1001);
        model.cpuAttention(101, 1000);
        model.observeStep(1, 1);
        assertThat(model.extrapolated()).isEqualTo(2);
    }
}
