#include "trainer/plan/derived_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "indexed_dataset/order/samples/split.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/command_line/argument_file.h"
#include "trainer/identity/run_vocabulary.h"
#include "trainer/resume/resume.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

// The tokens of the sequences that training has of a dataset.
int64_t training_tokens(const std::string& prefix, const Config& config, bool has_own_paths) {
  const DatasetReader reader(prefix);
  std::optional<SequenceRange> range = SequenceRange{0, reader.num_sequences()};
  if (!has_own_paths)
    range = split_ranges(config.split, reader.num_sequences(), config.sample_order).front();
  int64_t tokens = 0;
  for (int64_t i = range ? range->begin : 0; range && i < range->end; ++i)
    tokens += reader.length(i);
  return tokens;
}

template <typename T>
void append_values(std::string& text, const std::vector<T>& values) {
  const size_t size = text.size();
  text.resize(size + values.size() * sizeof(T));
  std::memcpy(text.data() + size, values.data(), values.size() * sizeof(T));
}

// Another process may write the same bytes at the same time: a name is taken once, and stays.
void write_once(const fs::path& path, const std::string& bytes) {
  if (fs::exists(path)) return;
  const fs::path own = path.string() + fmt::format(".{}", getpid());
  write_file_atomically(own, bytes);
  std::error_code is_there;
  fs::create_hard_link(own, path, is_there);
  fs::remove(own);
}

}  // namespace

void resolve_train_epochs(Config& config) {
  if (!config.train_epochs || *config.train_epochs < 1 || config.seq_length < 1) return;
  if (config.train_iters || config.train_samples)
    throw UsageError(
        "--train-epochs excludes --train-iters and --train-samples: it gives their number");
  if (config.paths.empty()) throw UsageError("--train-epochs needs a dataset: give --data-path");
  const SplitBlends blends = resolve_data_paths(config.paths);
  const std::vector<Blend>& training = blends.of(Split::kTrain);
  const bool is_plain = training.size() == 1 && blends.changes.empty() &&
                        config.curriculum_metrics.empty() &&
                        (training.front().prefixes.size() == 1 ||
                         (training.front().weights.empty() && *config.train_epochs == 1));
  if (!is_plain)
    throw UsageError(fmt::format(
        "--train-epochs {}: only one dataset has epochs of its own; of several without weights each "
        "sample comes once (--train-epochs 1); else give --train-samples, weft-data index tells the "
        "epochs of each",
        *config.train_epochs));
  int64_t samples = 0;
  for (const std::string& prefix : training.front().prefixes) {
    int64_t tokens = 0;
    if (__builtin_mul_overflow(training_tokens(prefix, config, blends.has_own_paths),
                               *config.train_epochs, &tokens))
      throw UsageError("--train-epochs: the number of tokens does not fit into 64 bits");
    samples += (std::max<int64_t>(tokens, 1) - 1) / config.seq_length;
  }
  if (samples < 1)
    throw UsageError(fmt::format(
        "--train-epochs {}: the training set has less than one sample of --seq-length {}",
        *config.train_epochs, config.seq_length));
  config.train_samples = samples;
}

void make_mock_data(Config& config) {
  constexpr int64_t kDocuments = 2000, kLongest = 4096;
  Config without_data = config;
  without_data.dry_run = true;  // there is no dataset yet whose manifest could tell
  const RunVocabulary vocabulary = find_run_vocabulary(without_data);
  const auto end = static_cast<int32_t>(vocabulary.end_of_document);
  const auto words = static_cast<int32_t>(std::min<int64_t>(vocabulary.num_tokens, 1 << 30));
  std::vector<int32_t> tokens, lengths;
  std::vector<int64_t> offsets, bounds{0};
  uint64_t random = 0;
  for (int64_t document = 0; document < kDocuments; ++document) {
    // [Steele, Lea & Flood 2014, SplitMix64]
    uint64_t bits = random += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    const auto length = static_cast<int32_t>(1 + (bits ^ (bits >> 31)) % kLongest);
    offsets.push_back(static_cast<int64_t>(tokens.size() * sizeof(int32_t)));
    // The last id ends documents, as a rule.
    for (int32_t i = 1; i < length; ++i) tokens.push_back(i % std::max(words - 1, 1));
    tokens.push_back(end);
    lengths.push_back(length);
    bounds.push_back(document + 1);
  }
  std::string bin,
      idx = SharedPairWriter::index_header({.num_documents = kDocuments,
                                            .num_sequences = kDocuments,
                                            .num_tokens = static_cast<int64_t>(tokens.size())},
                                           TokenType::kInt32);
  append_values(bin, tokens);
  append_values(idx, lengths);
  append_values(idx, offsets);
  append_values(idx, bounds);
  const fs::path folder = fs::temp_directory_path() / fmt::format("weft-mock-data-{}", getuid());
  fs::create_directories(folder);
  const fs::path prefix = folder / fmt::format("{}_{}", words, end);
  write_once(prefix.string() + ".bin", bin);
  write_once(prefix.string() + ".idx", idx);
  config.paths.data_path = {prefix.string()};
}

std::vector<std::string> arguments_of_checkpoint(const Config& config) {
  if (!config.use_checkpoint_args || config.load.empty()) return {};
  const std::optional<CheckpointChoice> choice = checkpoint_to_load(config);
  if (!choice) return {};
  return shape_words_of(read_checkpoint_info(config.load, choice->iteration).arguments_json);
}

}  // namespace weft
