package dev.tandem.cuda.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Which of NVIDIA's libraries are loaded. The files here are empty, so loading fails, and the error names the file that
 * was chosen.
 */
class CudaLibrariesTest {
    @TempDir
    Path folder;

    private CudaLibraries libraries(CudaLibraries.Choice choice, OptionalInt driver) {
        return new CudaLibraries(
                choice,
                Map.of(),
                () -> new WheelSource(
                        () -> {
                            throw new AssertionError("nothing may be downloaded: the cache has it");
                        },
                        folder,
                        Progress.SILENT),
                driver);
    }

    private CudaLibraries inFolder(int driver) {
        return libraries(new CudaLibraries.Choice.Folder(folder), OptionalInt.of(driver));
    }

    private void put(String... names) throws IOException {
        for (String name : names) {
            Path file = folder.resolve(name);
            Files.createDirectories(file.getParent());
            Files.createFile(file);
        }
    }

    @ParameterizedTest
    @CsvSource({"12040, 12", "12090, 12", "13000, 13", "13010, 13", "14000, 13"})
    void librariesOfTheDriversReleaseAreChosen(int driver, int chosen) throws IOException {
        put("libcublasLt.so.12", "libcublasLt.so.13", "libnvrtc.so.12", "libnvrtc.so.13");
        assertThatThrownBy(inFolder(driver)::cublasLt)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining(folder.resolve("libcublasLt.so." + chosen) + " cannot be loaded");
        assertThatThrownBy(inFolder(driver)::nvrtc)
                .hasMessageContaining(folder.resolve("libnvrtc.so." + chosen) + " cannot be loaded");
    }

    @Test
    void librariesOlderThanTheDriverAreAccepted() throws IOException {
        put("libcublasLt.so.12");
        assertThatThrownBy(inFolder(13_000)::cublasLt)
                .hasMessageContaining(folder.resolve("libcublasLt.so.12") + " cannot be loaded");
    }

    @Test
    void librariesNewerThanTheDriverAreRejectedWithTheReason() throws IOException {
        put("libcublasLt.so.13");
        assertThatThrownBy(inFolder(12_040)::cublasLt)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining(folder.resolve("libcublasLt.so.13") + " needs a driver for CUDA 13.0 or later")
                .hasMessageContaining("this machine's is for CUDA 12.4")
                .hasMessageContaining("Install CUDA 12")
                .hasMessageContaining("--cuda-libraries=fetch");
    }

    @ParameterizedTest
    @CsvSource({
        "12040, nvidia-cublas-cu12-12.9.1.4/libcublasLt.so.12, nvidia-cuda-nvrtc-cu12-12.9.86/libnvrtc.so.12, "
                + "libnvrtc-builtins.so.12.9",
        "13000, nvidia-cublas-13.0.2.14/libcublasLt.so.13, nvidia-cuda-nvrtc-13.0.88/libnvrtc.so.13, "
                + "libnvrtc-builtins.so.13.0",
        ", nvidia-cublas-13.0.2.14/libcublasLt.so.13, nvidia-cuda-nvrtc-13.0.88/libnvrtc.so.13, "
                + "libnvrtc-builtins.so.13.0"
    })
    void wheelsOfTheDriversReleaseAreFetched(Integer driver, String cublasLt, String nvrtc, String builtins)
            throws IOException {
        put(cublasLt, nvrtc, Path.of(nvrtc).resolveSibling(builtins).toString());
        OptionalInt version = driver == null ? OptionalInt.empty() : OptionalInt.of(driver);
        CudaLibraries libraries = libraries(new CudaLibraries.Choice.Fetched(), version);
        assertThatThrownBy(libraries::cublasLt).hasMessageContaining(folder.resolve(cublasLt) + " cannot be loaded");
        assertThatThrownBy(libraries::nvrtc)
                .hasMessageContaining(folder.resolve(nvrtc).getParent().toString());
    }

    @Test
    void theErrorForAMissingLibraryListsEverySearchedPath() {
        assertThatThrownBy(inFolder(13_000)::cublasLt)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining(folder.resolve("libcublasLt.so.13").toString())
                .hasMessageContaining(folder.resolve("libcublasLt.so.12").toString())
                .hasMessageContaining("--cuda-libraries");
    }

    @Test
    void anErrorNamesADriverThatNoLibrarySupports() {
        assertThatThrownBy(inFolder(11_080)::release)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("CUDA 11.8");
        assertThatThrownBy(inFolder(11_080)::cublasLt)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("CUDA 11.8");
        assertThat(inFolder(12_040).release()).isEqualTo(12);
    }
}
