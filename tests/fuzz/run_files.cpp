// Files that say what a run reads and has read, of any content: refused in words, or read
// consistently. The first byte says which: `r` rows of integers (two bytes with the size of the
// .idx, then the .idx and the .bin), `n` an array of NumPy, `m` run_manifest.json and behind a NUL
// metrics.jsonl, `l` metrics.jsonl alone, `p` the manifest of a checkpoint, whose checksum fits,
// `o` losses of samples, `u` a file of --unsee, `b` a blend schedule, `c` metrics of a curriculum,
// `d` DeepSpeed's configuration.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/order/blends/blend_schedule.h"
#include "indexed_dataset/order/curriculum/integer_rows.h"
#include "indexed_dataset/order/curriculum/metric_curriculum.h"
#include "indexed_dataset/run_record/checkpoint_run.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "indexed_dataset/run_record/run_metrics.h"
#include "indexed_dataset/run_record/sample_losses.h"
#include "indexed_dataset/run_record/unseen_documents.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/command_line/deepspeed_config.h"

namespace weft {
namespace {

const std::filesystem::path& folder() {
  static const TemporaryFolder scratch("/dev/shm");
  return scratch.path();
}

std::filesystem::path write(const std::string& name, const std::string& content) {
  std::ofstream(folder() / name, std::ios::binary) << content;
  return folder() / name;
}

void read_rows(const std::string& content) {
  if (content.size() < 2) return;
  const size_t size = static_cast<uint8_t>(content[0]) + 256U * static_cast<uint8_t>(content[1]);
  const std::string rest = content.substr(2);
  write("rows.idx", rest.substr(0, size));
  write("rows.bin", size < rest.size() ? rest.substr(size) : "");
  const IntegerRows rows(folder() / "rows");
  FUZZ_CHECK(rows.row_begin(0) == 0 && rows.row_begin(rows.num_rows()) == rows.num_values());
  for (int64_t row = 0; row < rows.num_rows(); ++row)
    FUZZ_CHECK(rows.row_begin(row) <= rows.row_begin(row + 1));
  int64_t sum = 0;
  for (int64_t i = 0; i < rows.num_values(); ++i) sum ^= rows.value(i);
  static volatile int64_t kept = 0;
  kept = sum;
}

template <typename T>
void check_values(const NpyArray& array) {
  if (!array.holds<T>()) return;
  int64_t size = 1;
  for (const int64_t dimension : array.shape()) size *= dimension;
  FUZZ_CHECK(std::ssize(array.values<T>()) == size);
}

void read_array(const std::string& content) {
  const NpyArray array(write("array.npy", content));
  check_values<int16_t>(array);
  check_values<int32_t>(array);
  check_values<uint32_t>(array);
  check_values<int64_t>(array);
}

// A search finds what reading everything finds.
void read_metrics(const std::string& content) {
  write("metrics.jsonl", content);
  const std::vector<LoggedStep> steps = read_logged_steps(folder());
  for (const LoggedStep& step : steps) {
    for (const int64_t limit : {step.iteration - 1, step.iteration}) {
      const auto found = find_logged_step(folder(), limit);
      FUZZ_CHECK(!found || found->iteration <= limit);
    }
  }
}

void read_manifest(const std::string& content) {
  const size_t end = std::min(content.find('\0'), content.size());
  write("run_manifest.json", content.substr(0, end));
  write("metrics.jsonl", end < content.size() ? content.substr(end + 1) : "");
  const RunTimeline run = read_run(folder());
  FUZZ_CHECK(!run.segments().empty());
  for (const int64_t iteration : {int64_t{1}, int64_t{7}, int64_t{1'000'000}, INT64_MAX}) {
    try {
      const Stretch samples = run.of_iteration(iteration);
      FUZZ_CHECK(samples.first <= samples.last);
    } catch (const std::invalid_argument&) {
    } catch (const std::runtime_error&) {
    }
  }
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest})
    run.end_of_samples(run.segments().back(), split);
}

void read_checkpoint(const std::string& content) {
  std::filesystem::remove(folder() / "run_manifest.json");
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(content, nullptr, false);
  if (json.is_object()) {
    json.erase("checksum");
    add_checksum(json);
    write("manifest.json", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    write("manifest.json", content);
  }
  const RunTimeline run = read_run_of_checkpoint(folder());
  FUZZ_CHECK(run.last_trained().value() > 0 && !run.segments().empty());
  FUZZ_CHECK(run.of_iteration(*run.last_trained()).last >= 0);
}

void read_losses(const std::string& content) {
  const SampleLossReader losses(write("sample_losses.bin", content));
  const int64_t end = losses.end_sample(), first = std::max<int64_t>(0, end - 1000);
  FUZZ_CHECK(std::ssize(losses.read(first, end)) == end - first);
}

void read_unsee(const std::string& content) {
  static const std::string dataset = write_tiny_dataset(folder() / "data", 5);
  const UnseenDocuments unseen(write("unsee", content), {dataset}, folder());
  FUZZ_CHECK(unseen.num_documents() >= 0 && unseen.num_documents() <= 5);
  FUZZ_CHECK((unseen.num_documents() > 0) == (unseen.find(dataset) != nullptr));
}

void read_schedule(const std::string& content) {
  Blend first;
  first.prefixes = {"a", "b"};
  first.weights = {0.25, 0.75};
  for (const BlendChange& change :
       read_blend_schedule(write("schedule", content).string(), first)) {
    FUZZ_CHECK(change.from_samples.has_value() != change.from_tokens.has_value());
    FUZZ_CHECK(change.from_samples.value_or(1) > 0 && change.from_tokens.value_or(1) > 0);
    FUZZ_CHECK(!change.blend.prefixes.empty());
    for (const double weight : change.blend.weights)
      FUZZ_CHECK(std::isfinite(weight) && weight >= 0);
  }
}

void read_deepspeed(const std::string& content) {
  Config config;
  config.deepspeed_config = write("deepspeed.json", content).string();
  std::vector<std::string> problems, notes;
  apply_deepspeed_config(
      config, [](const std::string&) { return false; }, problems, notes);
}

void read_one(char kind, const std::string& content) {
  switch (kind) {
    case 'r':
      return read_rows(content);
    case 'n':
      return read_array(content);
    case 'm':
      return read_manifest(content);
    case 'l':
      return read_metrics(content);
    case 'p':
      return read_checkpoint(content);
    case 'o':
      return read_losses(content);
    case 'u':
      return read_unsee(content);
    case 'b':
      return read_schedule(content);
    case 'c':
      parse_curriculum_metrics(content);
      return;
    case 'd':
      return read_deepspeed(content);
    default:
      return;
  }
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    weft::read_one(static_cast<char>(data[0]),
                   std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const nlohmann::json::exception&) {
    FUZZ_CHECK(!"a JSON exception tells the user nothing");
  } catch (const std::invalid_argument&) {
  } catch (const std::runtime_error&) {
  }
  return 0;
}
