// Which text a run has read: one hash for the same lines, however they were read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/documents/line_hash.h"
#include "tests/preprocess/compressors.h"
#include "tests/preprocess/small_run.h"
#include "tokenizer/split/split.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TextHash hash_of(const std::vector<std::string>& lines) {
  TextHash hash;
  for (const std::string& line : lines) hash.add_line(line);
  return hash;
}

TEST(TextHash, PartsPutTogetherAreTheWhole) {
  const std::vector<std::string> lines = {"a", "", "b", std::string(1000, 'c'), "", "a", "d"};
  const uint64_t whole = hash_of(lines).value();
  for (size_t i = 0; i <= lines.size(); ++i) {
    for (size_t k = i; k <= lines.size(); ++k) {
      const auto begin = lines.begin();
      const auto at = [&](size_t n) { return begin + static_cast<std::ptrdiff_t>(n); };
      TextHash hash = hash_of({begin, at(i)});
      TextHash rest = hash_of({at(i), at(k)});
      rest.add(hash_of({at(k), lines.end()}), std::ssize(lines) - static_cast<int64_t>(k));
      hash.add(rest, std::ssize(lines) - static_cast<int64_t>(i));
      EXPECT_EQ(hash.value(), whole) << i << " " << k;
    }
  }
}

TEST(TextHash, TellsTextsApart) {
  std::set<uint64_t> values;
  size_t count = 0;
  const auto add = [&](const TextHash& hash) { values.insert(hash.value()), ++count; };
  add(hash_of({}));
  add(hash_of({""}));
  add(hash_of({"", ""}));
  add(hash_of({"a", "b"}));
  add(hash_of({"b", "a"}));
  add(hash_of({"ab"}));
  add(hash_of({"a", "", "b"}));
  TextHash too_long;
  too_long.add_too_long_line(1);
  add(too_long);
  add(hash_of({std::string("\1\0\0\0\0\0\0\0", 8)}));
  EXPECT_EQ(values.size(), count);
}

TEST(TextHash, IsTheSameForAllInstructions) {
#if defined(__x86_64__)
  const std::string text = lines_of_digits(1, 3000);
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string_view line = std::string_view(text).substr(text.size() - size);
    const uint64_t expected = line_hash_plain(line);
    EXPECT_EQ(line_hash(line), expected);
    if (has_simd(Simd::kAvx2)) {
      ASSERT_EQ(line_hash_avx2(line), expected) << size;
    }
    if (has_simd(Simd::kAvx512)) {
      ASSERT_EQ(line_hash_avx512(line), expected) << size;
    }
  }
#endif
  EXPECT_EQ(line_hash_plain(""), 0x2D06800538D394C2U);  // as XXH's own tests have it
}

class TextHashOfARun : public ::testing::Test, protected SmallRun {
 protected:
  uint64_t hash() const { return run().inputs.at(0).text.value(); }

  // Good, bad and blank lines, all line ends, and lines of 60 to 90 bytes about a limit of 80.
  static std::string some_input(const std::string& line_end) {
    std::string text;
    for (int i = 0; i < 600; ++i) {
      text += i % 50 == 7   ? "not json"
              : i % 50 == 8 ? ""
                            : "{\"text\":\"" + std::string(static_cast<size_t>(i % 97), 'x') +
                                  std::to_string(i) + "\"}";
      text += line_end;
    }
    return text;
  }
};

TEST_F(TextHashOfARun, DoesNotDependOnWhoReadsWhat) {
  config.rules.max_line_bytes = 80;
  write_input(some_input("\n"));
  const uint64_t expected = hash();
  for (const int workers : {1, 3}) {
    for (const size_t chunk_bytes : {size_t{1}, size_t{100}, size_t{4096}}) {
      for (const int64_t task_bytes : {int64_t{777}, kTaskBytes}) {
        config.num_workers = workers;
        config.chunk_bytes = chunk_bytes;
        config.task_bytes = task_bytes;
        EXPECT_EQ(hash(), expected) << workers << " " << chunk_bytes << " " << task_bytes;
      }
    }
  }
  for (const char* line_end : {"\r\n", "\r"}) {
    write_input(some_input(line_end));
    for (config.chunk_bytes = 1; config.chunk_bytes < 10000; config.chunk_bytes *= 97) {
      EXPECT_EQ(hash(), expected) << config.chunk_bytes;
    }
  }
  write_input(zstd(some_input("\n")));
  EXPECT_EQ(hash(), expected);
  // Of a line that is too long only its length is looked at.
  std::string other = some_input("\n");
  const size_t at = other.find(std::string(96, 'x'));
  other[at] = 'y';
  write_input(other);
  EXPECT_EQ(hash(), expected);
  other.insert(at, 1, 'x');
  write_input(other);
  EXPECT_NE(hash(), expected);
}

