package dev.tandem.bench.reproduce;

import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.bench.reproduce.Panel.Setting;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;

/**
 * An engine of a panel for real hardware, in the words of the command line. Systems with equal settings share an
 * engine.
 *
 * @param limits of the panel
 * @param strategy that runs
 * @param fidelity of the strategy; Tandem's for its own ones, whose rules then are deviations
 * @param deviations rules that differ from those of the fidelity, as {@code --deviation}
 */
public record EngineSetting(Setting limits, Strategy strategy, Fidelity fidelity, List<String> deviations) {
    /** The engine of a system under the same rules as in a simulation. */
    static EngineSetting of(Panel panel, ComparedSystem system, Fidelity fidelity) {
        Strategy strategy = PanelEngine.strategy(system, fidelity);
        Deviations rules = PanelEngine.deviations(system, fidelity);
        boolean own = strategy.fidelity() == Fidelity.TANDEM;
        List<String> changed = strategy.deviations().stream()
                .filter(deviation -> own && !rules.value(deviation).equals(deviation.value(Fidelity.TANDEM)))
                .map(deviation -> deviation.flag() + "=" + rules.value(deviation))
                .sorted()
                .toList();
        boolean hasRules = !strategy.deviations().isEmpty();
        Fidelity named = own || !hasRules ? strategy.fidelity() : rules.fidelity();
        return new EngineSetting(panel.setting(), strategy, named, changed);
    }

    /** What happens to the KV of preempted sequences: without a host tier there is no place for it. */
    public Preemption preemption() {
        return PanelEngine.preemption(strategy);
    }

    /** Bytes of host KV; 0 for strategies without a host tier. */
    public long hostBytes() {
        return strategy.offloads() ? limits.hostBytes() : 0;
    }
}
