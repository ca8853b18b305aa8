// Times how long a run by a metric curriculum takes to make its draws when it starts, and how fast
// they are read.
//
//   weft_metric_draws_bench FOLDER [SAMPLES [DRAWS]]      of values that are all different, and of 1,000 values
//
// FOLDER takes the files of the metrics (40 bytes a sample) and the cache of draws. Results stand
// in results/.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/order/curriculum/metric_curriculum.h"
#include "indexed_dataset/order/curriculum/metric_files.h"

namespace {

using namespace weft;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

template <typename Work>
auto timed(const std::string& what, int64_t count, const Work& work) {
  const auto start = Clock::now();
  const std::clock_t cpu_start = std::clock();
  auto result = work();
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  fmt::print(
      "  {}: {:.2f} s, of processor {:.2f} s, {:.1f} M a second of processor; peak {:.2f} GiB\n",
      what, wall, cpu, static_cast<double>(count) / 1e6 / cpu, peak_gib());
  std::fflush(stdout);
  return result;
}

void bench(const fs::path& folder, int64_t num_samples, int64_t num_draws, int64_t num_values) {
  fmt::print("{} samples of {} values, {} draws\n", num_samples, num_values, num_draws);
  std::vector<int64_t> values(static_cast<size_t>(num_samples));
  uint64_t state = 1;
  for (int64_t& value : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<int64_t>((state >> 20) % static_cast<uint64_t>(num_values));
  }
  timed("files of the metric", num_samples, [&] {
    return write_metric_files(folder, {.name = "m"}, values, nlohmann::ordered_json::object());
  });
  values = {};
  const std::string prefix = (folder / "m" / "m").string();
  // The pool grows at 99 iterations, over the first half of the run.
  const int64_t batch = 512, last_step = num_draws / batch / 2;
  const MetricCurriculum curriculum{
      .metrics = fmt::format(
          R"({{"m": {{"index_to_sample_path": "{0}_index_to_sample", "index_to_metric_path": "{0}_index_to_metric",
              "difficulty_type": "percentile", "min_difficulty": 1, "max_difficulty": 100, "schedule_type": "fixed_linear",
              "schedule_config": {{"total_curriculum_step": {1}, "difficulty_step": 1}}}}}})",
          prefix, std::max<int64_t>(last_step, 1)),
      .global_batch_size = batch};
  CurriculumRequest request{.num_samples = num_samples,
                            .num_draws = num_draws,
                            .sequence_length = 2048,
                            .check_order = {}};
  timed("start, draws in memory", num_draws, [&] { return open_curriculum(curriculum, request); });
  request.cache_path = (folder / "cache").string();
  timed("start, draws written to the cache", num_draws,
        [&] { return open_curriculum(curriculum, request); });
  const OpenedCurriculum opened = timed("start, draws mapped from the cache", num_draws,
                                        [&] { return open_curriculum(curriculum, request); });
  const int64_t sum = timed("every draw read once", num_draws, [&] {
    int64_t all = 0;
    for (int64_t i = 0; i < num_draws; ++i) all += opened.order->sample_at(i);
    return all;
  });
  fmt::print("  sum of the samples drawn: {}\n", sum);
  fs::remove_all(folder / "cache");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("see the top of metric_draws_bench.cpp\n");
    return 2;
  }
  const int64_t num_samples = argc > 2 ? std::atoll(argv[2]) : 10'000'000;
  const int64_t num_draws = argc > 3 ? std::atoll(argv[3]) : num_samples;
  bench(argv[1], num_samples, num_draws, 1'000);
  bench(argv[1], num_samples, num_draws, int64_t{1} << 40);
  return 0;
}
