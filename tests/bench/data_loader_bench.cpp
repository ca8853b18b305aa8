// Speed of the training samples: from mapped files in shuffled order to batches in host memory.
//
//   weft_data_loader_bench write PREFIX [MILLION_TOKENS [TOKENS_A_DOCUMENT]]   makes a dataset of uint16
//   weft_data_loader_bench read PREFIX [--seq-length T] [--micro-batch-size B] [--threads N]
//   [--steps N]
//                               [--step-ms MS] [--read-ahead BATCHES] [--cold]
//                               [--documents tokens|dataset]
//
// A step takes one micro-batch. MB/s are 10^6 bytes of the file (2 bytes a token) that arrive in a
// batch, once per second of processor time of the threads that fill batches, once per second of the
// clock. --step-ms rests after each step, as training does, and then the time that next() waits is
// what counts. --cold first takes the files out of the page cache. --documents adds the bounds of
// documents, by end-of-document tokens or by the dataset's documents. Results stand in results/.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "kernels/backend.h"
#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/indexed_dataset/order_of.h"
#include "trainer/data/data_loader.h"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

constexpr int64_t kVocabularySize = 50257;

void write(const std::string& prefix, int64_t num_tokens, int64_t mean_length) {
  DatasetWriter writer(prefix, TokenType::kUInt16);
  std::mt19937_64 random(1);
  std::exponential_distribution<double> lengths(1.0 / static_cast<double>(mean_length));
  std::vector<uint16_t> tokens;
  while (writer.num_tokens() < num_tokens) {
    tokens.resize(static_cast<size_t>(1 + lengths(random)));
    for (uint16_t& token : tokens) token = static_cast<uint16_t>(random() % kVocabularySize);
    tokens.back() = kVocabularySize - 1;
    const auto length = static_cast<int32_t>(tokens.size());
    writer.append_documents(std::as_bytes(std::span(tokens)), std::span(&length, 1));
  }
  writer.finish();
}

// Takes a file's clean pages out of the page cache.
void forget(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error(path + ": cannot open");
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

// Bytes that this process has caused to be read from disks.
int64_t disk_bytes() {
  std::ifstream in("/proc/self/io");
  std::string name;
  for (int64_t value = 0; in >> name >> value;)
    if (name == "read_bytes:") return value;
  return 0;
}

// Returns the processor time of each thread of this process by its id, in seconds.
std::map<int64_t, double> thread_times() {
  std::map<int64_t, double> times;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    int64_t nanoseconds = 0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    times[std::stoll(task.path().filename())] = 1e-9 * static_cast<double>(nanoseconds);
  }
  return times;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Reading {
  std::string prefix;
  int64_t sequence_length = 1024, micro_batch_size = 16, num_threads = 2, num_steps = 500;
  int64_t read_ahead_batches = DataLoaderOptions{}.read_ahead_batches;
  double step_ms = 0;
  bool cold = false;
  std::string documents;  // "", tokens or dataset: what ends those whose bounds batches tell
};

void read(const Reading& reading) {
  const int64_t num_samples = reading.num_steps * reading.micro_batch_size;
  const TrainingDatasets datasets = build_training_datasets(
      order_of({.data_path = {reading.prefix}}, "100,0,0", reading.sequence_length),
      {.train_samples = num_samples});
  if (reading.cold)
    for (const char* suffix : {".bin", ".idx"}) forget(reading.prefix + suffix);
  const std::unique_ptr<Backend> backend = create_cpu_backend(1);
  const int64_t read_before = disk_bytes();
  const std::map<int64_t, double> threads_before = thread_times();
  const Clock::time_point start = Clock::now();
  DataLoader loader(
      *backend, *datasets.train,
      {.micro_batch_size = reading.micro_batch_size,
       .vocab_size = kVocabularySize,
       .end_of_document_id = kVocabularySize - 1,
       .document_ends = reading.documents.empty()       ? DocumentEnds::kNone
                        : reading.documents == "tokens" ? DocumentEnds::kEndOfDocumentTokens
                                                        : DocumentEnds::kDataset,
       .num_threads = reading.num_threads,
       .read_ahead_batches = reading.read_ahead_batches},
      {[&](int64_t) { return reading.micro_batch_size; }, reading.micro_batch_size});
  double longest_wait_ms = 0, first_wait_ms = 0;
  for (int64_t step = 0; step < reading.num_steps; ++step) {
    const double before = loader.waited_ms();
    loader.next();
    const double waited = loader.waited_ms() - before;
    (step == 0 ? first_wait_ms : longest_wait_ms) =
        step == 0 ? waited : std::max(longest_wait_ms, waited);
    if (reading.step_ms > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(reading.step_ms));
    loader.release();
  }
  const double seconds = seconds_since(start);
  // The loader's threads are new. The first of them reads ahead, the others fill batches.
  double reading_ahead = 0, filling = 0;
  bool is_first = reading.read_ahead_batches > 0;
  for (const auto& [id, time] : thread_times()) {
    if (threads_before.contains(id)) continue;
    (is_first ? reading_ahead : filling) += time;
    is_first = false;
  }
  const double mb = 2e-6 * static_cast<double>(num_samples * reading.sequence_length);
  fmt::print(
      "{:.0f} MB of tokens: {:.0f} MB/s of processor time, {:.0f} MB/s, {:.2f} s to read ahead; waited "
      "{:.1f} ms for the first batch, {:.1f} ms for the others, {:.1f} ms at most; {:.0f} MB from "
      "disk\n",
      mb, mb / filling, mb / seconds, reading_ahead, first_wait_ms,
      loader.waited_ms() - first_wait_ms, longest_wait_ms,
      1e-6 * static_cast<double>(disk_bytes() - read_before));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Speed of the training samples"};
  app.require_subcommand(1);
  std::string prefix;
  int64_t million_tokens = 500, mean_length = 700;
  CLI::App* writing = app.add_subcommand("write", "makes a dataset");
  writing->add_option("prefix", prefix)->required();
  writing->add_option("million_tokens", million_tokens);
  writing->add_option("tokens_a_document", mean_length);
  Reading reading;
  CLI::App* reads = app.add_subcommand("read", "reads one in shuffled order");
  reads->add_option("prefix", reading.prefix)->required();
  reads->add_option("--seq-length", reading.sequence_length);
  reads->add_option("--micro-batch-size", reading.micro_batch_size);
  reads->add_option("--threads", reading.num_threads);
  reads->add_option("--steps", reading.num_steps);
  reads->add_option("--step-ms", reading.step_ms);
  reads->add_option("--read-ahead", reading.read_ahead_batches);
  reads->add_flag("--cold", reading.cold);
  reads->add_option("--documents", reading.documents)->check(CLI::IsMember({"tokens", "dataset"}));
  CLI11_PARSE(app, argc, argv);
  try {
    if (*writing) write(prefix, million_tokens * 1000000, mean_length);
    if (*reads) read(reading);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
