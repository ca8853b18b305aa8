#include "trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/indexed_dataset/nested_json.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(dir_); }
  void TearDown() override { fs::remove_all(dir_); }

  fs::path write(const std::string& bytes) const {
    const fs::path path = dir_ / "file.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::string with_header(const std::string& json, const std::string& data) {
    const uint64_t length = json.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + json + data;
  }
  std::string error_of(const std::string& bytes) const {
    try {
      SafetensorsFile file(write(bytes));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  fs::path dir_ = fs::temp_directory_path() / ("weft-safetensors-" + std::to_string(::getpid()));
};

// The example of the format's README: one F16 tensor [1, 16, 256] would be 8192 bytes; here a small
// one.
TEST_F(Safetensors, ReadsWhatTheHeaderDescribes) {
  const SafetensorsFile file(write(with_header(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
      std::string("\0\0\x80\x3f\0\0\0\x40\x80\x3f\0\x40", 12))));
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("a")->shape, (std::vector<int64_t>{1, 2}));
  float value;
  std::memcpy(&value, file.bytes(*file.find("a")).data() + 4, 4);
  EXPECT_EQ(value, 2.0F);
  EXPECT_EQ(file.bytes(*file.find("b")).size(), 4U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, HeaderRoundTripsAndAlignsTheData) {
  std::vector<SafetensorsEntry> entries = {{"x", "F32", {3, 5}, 0, 0},
                                           {"y \"quoted\"", "BF16", {7}, 0, 0}};
  const std::string header = safetensors_header(entries, {{"format", "pt"}});
  EXPECT_EQ(header.size() % 64, 0U);
  const SafetensorsFile file(write(header + std::string(60 + 14, 'z')));
  EXPECT_EQ(file.find("x")->end, 60);
  EXPECT_EQ(file.find("y \"quoted\"")->begin, 60);
}

TEST_F(Safetensors, AHeaderOfManyTensorsIsReadInLinearTime) {
  const auto seconds_of = [&](int num_tensors) {
    std::vector<SafetensorsEntry> entries;
    for (int i = 0; i < num_tensors; ++i) entries.push_back({std::to_string(i), "U8", {1}, 0, 0});
    const std::string header = safetensors_header(entries, {});
    const fs::path path = write(header + std::string(entries.size(), 'z'));
    double least = 1e9;
    for (int round = 0; round < 3; ++round) {
      const auto start = std::chrono::steady_clock::now();
      const SafetensorsFile file(path);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      least = std::min(least, elapsed.count());
      EXPECT_EQ(file.find(std::to_string(num_tensors - 1))->begin, num_tensors - 1);
    }
    return least;
  };
  // 16 times the tensors took 256 times as long when each was compared with all before it.
  EXPECT_LT(seconds_of(16'000), 80 * seconds_of(1000));
}

TEST_F(Safetensors, APipeIsRefusedAndNotWaitedFor) {
  const auto pipe =
      std::filesystem::temp_directory_path() / ("weft-pipe-" + std::to_string(getpid()));
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsFile file(pipe), std::runtime_error);
  std::filesystem::remove(pipe);
}

TEST_F(Safetensors, RefusesFilesThatLie) {
  const std::string entry = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(error_of("short"), HasSubstr("shorter than its 8-byte header length"));
  EXPECT_THAT(error_of(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)), HasSubstr("header of"));
  EXPECT_THAT(error_of(with_header("{\"a\"", "")), HasSubstr("does not parse"));
  EXPECT_THAT(error_of(with_header(nested_json(200'000), "")), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(with_header("{" + entry + "}", "1234")), HasSubstr("truncated"));
  EXPECT_THAT(error_of(with_header("{" + entry + "}", "123456789")),
              HasSubstr("tensors end at byte 8 of 9"));
  EXPECT_THAT(error_of(with_header("{" + entry + "," + entry + "}", "12345678")),
              HasSubstr("two entries named"));
  EXPECT_THAT(error_of(with_header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                                   "12345678")),
              HasSubstr("another size than its shape"));
  EXPECT_THAT(
      error_of(with_header(R"({"a":{"dtype":"F9","shape":[2],"data_offsets":[0,8]}})", "12345678")),
      HasSubstr("unknown type F9"));
  EXPECT_THAT(error_of(with_header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
                                   "12345678")),
              HasSubstr("another size than its shape"));
  EXPECT_THAT(
      error_of(with_header(
          R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "")),
      HasSubstr("another size than its shape"));
  for (const char* offsets : {"[0,1e300]", "[0,8.5]", "[0,18446744073709551615]", "[0,-1]"}) {
    EXPECT_NE(error_of(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" +
                                       std::string(offsets) + "}}",
                                   "12345678")),
              "")
        << offsets;
  }
  EXPECT_THAT(error_of(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                   "12345678")),
              HasSubstr("a hole or an overlap before tensor a"));
}

}  // namespace
}  // namespace weft
