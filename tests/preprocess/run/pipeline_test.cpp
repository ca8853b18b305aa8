#include "preprocess/run/pipeline.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/reader.h"
#include "tests/temporary_folder.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

constexpr char kSomeText[] =
    "the quick brown fox jumps over the lazy dog; the dog barks, the fox runs over the hill 12 34 "
    "12 34\n";

class Pipeline : public ::testing::Test {
 protected:
  Pipeline() {
    VocabularyTrainer trainer;
    for (int i = 0; i < 3; ++i) trainer.add_text(kSomeText);
    const LearnedVocabulary learned = trainer.train(300, 2);
    write_file_atomically(path("vocab.json"), learned.vocab_json);
    write_file_atomically(path("merges.txt"), learned.merges_txt);
    vocabulary_ = test::load_gpt2_files(path("vocab.json"), path("merges.txt"));
    config_.inputs = {path("in.jsonl")};
    config_.output_prefixes = {path("out")};
    config_.overwrite = true;
    config_.sync_interval = std::chrono::milliseconds(5);
  }
  ~Pipeline() override { set_io_fault(0, 0); }

  std::string path(const std::string& name) const { return folder_.path() / name; }
  void write_input(const std::string& text, const std::string& name = "in.jsonl") const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  PipelineReport run() const { return run_pipeline(config_, vocabulary_, {}); }

  // The texts of the dataset; "" for empty documents, which are counted by the bounds.
  std::vector<std::string> documents(const std::string& name = "out") const {
    EXPECT_TRUE(verify_dataset(path(name), vocabulary_->size()).empty());
    const DatasetReader reader(path(name));
    const Tokenizer tokenizer(vocabulary_);
    std::vector<std::string> texts;
    for (int64_t d = 0; d < reader.num_documents(); ++d) {
      texts.emplace_back();
      for (int64_t s = reader.document_bound(d); s < reader.document_bound(d + 1); ++s) {
        const std::vector<int32_t> ids = reader.tokens(s);
        texts.back() += tokenizer.decode(ids.data(), ids.size());
      }
    }
    return texts;
  }

  std::string error() const {
    try {
      run();
    } catch (const std::runtime_error& caught) {
      return caught.what();
    }
    return "";
  }

  void expect_no_output() const {
    for (const char* name : {"out.bin", "out.idx", "out.bin.part", "out.idx.part"}) {
      EXPECT_FALSE(std::filesystem::exists(path(name))) << name;
    }
  }

  TemporaryFolder folder_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  PipelineConfig config_;
};

using ::testing::Test;
using Texts = std::vector<std::string>;

TEST_F(Pipeline, WritesOneDocumentPerLineInOrder) {
  write_input(
      "{\"text\":\"the fox\"}\n{\"text\":\"\"}\r\n{\"x\":0,\"text\":\"dog\"}\r{\"text\":\"hill\"}");
  const PipelineReport report = run();
  EXPECT_EQ(documents(), (Texts{"the fox", "", "dog", "hill"}));
  EXPECT_EQ(report.totals.num_documents, 4);
  EXPECT_EQ(report.totals.num_empty_documents, 1);
  EXPECT_EQ(report.inputs.at(0).num_lines, 4);
  EXPECT_EQ(report.inputs.at(0).num_bytes, report.inputs.at(0).num_file_bytes);
}

TEST_F(Pipeline, EndOfDocumentFollowsTextsWithTokensOnly) {
  config_.rules.append_eod = true;
  write_input("{\"text\":\"dog\"}\n{\"text\":\"\"}\n");
  run();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>", ""}));
  config_.rules.empty_documents = EmptyDocuments::kSkip;
  const PipelineReport report = run();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>"}));
  EXPECT_EQ(report.totals.num_documents, 2);
  EXPECT_EQ(report.outputs.at(0).num_documents, 1);
}

