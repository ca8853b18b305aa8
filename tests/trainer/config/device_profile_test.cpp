// Devices that are not here, as --dry-run plans for them.
#include "trainer/config/device_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

using testing::HasSubstr;

TEST(DeviceProfile, IsKnownByNameOrReadFromAFile) {
  const DeviceProfile h200 = find_device_profile("h200");
  EXPECT_EQ(h200.name, "NVIDIA H200");
  EXPECT_NEAR(static_cast<double>(h200.free_bytes()) / (1 << 30), 139.3, 0.1);
  const std::string path = testing::TempDir() + "profile.txt";
  const auto error_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    try {
      find_device_profile(path);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of("# mine\nname X\nmemory_mib 1000\n"), "");
  EXPECT_EQ(find_device_profile(path).memory_bytes, 1000 << 20);
  EXPECT_EQ(find_device_profile(path).host_memory_bytes, 0) << "it is not known";
  EXPECT_EQ(error_of("name X\nmemory_mib 1000\nhost_memory_mib 500\n"), "");
  EXPECT_EQ(find_device_profile(path).host_memory_bytes, 500 << 20);
  EXPECT_TRUE(find_device_profile(path).has_fp8);
  EXPECT_EQ(error_of("name X\nmemory_mib 1000\nfp8 no\n"), "");
  EXPECT_FALSE(find_device_profile(path).has_fp8);
  EXPECT_THAT(error_of("name X\nfp8 1\n"), HasSubstr("fp8 is neither yes nor no"));
  EXPECT_THAT(error_of("name X\n"), HasSubstr("memory_mib is missing"));
  EXPECT_THAT(error_of("name X\nmemory_mib 1e3\n"), HasSubstr("memory_mib is no number of MiB"));
  EXPECT_THAT(error_of("name X\nmemory 3\n"), HasSubstr("unknown line \"memory 3\""));
  EXPECT_THROW(find_device_profile("h2000"), std::invalid_argument);
}

// The CUDA backend asked for this workspace on an H200 (tests/bench/results, weft-train --dry-run).
TEST(DeviceProfile, PlansTheWorkspaceOfAGpuClosely) {
  ModelShape shape;
  shape.micro_batch_size = 64;
  shape.seq_length = 1024;
  shape.num_heads = 12;
  shape.head_size = 64;
  shape.hidden_size = 768;
  const auto mib =
      static_cast<double>(find_device_profile("h200").workspace_bytes(shape)) / (1 << 20);
  EXPECT_GE(mib, 64 + 6 + 20) << "lse and delta, and the sums of 82 heads";
  EXPECT_LT(mib, 100);
  shape.has_qkv_bias = false;
  const auto without_bias =
      static_cast<double>(find_device_profile("h200").workspace_bytes(shape)) / (1 << 20);
  EXPECT_NEAR(mib - without_bias, 3 * 8 * 64 * 12 * 64 * 4 / 1048576.0, 0.01);
}

// For heads without flash attention scores are in memory: of all heads if they fit, and never of more than 128 MiB,
// unless a single head needs it.
TEST(DeviceProfile, PlansTheScoresOfHeadsThatHaveNoFlashAttention) {
  const DeviceProfile h200 = find_device_profile("h200");
  const auto mib_of = [&](int64_t seq_length, int64_t num_heads) {
    ModelShape shape;
    shape.micro_batch_size = 1;
    shape.seq_length = seq_length;
    shape.num_heads = num_heads;
    shape.head_size = 145;
    shape.hidden_size = 64;
    shape.dtype = DType::kBFloat16;
    return static_cast<double>(h200.workspace_bytes(shape) - h200.gemm_workspace_bytes) / (1 << 20);
  };
  // Scores and their gradients of 512 queries, three sums and four copies of 152 columns.
  const double of_head = 2048 * (2 * 512 * 4 + 152 * (3 * 4 + 4 * 2)) / 1048576.0;
  EXPECT_NEAR(mib_of(2048, 2), 2 * of_head, 0.01);
  EXPECT_NEAR(mib_of(2048, 20), 128, 0.01);
  EXPECT_NEAR(mib_of(32768, 20), 16 * of_head, 0.01);
  EXPECT_GE(mib_of(32760, 20), 128) << "a shorter sequence fits into the memory of a longer one";
}

}  // namespace
}  // namespace weft