TEST_F(TextHashOfARun, DiffersForOneByteAndForSwappedLines) {
  const std::string a = "{\"text\":\"fox\"}\n", b = "{\"text\":\"dog\"}\n", c = "\n";
  std::set<uint64_t> values;
  for (const std::string& text : {a + b + c, a + c + b, c + a + b, b + a + c, a + b, a + b + b,
                                  std::string("{\"text\":\"fOx\"}\n") + b + c}) {
    write_input(text);
    values.insert(hash());
  }
  EXPECT_EQ(values.size(), 7U);
}

TEST_F(TextHashOfARun, IsThatOfAnUndisturbedRunAfterInterruptions) {
  write_input(some_input("\n"));
  const uint64_t expected = hash();
  config.overwrite = false;
  config.output_prefixes = {path("again")};
  config.chunk_bytes = 100;
  config.task_bytes = 1000;
  // At the first chance, then a little later each time.
  int num_stops = 0, num_asked = 0;
  events.stop_requested = [&] { return ++num_asked > num_stops; };
  std::optional<PipelineReport> report;
  while (!report) {
    num_asked = 0;
    try {
      report = run();
    } catch (const PipelineStopped&) {
      ++num_stops;
    }
  }
  ASSERT_TRUE(report);
  EXPECT_GE(num_stops, 1);
  EXPECT_EQ(report->inputs.at(0).text.value(), expected);
}

TEST_F(TextHashOfARun, StandsInTheManifestOfEachInput) {
  write_input(some_input("\n"));
  write_input("{\"text\":\"dog\"}\n", "second");
  config.inputs = {path("in"), path("second")};
  events.write_manifest = [](const PipelineReport& report, size_t k,
                             const std::filesystem::path& to) {
    write_manifest(to, report, k, {});
  };
  const PipelineReport report = run();
  const std::string manifest = read_file(path("out.manifest.json"));
  for (const InputReport& input : report.inputs) {
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(input.text.value()));
    EXPECT_THAT(manifest, HasSubstr(std::string("\"text_xxh3\": \"") + hex + "\""));
  }
}

// --max-output is a limit of an input, of which every reader knows a part.
class MaxOutput : public ::testing::Test, protected SmallRun {};

TEST_F(MaxOutput, HoldsOverAllPartsOfAnInput) {
  std::string text, compressed;
  for (uint32_t i = 0; i < 4; ++i) {
    text += lines_of_digits(i, 600'000);
    compressed += zstd(lines_of_digits(i, 600'000));
  }
  write_input(compressed);
  config.task_bytes = 100'000;  // a part each
  config.num_workers = 2;
  config.max_output_bytes = std::ssize(text);
  EXPECT_EQ(run().inputs.at(0).num_bytes, std::ssize(text));
  const std::string output = read_file(path("out.bin"));
  for (const int64_t limit : {std::ssize(text) - 1, std::ssize(text) / 2}) {
    config.max_output_bytes = limit;  // above that of any part
    try {
      run();
      ADD_FAILURE() << limit;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(exit_code_for(error), ExitCode::kOutOfMemory);
      EXPECT_EQ(error.what(), path("in") + ": gives more than the " + std::to_string(limit) +
                                  " bytes allowed per input; if it is no decompression bomb, raise "
                                  "--max-output");
    }
  }
  // With a higher limit the run goes on.
  config.overwrite = false;
  std::filesystem::remove(path("out.idx"));
  config.max_output_bytes = std::ssize(text);
  run();
  EXPECT_EQ(read_file(path("out.bin")), output);
  // Two inputs have a limit each; plain ones have none.
  config.overwrite = true;
  write_input(text, "plain");
  config.inputs = {path("in"), path("in")};
  EXPECT_NO_THROW(run());
  config.inputs = {path("plain")};
  config.max_output_bytes = 1000;
  EXPECT_NO_THROW(run());
}

}  // namespace
}  // namespace weft