TEST_F(Pipeline, OutputDoesNotDependOnWorkersOrChunks) {
  std::string input;
  for (int i = 0; i < 2000; ++i) {
    input += i % 50 == 7 ? "not json\n"
                         : "{\"text\":\"" + std::string(kSomeText, static_cast<size_t>(i % 97)) +
                               std::to_string(i) + "\\ud800\"}" + (i % 3 == 0 ? "\r\n" : "\n");
  }
  write_input(input);
  config_.rules.on_bad_line = OnBadLine::kSkip;
  config_.rules.append_eod = true;
  const PipelineReport expected = run();
  const std::string bin = read_file(path("out.bin")), idx = read_file(path("out.idx"));
  EXPECT_EQ(expected.totals.bad_lines.total(), 40);
  EXPECT_EQ(expected.totals.num_replaced_surrogates, 1960);
  for (const int workers : {1, 2, 7}) {
    for (const size_t chunk_bytes : {size_t{1}, size_t{100}, size_t{4096}}) {
      config_.num_workers = workers;
      config_.chunk_bytes = chunk_bytes;
      config_.task_bytes = workers == 2 ? 777 : kTaskBytes;
      config_.max_held_bytes_per_worker = workers == 7 ? 1 : 1 << 20;
      const PipelineReport report = run();
      ASSERT_EQ(read_file(path("out.bin")), bin);
      ASSERT_EQ(read_file(path("out.idx")), idx);
      ASSERT_EQ(report.shown_bad_lines.size(), 10U);
      for (size_t i = 0; i < 10; ++i) {
        ASSERT_EQ(report.shown_bad_lines[i].message(), expected.shown_bad_lines[i].message());
      }
      ASSERT_EQ(report.totals.num_bytes, expected.totals.num_bytes);
    }
  }
}

TEST_F(Pipeline, ReadsSeveralInputsInOrderEachWithItsOwnLines) {
  write_input("{\"text\":\"a\"}", "1.jsonl");
  write_input("{\"text\":\"b\"}\nbad\n", "2.jsonl");
  write_input("", "3.jsonl");
  config_.inputs = {path("2.jsonl"), path("3.jsonl"), path("1.jsonl"), path("2.jsonl")};
  config_.rules.on_bad_line = OnBadLine::kSkip;
  const PipelineReport report = run();
  EXPECT_EQ(documents(), (Texts{"b", "a", "b"}));
  ASSERT_EQ(report.shown_bad_lines.size(), 2U);
  EXPECT_EQ(report.shown_bad_lines[1].message(),
            path("2.jsonl") + ":2: (byte 13) not valid JSON: expected a value");
  EXPECT_EQ(report.inputs.size(), 4U);
}

TEST_F(Pipeline, WritesOneDatasetPerKeyAndNoHalfDocuments) {
  config_.rules.json_keys = {"text", "title"};
  config_.output_prefixes = {path("out"), path("title")};
  config_.rules.on_bad_line = OnBadLine::kSkip;
  write_input(
      "{\"title\":\"fox\",\"text\":\"dog\"}\n{\"text\":\"alone\"}\n{\"text\":\"\",\"title\":"
      "\"over\"}\n");
  EXPECT_EQ(run().totals.bad_lines.total(), 1);
  EXPECT_EQ(documents("out"), (Texts{"dog", ""}));
  EXPECT_EQ(documents("title"), (Texts{"fox", "over"}));
}

TEST_F(Pipeline, CountsBadLinesByReason) {
  config_.rules.on_bad_line = OnBadLine::kSkip;
  config_.rules.special_tokens = SpecialTokens::kError;
  config_.rules.max_line_bytes = 40;
  write_input(
      "{\"text\":\"good\"}\n\n{\"text\":\"\xff\"}\n{\"text\":\n[]\n{}\n{\"text\":1}\n{\"text\":\"" +
      std::string(40, 'x') +
      "\"}\n{\"text\":\"a<|endoftext|>b\"}\n{\"text\":\"\xed\xa0\x80\"}\n{\"text\":\"end\"}\n");
  const PipelineReport report = run();
  EXPECT_EQ(documents(), (Texts{"good", "end"}));
  EXPECT_EQ(report.totals.bad_lines.summary(),
            "9 bad lines (1 blank line, 2 invalid UTF-8, 1 not valid JSON, 1 not a JSON object, 1 "
            "missing key, 1 not a "
            "string, 1 line too long, 1 special token in the text)");
  EXPECT_EQ(report.shown_bad_lines.at(5).message(),
            path("in.jsonl") +
                ":7: (byte 45) not a string: the value of \"text\", at byte 8 of the line; it is a "
                "number");
}

