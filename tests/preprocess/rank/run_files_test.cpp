// Documents that wait in a spill file come to the same places as those that are written at once.
#include "preprocess/rank/run_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/rank/last_pass_work.h"
#include "preprocess/rank/spill_file.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Output = Batch::Output;

class Spilling : public ::testing::Test {
 protected:
  Output some_output() {
    Output output;
    const auto num_documents = static_cast<int>(random_() % 5);
    for (int i = 0; i < num_documents; ++i) {
      const auto num_sequences = static_cast<int32_t>(random_() % 3);
      output.document_sequences.push_back(num_sequences);
      output.locators.push_back(offset_ += random_() % 100);
      if (has_origins_) output.origins.push_back(origin_of(std::to_string(random_() % 1000)));
      for (int32_t s = 0; s < num_sequences; ++s) {
        const auto length = static_cast<int32_t>(random_() % 20 + 1);
        output.sequence_lengths.push_back(length);
        for (int32_t t = 0; t < length; ++t)
          output.tokens_16.push_back(static_cast<uint16_t>(random_()));
      }
    }
    return output;
  }
  static void add(TaskOffset& offset, const std::vector<Output>& outputs) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      offset.datasets[k].add(outputs[k].counts());
    }
  }
  static void finish(RunFiles& files, size_t k, const DatasetCounts& total) {
    files.prepare(k, total, {"a"});
    files.pair(k).write_index(total, {}, total, {});
  }
  static std::string content(const fs::path& folder, size_t k, const char* suffix) {
    return read_file(folder / (std::to_string(k) + suffix));
  }
  fs::path make(const char* name) {
    fs::create_directory(folder_.path() / name);
    return folder_.path() / name;
  }

  void expect_the_same_files();
  void expect_errors_of_damage();

  std::mt19937 random_{1};
  int64_t offset_ = 0;
  bool has_origins_ = false;
  TemporaryFolder folder_{memory_folder()};
};

TEST_F(Spilling, SpilledDocumentsGiveTheSameFiles) { expect_the_same_files(); }

TEST_F(Spilling, SpilledOriginsGiveTheSameFiles) {
  has_origins_ = true;
  expect_the_same_files();
  EXPECT_TRUE(SourceMap(folder_.path() / "spilled/1.sources").has_origins());
}

void Spilling::expect_the_same_files() {
  const fs::path direct = make("direct"), spilled = make("spilled");
  RunFiles files(direct, 2, TokenType::kUInt16, true, has_origins_);
  RunFiles spill_files(spilled, 2, TokenType::kUInt16, true, has_origins_);
  TaskOffset offset{{{}, {}}, 0, 0};
  for (int64_t task = 0; task < 3; ++task) {
    offset.num_input_bytes = 10'000 * task;
    const TaskOffset task_offset = offset;
    int64_t num_spilled_bytes = 0;
    for (int i = 0; i < 20; ++i) {
      const std::vector<Output> outputs = {some_output(), some_output()};
      files.write(offset, 7, outputs);
      spill_files.spill(task, num_spilled_bytes, outputs);
      num_spilled_bytes += RunFiles::spill_size(outputs);
      add(offset, outputs);
    }
    spill_files.spill(task, num_spilled_bytes,
                      {some_output(), some_output()});  // not told any more
    const std::vector<SpillFile> spill = {{spill_files.process_id(), num_spilled_bytes}};
    EXPECT_TRUE(has_spills(spilled, task, spill));
    spill_files.sync();
    spill_files.close_spill(task);
    spill_files.unspill(task, spill, task_offset, 7);
  }
  for (size_t k = 0; k < 2; ++k) {
    finish(files, k, offset.datasets[k]);
    finish(spill_files, k, offset.datasets[k]);
    finish(spill_files, k, offset.datasets[k]);  // again, as after a crash
    for (const char* suffix : {".bin", ".idx", ".sources"}) {
      EXPECT_EQ(content(direct, k, suffix), content(spilled, k, suffix)) << k << suffix;
    }
    EXPECT_EQ(SourceMap(spilled / (std::to_string(k) + ".sources")).num_documents(),
              offset.datasets[k].num_documents);
  }
}

