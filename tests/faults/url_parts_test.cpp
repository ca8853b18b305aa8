// Files on the web in several tasks: the same dataset as from the disk, for any number of workers
// and ranks and after a kill, of which only what was not finished is fetched again; and servers
// that lie.
#include <optional>
#include <sstream>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/datasets/merge.h"
#include "preprocess/ledger/journal.h"
#include "preprocess/web/kept_source.h"
#include "tests/faults/forked_run.h"
#include "tests/preprocess/bad_http_server.h"
#include "tests/preprocess/compressors.h"
#include "tests/preprocess/small_run.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> pieces_of(const std::string& text, size_t num_bytes) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += num_bytes)
    pieces.push_back(text.substr(at, num_bytes));
  return pieces;
}

std::string xz_streams(const std::vector<std::string>& texts) {
  std::string file;
  for (const std::string& text : texts) file += xz(text);
  return file;
}

class UrlParts : public ForkedRuns {
 protected:
  void SetUp() override {
    if (!BadHttpServer::can_run()) GTEST_SKIP() << "no python3";
    config_.allow_http = true;
    config_.task_bytes = 50'000;
    config_.chunk_bytes = 20'000;
  }

  // Serves `content`; a run from the file itself makes what is to be equal to.
  void serve(const std::string& content) {
    write_file_atomically(path("content"), content);
    config_.inputs = {path("content")};
    const RunEnd end = run();
    ASSERT_EQ(end.exit_code, 0) << end.message;
    pair_ = pair();
    ASSERT_FALSE(pair_.second.empty());
    remove_output();
    server_.emplace(folder_.path(), path("content"));
  }
  void ask_for(const std::string& mode) { config_.inputs = {server_->url(mode)}; }

  // Without what names the input.
  std::pair<std::string, std::string> pair() const {
    auto files = output();
    return {files[".bin"], files[".idx"]};
  }
  int64_t num_tasks() const {
    return std::ssize(plan_work(config_.inputs, config_.task_bytes, true).tasks);
  }
  void expect_the_same(const std::string& when) {
    const RunEnd end = run();
    EXPECT_EQ(end.exit_code, 0) << end.message << ", " << when;
    EXPECT_TRUE(pair() == pair_) << when;
    remove_output();
  }

  // The answers since the first `num_before`: how many, and their bytes.
  std::pair<int64_t, int64_t> served(int64_t num_before = 0) const {
    std::istringstream lines(server_->requests());
    std::string line;
    int64_t num_answers = 0, num_bytes = 0;
    while (std::getline(lines, line)) {
      if (++num_answers <= num_before) continue;
      num_bytes += std::stoll(line.substr(line.rfind(' ') + 1));
    }
    return {num_answers - num_before, num_bytes};
  }

