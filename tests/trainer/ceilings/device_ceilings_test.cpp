// The ceilings of a device are measured, kept, and compared with operations.
#include "trainer/ceilings/device_ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"
#include "trainer/ceilings/measure_device.h"
#include "trainer/profile/profile_report.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

DeviceCeilings example(const std::string& device_id, double bf16_tflops = 600) {
  return {.device = "NVIDIA H200",
          .device_id = device_id,
          .measured_at = "2026-11-23 07:00:00",
          .bf16_tflops = bf16_tflops,
          .fp32_tflops = 50,
          .copy_gb_per_s = 4000,
          .triad_gb_per_s = 3900,
          .launch_us = 2,
          .round_trip_us = 10,
          .seconds = 30,
          .power_limit_w = 700,
          .power_w = 690,
          .sm_clock_mhz = 1500};
}

TEST(DeviceCeilings, BoundACallByItsFlopsItsBytesOrItsLaunch) {
  const DeviceCeilings ceilings = example("GPU-1");
  const Operation product{.name = "linear_forward", .dtype = DType::kBFloat16, .flops = 6e12};
  EXPECT_DOUBLE_EQ(ceiling_ms(product, ceilings), 10);
  const Operation fp32{.name = "linear_forward", .dtype = DType::kFloat32, .flops = 5e11};
  EXPECT_DOUBLE_EQ(ceiling_ms(fp32, ceilings), 10);
  const Operation copy{.name = "copy", .bytes = 4e9};
  EXPECT_DOUBLE_EQ(ceiling_ms(copy, ceilings), 1) << "the faster of copy and triad";
  EXPECT_DOUBLE_EQ(ceiling_ms({.name = "sum", .bytes = 4}, ceilings), 0.002);
  EXPECT_DOUBLE_EQ(ceiling_ms({.name = "all_reduce", .group = "data", .bytes = 4e9}, ceilings), 0);
}

TEST(DeviceCeilings, BoundFp8ByItsOwnRateOrWithoutOneByItsBytes) {
  DeviceCeilings ceilings = example("GPU-1");
  for (const DType dtype : {DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    const Operation product{.name = "fp8_product", .dtype = dtype, .flops = 6e12, .bytes = 4e9};
    const Operation quantize{.name = "quantize", .dtype = dtype, .bytes = 8e9};
    ceilings.fp8_tflops = 1200;
    EXPECT_DOUBLE_EQ(ceiling_ms(product, ceilings), 5);
    EXPECT_DOUBLE_EQ(ceiling_ms(quantize, ceilings), 2);
    ceilings.fp8_tflops = 0;
    EXPECT_DOUBLE_EQ(ceiling_ms(product, ceilings), 1);
    EXPECT_DOUBLE_EQ(ceiling_ms(quantize, ceilings), 2);
  }
}

TEST(DeviceCeilings, AreKeptByDeviceAndReplaced) {
  const TemporaryFolder folder;
  const std::filesystem::path file = ceilings_file(folder / "cache/gemm-algorithms");
  EXPECT_EQ(file, folder / "cache/device-ceilings.json");
  EXPECT_FALSE(find_ceilings(file, "GPU-1", "NVIDIA H200"));
  store_ceilings(file, {example("GPU-1", 600), example("GPU-2", 610)});
  store_ceilings(file, {example("GPU-1", 650)});
  EXPECT_EQ(find_ceilings(file, "GPU-1", "NVIDIA H200")->bf16_tflops, 650);
  EXPECT_EQ(find_ceilings(file, "GPU-2", "NVIDIA H200")->bf16_tflops, 610);
  EXPECT_EQ(find_ceilings(file, "GPU-3", "NVIDIA H200")->device_id, "GPU-1") << "of the same kind";
  EXPECT_FALSE(find_ceilings(file, "GPU-3", "NVIDIA H100"));
}

TEST(DeviceCeilings, OfAFileFromBeforeFp8AreReadAndKept) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "device-ceilings.json";
  store_ceilings(file, {example("GPU-1", 600)});
  auto json = nlohmann::ordered_json::parse(read_file(file));
  json["devices"][0].erase("fp8_tflops");
  write_file_atomically(file, json.dump());
  EXPECT_EQ(find_ceilings(file, "GPU-1", "")->fp8_tflops, 0);
  store_ceilings(file, {example("GPU-2", 610)});
  EXPECT_EQ(find_ceilings(file, "GPU-1", "")->bf16_tflops, 600);
}

TEST(DeviceCeilings, AreAllKeptWhenSeveralStoreThemAtOnce) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "device-ceilings.json";
  constexpr int kNumThreads = 4, kNumEach = 5;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kNumThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kNumEach; ++i)
        store_ceilings(file, {example("GPU-" + std::to_string(t * kNumEach + i))});
    });
  }
  threads.clear();  // joins them
  for (int i = 0; i < kNumThreads * kNumEach; ++i) {
    const std::string id = "GPU-" + std::to_string(i);
    EXPECT_TRUE(find_ceilings(file, id, "another device")) << id;
  }
}

TEST(DeviceCeilings, RefuseAFileOfAnotherKind) {
  const TemporaryFolder folder;
  for (const char* text : {"not JSON", "{}", "{\"format\": \"another\", \"devices\": []}"}) {
    std::ofstream(folder / "device-ceilings.json") << text;
    try {
      store_ceilings(folder / "device-ceilings.json", {example("GPU-1")});
      FAIL() << text;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("device-ceilings.json"));
      EXPECT_THAT(error.what(), HasSubstr("--measure-device"));
    }
    EXPECT_EQ(read_file(folder / "device-ceilings.json"), text) << "nothing is lost";
  }
}

