package dev.tandem.cuda.step;

import dev.tandem.engine.kv.KvLayout;
import java.util.List;

/**
 * Max block numbers of all sequences of a step, in the block tables of each group of layers.
 *
 * @param layout the groups
 * @param max [kinds] of each group of a kind
 */
public record TableSizes(KvLayout layout, List<Integer> max) {
    /** Copies the list. */
    public TableSizes {
        max = List.copyOf(max);
    }

    /** Block numbers of the groups before the first of a kind. */
    private int before(int kind) {
        int sum = 0;
        for (int i = 0; i < kind; i++) {
            sum = Math.addExact(sum, Math.multiplyExact(layout.kinds().get(i).groups(), max.get(i)));
        }
        return sum;
    }

    /** [groups] where each group's tables begin, if they follow each other. */
    int[] starts() {
        int[] starts = new int[layout.groups()];
        for (int i = 0; i < layout.kinds().size(); i++) {
            KvLayout.Kind kind = layout.kinds().get(i);
            for (int group = kind.first(); group < kind.end(); group++) {
                starts[group] = before(i) + (group - kind.first()) * max.get(i);
            }
        }
        return starts;
    }

    /** Block numbers of all groups. */
    int total() {
        return before(layout.kinds().size());
    }
}
