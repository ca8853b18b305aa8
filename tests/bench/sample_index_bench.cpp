// Times the indexes that a training run builds at its start.
//
//   weft_sample_index_bench blend [DATASETS [SAMPLES]]     blending index; the plain loop on fewer samples
//   weft_sample_index_bench order [SEQUENCES [SAMPLES]]    document, sample and shuffle index, in memory
//   weft_sample_index_bench lengths FILE SEQUENCES         writes the lengths that order takes, 4 bytes each
//   weft_sample_index_bench idx PREFIX SEQUENCES           writes PREFIX.idx, and a .bin that is a hole
//
// sample_indexes.py runs it in turns with Megatron-Core. Results stand in results/.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "indexed_dataset/order/blends/blend_sizes.h"
#include "indexed_dataset/order/samples/blending_index.h"
#include "indexed_dataset/order/samples/gpt_index.h"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
// Time of this process on processors: other programs on the machine lengthen it less.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
// Memory of this process now, and at most.
double resident_gib() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096 / (1 << 30);
}
double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

// Megatron's loop: every dataset is looked at for every sample.
int64_t plain_loop(const std::vector<double>& weights, int64_t size) {
  std::vector<int64_t> counts(weights.size());
  int64_t sum = 0;
  for (int64_t k = 0; k < size; ++k) {
    const double at = std::max(static_cast<double>(k), 1.0);
    size_t best = 0;
    double most = weights[0] * at - static_cast<double>(counts[0]);
    for (size_t d = 1; d < weights.size(); ++d) {
      const double behind = weights[d] * at - static_cast<double>(counts[d]);
      if (behind > most) {
        most = behind;
        best = d;
      }
    }
    sum += static_cast<int64_t>(best) * (k % 7) + counts[best]++;
  }
  return sum;
}

void bench_blend(int64_t num_datasets, int64_t num_samples) {
  for (const char* kind : {"equal", "alike to 1e-6", "uniform", "exponential"}) {
    std::mt19937 random(1);
    std::vector<double> weights(static_cast<size_t>(num_datasets), 1.0);
    for (double& weight : weights) {
      const double uniform = (random() + 1.0) / 4294967297.0;
      if (kind[0] == 'a') weight += uniform * 1e-6;
      if (kind[0] == 'u') weight = uniform;
      if (kind[1] == 'x') weight = std::exp(8 * uniform);
    }
    weights = normalize_weights(weights);
    const int64_t num_plain = std::max<int64_t>(num_samples / 100, 1);
    double cpu_start = cpu_seconds();
    const int64_t check = plain_loop(weights, num_plain);
    const double plain = cpu_seconds() - cpu_start;
    cpu_start = cpu_seconds();
    const auto start = Clock::now();
    const BlendingIndex index = build_blending_index(weights, num_samples);
    const double wall = seconds_since(start), ours = cpu_seconds() - cpu_start;
    int64_t sum = 0;
    for (int64_t k = 0; k < num_plain; ++k)
      sum += index.view().dataset_of(k) * (k % 7) + index.sample_index[static_cast<size_t>(k)];
    fmt::print(
        "{} datasets, {} samples, weights {}: {:.2f} s, of processor {:.2f} s ({:.0f} ns a sample); plain loop {:.0f} ns "
        "a sample: {:.1f} times; peak {:.2f} GiB{}\n",
        num_datasets, num_samples, kind, wall, ours, ours / static_cast<double>(num_samples) * 1e9,
        plain / static_cast<double>(num_plain) * 1e9,
        plain * static_cast<double>(num_samples) / static_cast<double>(num_plain) / ours,
        peak_gib(), sum == check ? "" : "; DIFFERENT");
    std::fflush(stdout);
  }
}

// Lengths as in web text: most are a few hundred tokens, the mean is 1024.
std::vector<int32_t> synthetic_lengths(int64_t count) {
  std::vector<int32_t> lengths(static_cast<size_t>(count));
  uint64_t state = 1;
  for (int32_t& length : lengths) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double uniform = static_cast<double>((state >> 33) + 1) / 2147483649.0;
    length = 1 + static_cast<int32_t>(-1023.0 * std::log(uniform));
  }
  return lengths;
}

// Tells permutations apart, and is soon computed in NumPy too: sum of (i + 1) * value, modulo 2^64.
template <typename Values>
uint64_t checksum(const Values& values) {
  uint64_t sum = 0, place = 0;
  for (const auto value : values) sum += ++place * static_cast<uint64_t>(value);
  return sum;
}

void bench_order(int64_t num_sequences, int64_t num_samples) {
  const std::vector<int32_t> lengths = synthetic_lengths(num_sequences);
  const double before = resident_gib(), cpu_start = cpu_seconds();
  const auto start = Clock::now();
  const GptIndex index = build_gpt_index(
      SequenceLengths(lengths),
      {.range = {0, num_sequences}, .num_samples = num_samples, .sequence_length = 2048});
  const double took = seconds_since(start), cpu = cpu_seconds() - cpu_start;
  const double own = (static_cast<double>(index.document_index.size()) * 4 +
                      static_cast<double>(index.plan.num_samples) * 12) /
                     (1 << 30);
  const double taken = peak_gib() - before;
  const auto sum = [](const auto& values) { return checksum(values); };
  fmt::print(
      "{} sequences, {} samples asked, {} built, {} epochs: {:.2f} s, of processor {:.2f} s; "
      "indexes {:.2f} GiB, built in {:.2f} GiB; checksums {} {} {}\n",
      num_sequences, num_samples, index.plan.num_samples, index.plan.num_epochs, took, cpu, own,
      taken, sum(index.document_index), std::visit(sum, index.sample_index),
      std::visit(sum, index.shuffle_index));
}

template <typename T>
void write_values(std::ofstream& file, const std::vector<T>& values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

void write_synthetic_index(const std::string& prefix, int64_t count) {
  const std::vector<int32_t> lengths = synthetic_lengths(count);
  std::ofstream file(prefix + ".idx", std::ios::binary);
  file.write("MMIDIDX\0\0", 9);
  write_values(file, std::vector<int64_t>{1});
  file.put(8);
  write_values(file, std::vector<int64_t>{count, count + 1});
  write_values(file, lengths);
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  int64_t end = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    numbers[i] = end;
    end += 2 * int64_t{lengths[i]};
  }
  write_values(file, numbers);
  numbers.resize(static_cast<size_t>(count) + 1);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  write_values(file, numbers);
  std::ofstream(prefix + ".bin").put(0);
  std::filesystem::resize_file(prefix + ".bin", static_cast<uintmax_t>(end));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i, int64_t otherwise) {
    return argc > i ? std::atoll(argv[i]) : otherwise;
  };
  if (what == "blend") {
    bench_blend(number(2, 1000), number(3, 150'000'000));
  } else if (what == "order") {
    bench_order(number(2, 300'000'000), number(3, 150'000'000));
  } else if (what == "lengths" && argc == 4) {
    std::ofstream file(argv[2], std::ios::binary);
    write_values(file, synthetic_lengths(number(3, 0)));
  } else if (what == "idx" && argc == 4) {
    write_synthetic_index(argv[2], number(3, 0));
  } else {
    fmt::print("see the top of sample_index_bench.cpp\n");
    return 2;
  }
  return 0;
}