  // In a run: kills it as soon as that is so.
  static std::function<void()> killed_when(const std::function<bool()>& is_so) {
    return [is_so] {
      std::thread([is_so] {
        while (!is_so()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ::kill(::getpid(), SIGKILL);
      }).detach();
    };
  }
  // As soon as the journal says that `num_tasks` tasks are done.
  std::function<void()> killed_when_done(int64_t num_tasks) const {
    return killed_when([this, num_tasks] { return num_done() >= num_tasks; });
  }
  int64_t num_done() const {
    const auto work = Journal::read(out_folder_ / "d.work" / "journal");
    if (!work) return 0;
    return std::count_if(work->progress.begin(), work->progress.end(),
                         [](const auto& task) { return task.second.is_done(); });
  }

  std::optional<BadHttpServer> server_;
  std::pair<std::string, std::string> pair_;
};

TEST_F(UrlParts, MakeTheDatasetOfTheFileInEveryFormat) {
  const std::vector<std::string> texts = pieces_of(lines_of_digits(1, 700'000), 60'001);
  std::string plain;
  for (const std::string& text : texts) plain += text;
  config_.task_bytes = 30'000;
  const std::map<std::string, std::string> contents = {{"plain", plain},
                                                       {"seekable zstd", zstd_seekable(texts)},
                                                       {"pzstd", pzstd(texts)},
                                                       {"xz blocks", xz_blocks(texts)},
                                                       {"xz streams", xz_streams(texts)}};
  for (const auto& [name, content] : contents) {
    SCOPED_TRACE(name);
    serve(content);
    if (HasFatalFailure()) return;
    ask_for("plain");
    EXPECT_GE(num_tasks(), 4);
    // The first bytes, the tables, and with pzstd's hints and xz streams some for each part.
    const bool has_one_table = name != "pzstd" && name != "xz streams";
    EXPECT_LE(served().first, has_one_table ? 3 : std::ssize(texts) + 3);
    for (const int num_workers : {1, 3}) {
      config_.num_workers = num_workers;
      expect_the_same(std::to_string(num_workers) + " workers");
    }
  }
}

TEST_F(UrlParts, FilesWithoutTablesAreOneTask) {
  const std::vector<std::string> texts = pieces_of(lines_of_digits(2, 600'000), 100'001);
  std::string frames, all;
  for (const std::string& text : texts) {
    frames += zstd(text);
    all += text;
  }
  for (const std::string& content : {frames, gzip(all), zstd(all), xz(all)}) {
    serve(content);
    ask_for("plain");
    EXPECT_EQ(num_tasks(), 1);
    EXPECT_LE(served().first, 4);
    expect_the_same("one task");
  }
}

TEST_F(UrlParts, AreSharedByRanks) {
  serve(zstd_seekable(pieces_of(lines_of_digits(3, 1'200'000), 100'001)));
  ask_for("plain");
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  config_.ranks.num_ranks = 2;
  if (other == 0) {
    config_.ranks.rank = 1;
    ::_exit(run().exit_code);
  }
  const RunEnd end = run();
  int status = 0;
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(end.exit_code, 0) << end.message;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(pair() == pair_);
}

TEST_F(UrlParts, AreDividedAmongShards) {
  serve(zstd_seekable(pieces_of(lines_of_digits(11, 1'200'000), 100'001)));
  ask_for("plain");
  MergeConfig merging;
  config_.num_shards = 3;
  for (; config_.shard_idx < config_.num_shards; ++config_.shard_idx) {
    config_.output_prefixes = {out_folder_ / ("shard" + std::to_string(config_.shard_idx))};
    EXPECT_EQ(run().exit_code, 0);
    merging.prefixes.push_back(config_.output_prefixes[0]);
  }
  merging.output_prefix = out_folder_ / "d";
  merge_datasets(merging, [] {});
  config_.output_prefixes = {merging.output_prefix};
  EXPECT_TRUE(pair() == pair_);
  EXPECT_FALSE(output()[".sources"].empty());
}

TEST_F(UrlParts, OnlyWhatIsNotFinishedIsFetchedAfterAKill) {
  const std::string text = lines_of_digits(4, 8'000'000);
  config_.task_bytes = 200'000;
  config_.chunk_bytes = 200'000;
  for (const std::string& content :
       {zstd_seekable(pieces_of(text, 500'001)), xz_blocks(pieces_of(text, 500'001)), text}) {
    fs::remove(path("release"));
    serve(content);
    if (HasFatalFailure()) return;
    ask_for("gatedend");
    const auto num_all = static_cast<int64_t>(content.size());
    const int64_t num_parts = num_tasks(), num_wanted = num_parts / 2 - 1;
    ASSERT_GE(num_wanted, 2);
    const RunEnd killed = run(killed_when_done(num_wanted));
    EXPECT_TRUE(killed.is_killed()) << killed.message;
    EXPECT_GE(num_done(), num_wanted);
    write_file_atomically(path("release"), "");
    const int64_t num_answers = served().first;
    const int64_t num_finished_bytes = num_done() * num_all / (num_parts + 1);  // or more
    const RunEnd end = run();
    EXPECT_EQ(end.exit_code, 0) << end.message;
    EXPECT_NE(end.notes.find("going on with the work"), std::string::npos) << end.notes;
    EXPECT_TRUE(pair() == pair_);
    remove_output();
    // Twice the file's end for its tables, and behind each unfinished part the rest of a line.
    const int64_t num_extra = 2 * 70'000 + (num_parts - num_wanted) * (128 << 10);
    EXPECT_LE(served(num_answers).second, num_all - num_finished_bytes + num_extra);
  }
}

TEST_F(UrlParts, AFileThatHasChangedSinceTheKillIsAnotherCorpus) {
  config_.task_bytes = 200'000;
  const std::string other = zstd_seekable(pieces_of(lines_of_digits(6, 4'000'000), 500'001));
  serve(other);
  const auto pair_of_other = pair_;
  serve(zstd_seekable(pieces_of(lines_of_digits(5, 4'000'000), 500'001)));
  ask_for("switched");
  EXPECT_TRUE(run(killed_when_done(1)).is_killed());
  write_file_atomically(path("release"), "");
  write_file_atomically(path("changed_to"), other);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 0) << end.message;
  EXPECT_NE(end.notes.find("is dropped: the input '" + config_.inputs[0] + "' has changed"),
            std::string::npos)
      << end.notes;
  EXPECT_TRUE(pair() == pair_of_other);
}

TEST_F(UrlParts, AServerThatStopsGivingPartsDoesNotCostWhatIsDone) {
  config_.task_bytes = 200'000;
  serve(zstd_seekable(pieces_of(lines_of_digits(5, 4'000'000), 500'001)));
  ask_for("gatedend");
  EXPECT_TRUE(run(killed_when_done(1)).is_killed());
  write_file_atomically(path("stop_ranges"), "");
  const RunEnd refused = run();
  EXPECT_EQ(refused.exit_code, static_cast<int>(ExitCode::kUsage)) << refused.message;
  EXPECT_NE(refused.message.find("not in parts any more"), std::string::npos) << refused.message;
  fs::remove(path("stop_ranges"));
  write_file_atomically(path("release"), "");
  expect_the_same("the server is itself again");
}

TEST_F(UrlParts, AServerWithoutRangesIsReadInOnePieceAndThatIsSaid) {
  serve(zstd_seekable(pieces_of(lines_of_digits(7, 600'000), 100'001)));
  ask_for("norange");
  EXPECT_EQ(num_tasks(), 1);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 0) << end.message;
  EXPECT_EQ(end.notes, config_.inputs[0] +
                           ": is read from front to back in one piece, for the server gives no "
                           "parts of files\n");
  EXPECT_TRUE(pair() == pair_);
}

TEST_F(UrlParts, TablesThatLieGiveAnErrorAndNoOtherText) {
  const std::vector<std::string> texts = pieces_of(lines_of_digits(8, 1'200'000), 100'001);
  std::string frames;
  std::vector<uint32_t> sizes;
  for (const std::string& text : texts) {
    frames += zstd(text);
    sizes.push_back(static_cast<uint32_t>(zstd(text).size()));
  }
  serve(frames + zstd_seek_table(sizes));
  // Adds up, but the frames in the middle begin elsewhere.
  sizes[3] += 1000;
  sizes[9] -= 1000;
  write_file_atomically(path("changed_to"), frames + zstd_seek_table(sizes));
  write_file_atomically(path("release"), "");
  ask_for("switched");
  EXPECT_GE(num_tasks(), 4);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, static_cast<int>(ExitCode::kBadInput)) << end.message;
  EXPECT_NE(end.message.find("zstd data, compressed byte"), std::string::npos) << end.message;
  EXPECT_TRUE(pair().second.empty());
  remove_output();
  // Does not add up: no table.
  sizes[4] += 1;
  write_file_atomically(path("changed_to"), frames + zstd_seek_table(sizes));
  EXPECT_EQ(num_tasks(), 1);
  expect_the_same("a table that is none");
}

// One gzip member of some MB, of which the server gives a half before it waits.
class KeptFetch : public UrlParts {
 protected:
  void SetUp() override {
    UrlParts::SetUp();
    if (IsSkipped()) return;
    config_.keep_fetched = true;
    config_.chunk_bytes = 200'000;
    serve(gzip(lines_of_digits(10, 8'000'000)));
    num_all_ = static_cast<int64_t>(fs::file_size(path("content")));
    ASSERT_GT(num_all_, 3 * kKeptBlockBytes);
  }
  fs::path fetched(int64_t task) const { return kept_path(out_folder_ / "d.work", task); }
  // True when the file of a half is full: nothing more comes.
  bool has_half(int64_t task) const {
    std::error_code error;
    const auto num_bytes = static_cast<int64_t>(fs::file_size(fetched(task), error));
    return !error && num_bytes >= num_all_ / 2 / kKeptBlockBytes * (kKeptBlockBytes + 8);
  }
  int64_t num_all_ = 0;
};

TEST_F(KeptFetch, IsNotFetchedAgainAfterAKill) {
  for (const bool is_spoilt : {false, true}) {
    server_.emplace(folder_.path(), path("content"));  // counts from 1 again
    fs::remove(path("release"));
    ask_for("halfheld");
    EXPECT_TRUE(run(killed_when([this] { return has_half(0); })).is_killed());
    if (is_spoilt) std::fstream(fetched(0)).seekp(5000) << "no such text";
    write_file_atomically(path("release"), "");
    const int64_t num_answers = served().first;
    expect_the_same("after a kill");
    const int64_t num_kept = is_spoilt ? 0 : num_all_ / 2 / kKeptBlockBytes * kKeptBlockBytes;
    EXPECT_EQ(served(num_answers).second, 10 + num_all_ - num_kept);  // 10: a look at the file
  }
}

TEST_F(KeptFetch, IsRemovedWhenItIsRead) {
  ask_for("plain");
  config_.inputs.push_back(server_->url("halfheld"));
  EXPECT_TRUE(
      run(killed_when([this] { return has_half(1) && !fs::exists(fetched(0)); })).is_killed());
  write_file_atomically(path("release"), "");
  const int64_t num_answers = served().first;
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 0) << end.message;
  EXPECT_LT(served(num_answers).second, num_all_);
  EXPECT_FALSE(fs::exists(out_folder_ / "d.work"));
}

TEST_F(UrlParts, AFileThatChangesUnderwayIsAnError) {
  serve(zstd_seekable(pieces_of(lines_of_digits(9, 600'000), 100'001)));
  ask_for("changing");
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, static_cast<int>(ExitCode::kNetwork)) << end.message;
  EXPECT_NE(end.message.find("has changed"), std::string::npos) << end.message;
  EXPECT_TRUE(pair().second.empty());
}

}  // namespace
}  // namespace weft