TEST(DeviceCeilings, AreMeasuredOnACpuThroughTheOperationsOfTraining) {
  const std::unique_ptr<Backend> backend = create_cpu_backend(1);
  std::string said;
  const DeviceCeilings ceilings =
      measure_device(*backend, "", 0.01, [&](const std::string& text) { said += text; });
  EXPECT_EQ(ceilings.device, backend->description());
  EXPECT_EQ(ceilings.device_id, ceilings_id(*backend));
  for (const double measured :
       {ceilings.bf16_tflops, ceilings.fp32_tflops, ceilings.fp8_tflops, ceilings.copy_gb_per_s,
        ceilings.triad_gb_per_s, ceilings.launch_us, ceilings.round_trip_us})
    EXPECT_GT(measured, 0);
  EXPECT_FALSE(ceilings.power_w);
  EXPECT_THAT(said, HasSubstr("bf16 products of 1024 x 1024 x 1024 for 0.005 s"));
  EXPECT_THAT(said, HasSubstr("fp8 products of 1024 x 1024 x 1024 for 0.005 s"));
  EXPECT_EQ(to_json_text(ceilings_from_json_text(to_json_text(ceilings))), to_json_text(ceilings));
}

// The order of its two lines by time differs from that by gap.
RankProfile two_lines() {
  RankProfile p{.rank = 0, .first_step = 5, .last_step = 6, .device = "NVIDIA H200"};
  p.profile.num_steps = 2;
  p.profile.step_ms = 20;
  p.profile.idle_ms = 1;
  p.profile.lines = {{.operation = {.name = "linear_forward",
                                    .dimensions = "N O I",
                                    .sizes = {8, 4, 2},
                                    .dtype = DType::kBFloat16,
                                    .flops = 3e12},
                      .calls = 2,
                      .ms = 11,
                      .exposed_ms = 11},
                     {.operation = {.name = "adamw",
                                    .dimensions = "n",
                                    .sizes = {1024},
                                    .dtype = DType::kBFloat16,
                                    .bytes = 4e9},
                      .calls = 1,
                      .ms = 8,
                      .exposed_ms = 8}};
  p.profiled_ms = 20;
  p.unprofiled_ms = 19.5;
  return p;
}

TEST(ProfileReport, LinesComeByTheirGapToTheDevice) {
  RankProfile p = two_lines();
  std::string text = to_text(p);
  EXPECT_LT(text.find("linear_forward"), text.find("adamw")) << "without ceilings by time\n"
                                                             << text;
  EXPECT_THAT(text, HasSubstr("run `weft-train --measure-device` once"));
  p.ceilings = example("GPU-1");
  text = to_text(p);
  // 8 ms for what takes 1 ms of 4,000 GB/s; 11 ms for what takes 10 ms of 600 TF/s.
  EXPECT_LT(text.find("adamw"), text.find("linear_forward")) << text;
  EXPECT_THAT(text, HasSubstr("    7.000     8.000   40.0 %      1.000         500 GB/s"));
  EXPECT_THAT(text, HasSubstr("    1.000    11.000   55.0 %     10.000       545.5 TF/s"));
  EXPECT_THAT(text, HasSubstr("recording costs +2.6 %"));
  EXPECT_THAT(text, HasSubstr("690 W of 700 W\n  at these ceilings a step would take 11.000 ms\n"));
  EXPECT_THAT(text, HasSubstr("(idle: "));
}

TEST(ProfileReport, TellsThatTheRateOfFp8IsMissing) {
  RankProfile p = two_lines();
  p.ceilings = example("GPU-1");
  const std::string note = "the rate of fp8 products was not measured";
  EXPECT_THAT(to_text(p), Not(HasSubstr(note)));
  p.profile.lines[0].operation.dtype = DType::kFloat8E4M3;
  EXPECT_THAT(to_text(p), HasSubstr(note));
  p.ceilings->fp8_tflops = 1200;
  EXPECT_THAT(to_text(p), Not(HasSubstr(note)));
  EXPECT_THAT(to_text(p), HasSubstr("fp32 50 TF/s, fp8 1200 TF/s, memory 4000 GB/s"));
}

TEST(ProfileReport, RanksAreShownByLeastMeanAndMost) {
  RankProfile first = two_lines(), second = two_lines();
  const Operation reduce{
      .name = "all_reduce", .group = "data", .sizes = {1 << 20, 2}, .bytes = 1e6};
  first.profile.lines.push_back({.operation = reduce, .calls = 1, .ms = 1, .exposed_ms = 0.5});
  second.profile.lines.push_back({.operation = reduce, .calls = 1, .ms = 4, .exposed_ms = 3.5});
  second.rank = 1;
  second.profile.step_ms = 24;
  const std::string text = to_text_of_ranks({to_json_text(first), to_json_text(second)});
  EXPECT_THAT(text,
              HasSubstr("profile of 2 ranks: 22.000 ms a step in the mean, 20.000 to 24.000 ms, "
                        "rank 1 is the slowest"));
  // The rank that came last has the shortest time, which is the link's.
  EXPECT_THAT(text,
              HasSubstr("    2.000     2.000    9.1 %     1.000     2.500     4.000       1 GB/s "
                        "bus  all_reduce 1.0 MiB over 2 data ranks"));
}

}  // namespace
}  // namespace weft