// A batch of megabytes goes from file to file.
TEST_F(Spilling, ALongSpilledDocumentGivesTheSameFiles) {
  const fs::path direct = make("direct"), spilled = make("spilled");
  RunFiles files(direct, 1, TokenType::kInt32), spill_files(spilled, 1, TokenType::kInt32);
  std::vector<Output> outputs(1);
  outputs[0].document_sequences = {3};
  outputs[0].locators = {5};
  for (const int32_t length : {1'000'000, 1, 500'000}) {
    for (int32_t i = 0; i < length; ++i) outputs[0].tokens_32.push_back(i ^ length);
    outputs[0].sequence_lengths.push_back(length);
  }
  TaskOffset offset{{{}}, 0, 0};
  std::vector<Output> small = {some_output()};
  small[0].tokens_32.assign(static_cast<size_t>(small[0].counts().num_tokens), 7);
  small[0].tokens_16.clear();
  for (const auto* batch : {&small, &outputs, &small}) {
    files.write(offset, 0, *batch);
    add(offset, *batch);
  }
  int64_t num_spilled_bytes = 0;
  for (const auto* batch : {&small, &outputs, &small}) {
    spill_files.spill(0, num_spilled_bytes, *batch);
    num_spilled_bytes += RunFiles::spill_size(*batch);
  }
  spill_files.unspill(0, {{spill_files.process_id(), num_spilled_bytes}}, {{{}}, 0, 0}, 0);
  finish(files, 0, offset.datasets[0]);
  finish(spill_files, 0, offset.datasets[0]);
  for (const char* suffix : {".bin", ".idx", ".sources"}) {
    EXPECT_TRUE(content(direct, 0, suffix) == content(spilled, 0, suffix)) << suffix;
  }
}

// A process that was given up, or is of an earlier run, wakes up and spills what it had: the same
// task from another beginning.
TEST_F(Spilling, WhatALateProcessWritesIsReadByNobody) {
  const fs::path direct = make("direct"), spilled = make("spilled");
  RunFiles files(direct, 1, TokenType::kUInt16), late(spilled, 1, TokenType::kUInt16),
      next(spilled, 1, TokenType::kUInt16);
  const auto some = [this] {
    std::vector<Output> outputs = {some_output()};
    while (outputs[0].sequence_lengths.empty()) outputs = {some_output()};
    return outputs;
  };
  TaskOffset offset{{{}}, 0, 0};
  std::vector<SpillFile> spill;
  for (RunFiles* writer : {&late, &next}) {  // that goes on where the first one was cut off
    const std::vector<Output> outputs = some();
    files.write(offset, 0, outputs);
    add(offset, outputs);
    writer->spill(0, 0, outputs);
    spill.push_back({writer->process_id(), RunFiles::spill_size(outputs)});
  }
  late.spill(0, spill[0].num_bytes, some());
  next.unspill(0, spill, {{{}}, 0, 0}, 0);
  finish(files, 0, offset.datasets[0]);
  finish(next, 0, offset.datasets[0]);
  for (const char* suffix : {".bin", ".idx", ".sources"}) {
    EXPECT_EQ(content(direct, 0, suffix), content(spilled, 0, suffix)) << suffix;
  }
}

TEST_F(Spilling, OnlySpillFilesThatNoProgressSpeaksOfAreStale) {
  const fs::path path = make("run");
  RunFiles earlier(path, 1, TokenType::kUInt16), later(path, 1, TokenType::kUInt16);
  for (RunFiles* files : {&earlier, &later}) {
    for (const int64_t task : {0, 10}) files->spill(task, 0, {some_output()});
  }
  write_file_atomically(path / "spill.txt", "somebody's");
  std::map<int64_t, TaskProgress> progress;
  progress[0].spill = {{earlier.process_id(), 1}};
  progress[10].spill = {{earlier.process_id(), 1}, {later.process_id(), 1}};
  remove_stale_spills(path, progress);
  EXPECT_TRUE(fs::exists(spill_path(path, 0, earlier.process_id())));
  EXPECT_FALSE(fs::exists(spill_path(path, 0, later.process_id())));
  EXPECT_TRUE(fs::exists(spill_path(path, 10, earlier.process_id())));
  EXPECT_TRUE(fs::exists(spill_path(path, 10, later.process_id())));
  EXPECT_TRUE(fs::exists(path / "spill.txt"));
}

TEST_F(Spilling, ADamagedSpillFileIsAnErrorAtAnyByte) { expect_errors_of_damage(); }

TEST_F(Spilling, ADamagedSpillFileWithOriginsIsAnErrorAtAnyByte) {
  has_origins_ = true;
  expect_errors_of_damage();
}

void Spilling::expect_errors_of_damage() {
  const fs::path path = make("run");
  RunFiles files(path, 1, TokenType::kUInt16, true, has_origins_);
  std::vector<Output> outputs = {some_output()};
  while (outputs[0].sequence_lengths.empty()) outputs = {some_output()};
  files.spill(0, 0, outputs);
  const int64_t size_bytes = RunFiles::spill_size(outputs);
  const fs::path file = spill_path(path, 0, files.process_id());
  const auto spill_of = [&](int64_t num_bytes) {
    return std::vector<SpillFile>{{files.process_id(), num_bytes}};
  };
  const std::string whole = read_file(file);
  ASSERT_EQ(std::ssize(whole), size_bytes);
  for (int64_t size = 0; size < size_bytes; ++size) {
    fs::resize_file(file, static_cast<uintmax_t>(size));
    EXPECT_FALSE(has_spills(path, 0, spill_of(size_bytes)));
    EXPECT_ANY_THROW(files.unspill(0, spill_of(size_bytes), {{{}}, 0, 0}, 0)) << size;
    write_file_atomically(file, whole);
    if (size > 0) {
      EXPECT_THROW(files.unspill(0, spill_of(size), {{{}}, 0, 0}, 0), std::runtime_error) << size;
    }
  }
  // Counts that lie.
  for (size_t at = 0; at < 24; at += 8) {
    std::string lying = whole;
    const uint64_t lie = ~uint64_t{0} / 3;
    std::memcpy(lying.data() + at, &lie, sizeof lie);
    write_file_atomically(file, lying);
    EXPECT_THROW(files.unspill(0, spill_of(size_bytes), {{{}}, 0, 0}, 0), std::runtime_error) << at;
  }
}

TEST_F(Spilling, ASpillFileThatCannotBeMadeIsOnlyThat) {
  const fs::path path = make("run");
  RunFiles files(path, 1, TokenType::kUInt16);
  fs::create_directory(spill_path(path, 0, files.process_id()));
  EXPECT_THROW(files.spill(0, 0, {some_output()}), std::system_error);
  files.sync();
}

// A link that somebody planted in the work folder would lead to another file.
TEST_F(Spilling, TheLastPassesFollowNoLink) {
  const fs::path path = make("run");
  RunFiles files(path, 1, TokenType::kUInt16);
  DatasetCounts total;
  while (total.num_tokens == 0) {
    const std::vector<Output> outputs = {some_output()};
    files.write({{total}, 0, 0}, 0, outputs);
    total.add(outputs[0].counts());
  }
  files.prepare(0, total, {"a"});
  using Kind = LastPassPart::Kind;
  for (const Kind kind : {Kind::kIndex, Kind::kBin, Kind::kSources, Kind::kIdx}) {
    const char* suffix = kind == Kind::kIndex ? ".sources" : file_suffix(kind);
    const fs::path file = path / (std::string("0") + suffix), moved = folder_.path() / "moved";
    LastPassPart part{0, 0, kind, total, {{{}, 0}, {total, 0}}, 0, 0, {}};
    part.end_bytes = static_cast<int64_t>(fs::file_size(file));
    EXPECT_NO_THROW(carry_out(part, files, [] {})) << suffix;
    fs::rename(file, moved);
    fs::create_symlink(moved, file);
    EXPECT_THROW(carry_out(part, files, [] {}), std::system_error) << suffix;
    fs::rename(moved, file);
  }
}

TEST_F(Spilling, FilesOfAnEarlierRunAreFound) {
  const fs::path path = make("run");
  { const RunFiles files(path, 2, TokenType::kUInt16); }
  EXPECT_TRUE(RunFiles::are_there(path, 2));
  EXPECT_FALSE(RunFiles::are_there(path, 3));
  fs::remove(path / "1.bounds");
  EXPECT_FALSE(RunFiles::are_there(path, 2));
  EXPECT_TRUE(RunFiles::are_there(path, 1));
}

TEST(RunFiles, OnlyRankZeroMakesFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW(RunFiles(folder.path(), 1, TokenType::kUInt16, /*make=*/false), std::system_error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  { const RunFiles files(folder.path(), 1, TokenType::kUInt16); }
  EXPECT_NO_THROW(RunFiles(folder.path(), 1, TokenType::kUInt16, /*make=*/false));
}

}  // namespace
}  // namespace weft
