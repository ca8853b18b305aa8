#include "preprocess/run/pipeline.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/reader.h"
#include "tests/indexed_dataset/test_files.h"
#include "tests/preprocess/small_run.h"
#include "tests/tokenizer/golden.h"
#include "tokenizer/formats/load_tokenizer.h"

namespace weft {
namespace {

constexpr char kSomeText[] =
    "the quick brown fox jumps over the lazy dog; the dog barks, the fox runs over the hill 12 34 "
    "12 34\n";

class Pipeline : public ::testing::Test, protected SmallRun {
 protected:
  Pipeline() { config.rules.on_bad_line = OnBadLine::kStop; }
  ~Pipeline() override { set_io_fault(0, 0); }

  // The texts of the dataset; "" for empty documents, which are counted by the bounds.
  std::vector<std::string> documents(const std::string& name = "out") const {
    EXPECT_TRUE(verify_dataset(path(name), vocabulary->size()).empty());
    const DatasetReader reader(path(name));
    const Tokenizer tokenizer(vocabulary);
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
  config.rules.append_eod = true;
  write_input("{\"text\":\"dog\"}\n{\"text\":\"\"}\n");
  run();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>", ""}));
  config.rules.empty_documents = EmptyDocuments::kSkip;
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
  config.rules.on_bad_line = OnBadLine::kSkip;
  config.rules.append_eod = true;
  const PipelineReport expected = run();
  const std::string bin = read_file(path("out.bin")), idx = read_file(path("out.idx"));
  EXPECT_EQ(expected.totals.bad_lines.total(), 40);
  EXPECT_EQ(expected.totals.num_replaced_surrogates, 1960);
  for (const int workers : {1, 2, 7}) {
    for (const size_t chunk_bytes : {size_t{1}, size_t{100}, size_t{4096}}) {
      config.num_workers = workers;
      config.chunk_bytes = chunk_bytes;
      config.task_bytes = workers == 2 ? 777 : kTaskBytes;
      config.max_held_bytes_per_worker = workers == 7 ? 1 : 1 << 20;
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
  config.inputs = {path("2.jsonl"), path("3.jsonl"), path("1.jsonl"), path("2.jsonl")};
  config.rules.on_bad_line = OnBadLine::kSkip;
  const PipelineReport report = run();
  EXPECT_EQ(documents(), (Texts{"b", "a", "b"}));
  ASSERT_EQ(report.shown_bad_lines.size(), 2U);
  EXPECT_EQ(report.shown_bad_lines[1].message(),
            path("2.jsonl") + ":2: (byte 13) not valid JSON: expected a value");
  EXPECT_EQ(report.inputs.size(), 4U);
}

TEST_F(Pipeline, WritesOneDatasetPerKeyAndNoHalfDocuments) {
  config.rules.json_keys = {"text", "title"};
  config.output_prefixes = {path("out"), path("title")};
  config.rules.on_bad_line = OnBadLine::kSkip;
  write_input(
      "{\"title\":\"fox\",\"text\":\"dog\"}\n{\"text\":\"alone\"}\n{\"text\":\"\",\"title\":"
      "\"over\"}\n");
  EXPECT_EQ(run().totals.bad_lines.total(), 1);
  EXPECT_EQ(documents("out"), (Texts{"dog", ""}));
  EXPECT_EQ(documents("title"), (Texts{"fox", "over"}));
}

TEST_F(Pipeline, CountsBadLinesByReason) {
  config.rules.on_bad_line = OnBadLine::kSkip;
  config.rules.special_tokens = SpecialTokens::kError;
  config.rules.max_line_bytes = 40;
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
            path("in") +
                ":7: (byte 45) not a string: the value of \"text\", at byte 8 of the line; it is a "
                "number");
}

TEST_F(Pipeline, StopNamesTheFirstBadLineAndLeavesNothing) {
  std::string input;
  for (int i = 0; i < 500; ++i) input += "{\"text\":\"dog\"}\n";
  const auto offset = std::to_string(input.size());
  write_input(input + "{\"text\":\"dog\"\nbad as well\n");
  for (const size_t chunk_bytes : {size_t{50}, size_t{1} << 20}) {
    config.chunk_bytes = chunk_bytes;
    config.num_workers = 3;
    EXPECT_EQ(error(), path("in") + ":501: (byte " + offset +
                           ") not valid JSON: expected ',' or '}', at byte 13 of the line\n  "
                           "nothing was written; repair "
                           "the line, or use --on-bad-line skip to leave bad lines out");
    expect_no_output();
  }
}

TEST_F(Pipeline, StopsAtTheLimitOfBadLines) {
  write_input("bad\nbad\n{\"text\":\"dog\"}\nbad\n");
  config.rules.on_bad_line = OnBadLine::kSkip;
  config.max_bad_lines = 3;
  EXPECT_EQ(error(), "");
  config.max_bad_lines = 2;
  config.output_prefixes = {path("new")};
  EXPECT_EQ(error(), "more bad lines than --max-bad-lines 2 allows; nothing was written");
  EXPECT_FALSE(std::filesystem::exists(path("new.idx")));
}

TEST_F(Pipeline, SpecialTokenMeansWhatWasChosen) {
  write_input("{\"text\":\"dog<|endoftext|>fox\"}\n");
  run();
  const int64_t num_literal = DatasetReader(path("out")).num_tokens();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>fox"}));
  config.rules.special_tokens = SpecialTokens::kToken;
  run();
  EXPECT_EQ(documents(), (Texts{"dog<|endoftext|>fox"}));
  EXPECT_LT(DatasetReader(path("out")).num_tokens(), num_literal);
}

TEST_F(Pipeline, InputOfBadLinesOnlyIsAnError) {
  config.rules.on_bad_line = OnBadLine::kSkip;
  write_input("x\n\n");
  EXPECT_EQ(error(),
            "no line of the input is a document: 2 bad lines (1 blank line, 1 not valid JSON); "
            "nothing was written");
  expect_no_output();
  write_input("");
  run();
  EXPECT_TRUE(documents().empty());
}

// The stop is that of the caller of run_pipeline(), not of the process.
TEST_F(Pipeline, StopsWhileAServerDoesNotAnswer) {
  const int server = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(server, at, size), 0);
  ASSERT_EQ(::listen(server, 8), 0);
  ASSERT_EQ(::getsockname(server, at, &size), 0);
  config.inputs = {"http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/in"};
  config.http.allow_http = true;
  const auto begin = std::chrono::steady_clock::now();
  events.stop_requested = [begin] {
    return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(200);
  };
  EXPECT_THROW(run(), PipelineStopped);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ::close(server);
}

// Falcon's tokenizer, for example, has no entry for the byte 0x03.
TEST_F(Pipeline, CountsBytesWithoutAnEntryOverWorkersAndInterruptions) {
  std::string bytes = read_file(test::golden_folder() / "small_tokenizer.json");
  const std::string entry = "\"\u0103\":";
  ASSERT_NE(bytes.find(entry), bytes.npos);
  bytes.replace(bytes.find(entry), entry.size(), "\"\u4e2d\":");
  vocabulary = load_tokenizer({"tokenizer.json", bytes});
  std::string input;
  for (int i = 0; i < 20'000; ++i)
    input += "{\"text\":\"a\\u0003b " + std::to_string(i) + "\\u0003\\u0003\"}\n";
  write_input(input);
  config.chunk_bytes = 1000;
  config.task_bytes = 50'000;
  for (const int workers : {1, 3}) {
    config.num_workers = workers;
    config.output_prefixes = {path("whole")};
    config.overwrite = true;
    EXPECT_EQ(run().totals.num_dropped_bytes, 60'000);
    config.output_prefixes = {path("stopped" + std::to_string(workers))};
    config.overwrite = false;
    std::atomic<int64_t> num_dropped = 0;
    int64_t num_before = 0;
    events.on_progress = [&](const PipelineTotals& so_far) {
      num_dropped = so_far.num_dropped_bytes;
    };
    events.stop_requested = [&] { return num_dropped > 10'000; };
    EXPECT_THROW(run(), PipelineStopped);
    events = {};
    events.on_begin = [&](int64_t, const PipelineTotals& before) {
      num_before = before.num_dropped_bytes;
    };
    EXPECT_EQ(run().totals.num_dropped_bytes, 60'000);
    EXPECT_GT(num_before, 0);
    EXPECT_LT(num_before, 60'000);
    events = {};
  }
}

// Nearly all that is written is read back at the end, and long runs tell how far that is.
TEST_F(Pipeline, ReadingBackIsReportedUntilAllFilesAreRead) {
  std::string input;
  for (int i = 0; i < 20'000; ++i) input += "{\"text\":\"line " + std::to_string(i) + "\"}\n";
  write_input(input);
  config.output_prefixes = {path("out")};
  std::vector<int64_t> done, all;
  events.on_read_back = [&](int64_t num_bytes, int64_t num_all_bytes) {
    done.push_back(num_bytes);
    all.push_back(num_all_bytes);
  };
  run();
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(all.front(), all.back());
  EXPECT_EQ(done.back(), all.back());
  int64_t num_bytes = 0;
  for (const char* suffix : {".bin", ".idx", ".sources"})
    num_bytes += static_cast<int64_t>(std::filesystem::file_size(path("out") + suffix));
  EXPECT_EQ(all.back(), num_bytes);
}

TEST_F(Pipeline, CorruptInputIsAnErrorUnderEveryPolicy) {
  write_input("\x28\xB5\x2F\xFD this is no zstd frame at all");
  config.rules.on_bad_line = OnBadLine::kSkip;
  EXPECT_EQ(error().rfind(path("in") + ": zstd data, compressed byte ", 0), 0U) << error();
  expect_no_output();
}

}  // namespace
}  // namespace weft