TEST_F(Pipeline, StopNamesTheFirstBadLineAndLeavesNothing) {
  std::string input;
  for (int i = 0; i < 500; ++i) input += "{\"text\":\"dog\"}\n";
  const auto offset = std::to_string(input.size());
  write_input(input + "{\"text\":\"dog\"\nbad as well\n");
  for (const size_t chunk_bytes : {size_t{50}, size_t{1} << 20}) {
    config_.chunk_bytes = chunk_bytes;
    config_.num_workers = 3;
    EXPECT_EQ(error(), path("in.jsonl") + ":501: (byte " + offset +
                           ") not valid JSON: expected ',' or '}', at byte 13 of the line\n  "
                           "nothing was written; repair "
                           "the line, or use --on-bad-line skip to leave bad lines out");
    expect_no_output();
  }
}

TEST_F(Pipeline, StopsAtTheLimitOfBadLines) {
  write_input("bad\nbad\n{\"text\":\"dog\"}\nbad\n");
  config_.rules.on_bad_line = OnBadLine::kSkip;
  config_.max_bad_lines = 3;
  EXPECT_EQ(error(), "");
  config_.max_bad_lines = 2;
  config_.output_prefixes = {path("new")};
  EXPECT_EQ(error(), "more bad lines than --max-bad-lines 2 allows; nothing was written");
  EXPECT_FALSE(std::filesystem::exists(path("new.idx")));
}

TEST_F(Pipeline, SpecialTokenMeansWhatWasChosen) {
  write_input("{\"text\":\"dog<|endoftext|>fox\"}\n");
  run();
  const int64_t num_literal = DatasetReader(path("out")).num_tokens();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>fox"}));
  config_.rules.special_tokens = SpecialTokens::kToken;
  run();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>fox"}));
  EXPECT_LT(DatasetReader(path("out")).num_tokens(), num_literal);
}

TEST_F(Pipeline, SkipsAHugeLineInBoundedMemory) {
  write_input("{\"text\":\"a\"}\n{\"text\":\"" + std::string(3 << 20, 'x') +
              "\"}\n{\"text\":\"b\"}\n");
  config_.rules.on_bad_line = OnBadLine::kSkip;
  config_.rules.max_line_bytes = 1 << 16;
  config_.chunk_bytes = 1 << 12;
  const PipelineReport report = run();
  EXPECT_EQ(documents(), (Texts{"a", "b"}));
  EXPECT_EQ(
      report.shown_bad_lines.at(0).message(),
      path("in.jsonl") + ":2: (byte 13) line too long: more than 65536 bytes (--max-line-bytes)");
  EXPECT_EQ(report.totals.num_bytes,
            static_cast<int64_t>(std::filesystem::file_size(path("in.jsonl"))));
}

TEST_F(Pipeline, EveryFailingCallEndsTheRunWithoutACompletePair) {
  std::string input;
  for (int i = 0; i < 300; ++i) input += "{\"text\":\"dog " + std::to_string(i) + "\"}\n";
  write_input(input);
  const int64_t before = num_io_calls();
  run();
  const int64_t num_calls = num_io_calls() - before;
  ASSERT_GT(num_calls, 5);
  for (int64_t n = 1; n <= num_calls; ++n) {
    for (const char* name : {"out.bin", "out.idx", "out.work"}) {
      std::filesystem::remove_all(path(name));
    }
    set_io_fault(n, ENOSPC);
    try {
      run();
      // Only a call whose failure cannot lose data may pass.
      EXPECT_EQ(documents().size(), 300U) << "call " << n;
    } catch (const std::system_error& failure) {
      EXPECT_EQ(failure.code().value(), ENOSPC) << "call " << n;
      if (std::filesystem::exists(path("out.idx"))) {
        EXPECT_EQ(documents().size(), 300U)
            << "call " << n << ": an .idx means that the pair is complete";
      }
    }
    set_io_fault(0, 0);
  }
}

