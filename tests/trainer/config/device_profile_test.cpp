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
  EXPECT_EQ(error_of("name X\nmemory_mib 1000\nmultiprocessors 108\n"), "");
  EXPECT_EQ(find_device_profile(path).num_multiprocessors, 108);
  EXPECT_THAT(error_of("name X\nfp8 1\n"), HasSubstr("fp8 is neither yes nor no"));
  EXPECT_THAT(error_of("name X\n"), HasSubstr("memory_mib is missing"));
  EXPECT_THAT(error_of("name X\nmemory_mib 1e3\n"), HasSubstr("memory_mib is no number of MiB"));
  EXPECT_THAT(error_of("name X\nmemory 3\n"), HasSubstr("unknown line \"memory 3\""));
  EXPECT_THROW(find_device_profile("h2000"), std::invalid_argument);
}

}  // namespace
}  // namespace weft