// Lines of many chunks, and some that share one.
TEST_F(Pipeline, LinesMayBeLongerThanChunks) {
  std::string input;
  Texts expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::string(i % 3 == 0   ? 200000
                                   : i % 3 == 1 ? 20000
                                                : 10,
                                   'x') +
                       std::to_string(i));
    input += "{\"text\":\"" + expected.back() + "\"}\n";
  }
  write_input(input);
  config_.chunk_bytes = 1 << 10;
  for (const int workers : {1, 2, 7}) {
    config_.num_workers = workers;
    run();
    EXPECT_EQ(documents(), expected);
  }
  write_input(input + "bad\n" + input);
  EXPECT_EQ(error().rfind(path("in.jsonl") + ":41: ", 0), 0U) << error();
}

TEST_F(Pipeline, DatasetsOfSeveralKeysGetTheirNamesTogether) {
  write_input("{\"text\":\"the fox\",\"title\":\"dog\"}\n");
  config_.rules.json_keys = {"text", "title"};
  config_.output_prefixes = {path("out"), path("title")};
  int num_alone = 0;
  for (int fail_at = 1; fail_at < 200; ++fail_at) {
    for (const char* name : {"out.idx", "title.idx", "out.work"}) {
      std::filesystem::remove_all(path(name));
    }
    set_io_fault(fail_at, ENOSPC);
    bool failed = false;
    try {
      run();
    } catch (const std::exception& failure) {
      failed = true;
      EXPECT_EQ(exit_code_for(failure), ExitCode::kNoSpace) << failure.what() << ", " << fail_at;
    }
    set_io_fault(0, 0);
    if (!failed) break;
    num_alone +=
        std::filesystem::exists(path("out.idx")) != std::filesystem::exists(path("title.idx"));
  }
  // Only among the last renames (of 3 calls each) and the removal before them, which need no space.
  EXPECT_GT(num_alone, 0);
  EXPECT_LE(num_alone, 8);
}

TEST_F(Pipeline, InputOfBadLinesOnlyIsAnError) {
  config_.rules.on_bad_line = OnBadLine::kSkip;
  write_input("x\n\n");
  EXPECT_EQ(error(),
            "no line of the input is a document: 2 bad lines (1 blank line, 1 not valid JSON); "
            "nothing was written");
  expect_no_output();
  write_input("");
  run();
  EXPECT_TRUE(documents().empty());
}

TEST_F(Pipeline, StoppedRunGoesOnWhereItEnded) {
  std::string input;
  for (int i = 0; i < 3000; ++i) input += "{\"text\":\"dog " + std::to_string(i) + "\"}\n";
  write_input(input);
  run();
  const std::string bin = read_file(path("out.bin")), idx = read_file(path("out.idx"));
  const std::string sources = read_file(path("out.sources"));
  config_.output_prefixes = {path("again")};
  config_.overwrite = false;
  config_.chunk_bytes = 100;
  config_.task_bytes = 1000;
  PipelineEvents events;
  int num_stops = 0;
  for (bool is_done = false; !is_done; ++num_stops) {
    int64_t first_seen = -1;
    bool stop = false;
    // After 500 more documents each time.
    events.on_progress = [&](const PipelineTotals& totals) {
      if (first_seen < 0) first_seen = totals.num_documents;
      stop = totals.num_documents >= first_seen + 500;
    };
    events.stop_requested = [&] { return stop; };
    try {
      EXPECT_FALSE(run_pipeline(config_, vocabulary_, events).was_there);
      is_done = true;
    } catch (const PipelineStopped& stopped) {
      EXPECT_TRUE(stopped.work_is_kept);
      EXPECT_FALSE(std::filesystem::exists(path("again.idx")));
      ASSERT_LT(num_stops, 30);
    }
  }
  EXPECT_GE(num_stops, 2);
  EXPECT_EQ(read_file(path("again.bin")), bin);
  EXPECT_EQ(read_file(path("again.idx")), idx);
  EXPECT_EQ(read_file(path("again.sources")), sources);
  EXPECT_FALSE(std::filesystem::exists(path("again.work")));
}

TEST_F(Pipeline, CorruptInputIsAnErrorUnderEveryPolicy) {
  write_input("\x28\xB5\x2F\xFD this is no zstd frame at all");
  config_.rules.on_bad_line = OnBadLine::kSkip;
  EXPECT_EQ(error().rfind(path("in.jsonl") + ": zstd data, compressed byte ", 0), 0U) << error();
  expect_no_output();
}

}  // namespace
}  // namespace weft
