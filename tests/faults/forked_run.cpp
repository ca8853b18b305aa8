#include "tests/faults/forked_run.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/run/run_manifest.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kSuffixes[] = {".bin", ".idx", ".sources", ".checksums"};

// Memory of both processes.
struct Shared {
  int64_t num_io_calls, num_restored, num_seen;
  bool was_there;
  char message[4096], notes[4096];
};

void copy_text(char (&to)[4096], const std::string& text) {
  std::strncpy(to, text.c_str(), sizeof to - 1);
}

int run_here(const PipelineConfig& config, const std::shared_ptr<const Vocabulary>& vocabulary,
             const std::function<bool(int64_t)>& is_stopped_at, Shared& shared) {
  std::string notes;
  PipelineEvents events;
  events.on_note = [&](const std::string& note) {
    copy_text(shared.notes, notes += note + "\n");
    // "going on with the work in ...: 1 of 2 parts are done, 3 documents"
    if (note.starts_with("going on")) {
      shared.num_restored = shared.num_seen = std::stoll(note.substr(note.rfind(", ") + 2));
    }
  };
  events.on_progress = [&](const PipelineTotals& totals) {
    shared.num_seen = totals.num_documents;
  };
  events.stop_requested = [&] { return is_stopped_at(shared.num_seen); };
  events.write_manifest = [](const PipelineReport& report, size_t k, const fs::path& path) {
    write_manifest(path, report, k, {});
  };
  const int64_t num_calls_before = num_io_calls();  // of the parent
  int exit_code = 0;
  try {
    shared.was_there = run_pipeline(config, vocabulary, events).was_there;
  } catch (const PipelineStopped&) {
    exit_code = static_cast<int>(ExitCode::kStoppedOnRequest);
  } catch (const std::exception& error) {
    copy_text(shared.message, error.what());
    exit_code = static_cast<int>(exit_code_for(error));
  }
  shared.num_io_calls = num_io_calls() - num_calls_before;
  return exit_code;
}

std::string json_lines(size_t num_bytes, std::mt19937& random, bool with_urls = false) {
  constexpr const char* kWords[] = {"the", "fox", "dog", "lazy", "12", "34", "hill", "caf\\u00e9"};
  std::string text;
  while (text.size() < num_bytes) {
    // Few long ones, to have lines that reach over whole tasks.
    const size_t num_words = random() % 20 == 0 ? random() % 800 : random() % 30;
    text += "{";
    if (with_urls && random() % 4 > 0) {
      text += "\"meta\": {\"url\": \"https://www.site-" + std::to_string(random() % 50) +
              ".example/page\"}, ";
    }
    text += "\"text\": \"";
    for (size_t i = 0; i < num_words; ++i) {
      text += kWords[random() % std::size(kWords)];
      text += ' ';
    }
    text += random() % 10 == 0 ? "\"}\r\n" : "\"}\n";
  }
  return text;
}

// Here and there with blank lines behind a line.
std::string with_blank_lines(const std::string& lines, std::mt19937& random) {
  std::string text;
  for (const char c : lines) {
    text += c;
    if (c != '\n' || random() % 3 > 0) continue;
    text += std::array{"\n", "\r\n", "\r", "\n\n\n"}[random() % 4];
  }
  return text;
}

// In pieces that end wherever they do.
std::vector<std::string> pieces_of(const std::string& text, size_t num_bytes) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += num_bytes)
    pieces.push_back(text.substr(at, num_bytes));
  return pieces;
}

}  // namespace

ForkedRuns::ForkedRuns(const fs::path& parent)
    : folder_(parent), out_folder_(folder_.path() / "out") {
  VocabularyTrainer trainer;
  std::mt19937 random(1);
  trainer.add_text(json_lines(4000, random));
  const LearnedVocabulary learned = trainer.train(300, 2);
  write_file_atomically(path("vocab.json"), vocab_json_of(learned));
  write_file_atomically(path("merges.txt"), merges_txt_of(learned));
  vocabulary_ = test::load_gpt2_files(path("vocab.json"), path("merges.txt"));
  fs::create_directory(out_folder_);
  config_.output_prefixes = {out_folder_ / "d"};
  config_.num_workers = 2;
  config_.task_bytes = 6000;
  config_.chunk_bytes = 1500;
  config_.max_held_bytes_per_worker = 1000;
  config_.sync_interval = std::chrono::milliseconds(1);
}

void ForkedRuns::add_input(const std::string& name, size_t num_bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text = json_lines(num_bytes, random, config_.rules.keeps_origins());
  if (config_.rules.split_texts_at) text = with_blank_lines(text, random);
  if (name.ends_with(".zst")) text = zstd_seekable(pieces_of(text, num_bytes / 3 + 1));
  if (name.ends_with(".xz")) text = xz_blocks(pieces_of(text, num_bytes / 3 + 1));
  if (name.ends_with(".gz")) text = gzip(text);
  std::ofstream(path(name), std::ios::binary) << text;
  config_.inputs.push_back(path(name));
}

RunEnd ForkedRuns::run(const std::function<void()>& prepare,
                       std::chrono::microseconds kill_after) const {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  auto& shared = *static_cast<Shared*>(memory);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    if (prepare) prepare();
    // A request to stop stays, as a signal does: several threads look for it.
    std::mutex mutex;
    std::optional<bool> answer;
    const auto is_stopped_at = [&](int64_t num_seen) {
      if (stop_if_ && stop_if_()) return true;
      const std::lock_guard lock(mutex);
      if (stop_at_ < 0 || (num_seen < stop_at_ && !answer)) return false;
      if (!answer) answer = !on_stop_ || on_stop_();
      return *answer;
    };
    ::_exit(run_here(config_, vocabulary_, is_stopped_at, shared));
  }
  if (kill_after >= std::chrono::microseconds(0)) {
    std::this_thread::sleep_for(kill_after);
    ::kill(child, SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  RunEnd end{WIFEXITED(status) ? WEXITSTATUS(status) : -1,
             shared.message,
             shared.notes,
             shared.num_io_calls,
             shared.num_restored,
             shared.num_seen,
             shared.was_there};
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL) << "a run has crashed";
  }
  ::munmap(memory, sizeof(Shared));
  return end;
}

std::map<std::string, std::string> ForkedRuns::output() const {
  std::map<std::string, std::string> files;
  for (const char* suffix : kSuffixes) {
    const fs::path file = config_.output_prefixes[0].string() + suffix;
    files[suffix] = fs::exists(file) ? read_file(file) : "";
  }
  return files;
}

void ForkedRuns::remove_output() const {
  for (const auto& entry : fs::directory_iterator(out_folder_)) fs::remove_all(entry.path());
}

void ForkedRuns::make_reference() {
  // One worker, one task for each input, nothing spilled: nothing that could go wrong.
  const PipelineConfig small = config_;
  config_.num_workers = 1;
  config_.task_bytes = int64_t{1} << 30;
  config_.chunk_bytes = size_t{1} << 20;
  config_.max_held_bytes_per_worker = int64_t{1} << 30;
  const RunEnd plain = run();
  ASSERT_EQ(plain.exit_code, 0) << plain.message;
  reference_ = output();
  remove_output();
  config_ = small;
  const Clock::time_point start = Clock::now();
  const RunEnd end = run();
  reference_time_ = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  ASSERT_EQ(end.exit_code, 0) << end.message;
  for (const char* suffix : kSuffixes) {
    ASSERT_FALSE(reference_[suffix].empty()) << suffix;
    ASSERT_TRUE(reference_[suffix] == output()[suffix]) << suffix;
  }
  num_reference_documents_ = end.num_seen;
  num_reference_calls_ = end.num_io_calls;
  remove_output();
}

void ForkedRuns::expect_nothing_half_done(const std::string& when) const {
  if (!fs::exists(config_.output_prefixes[0].string() + ".idx")) return;
  EXPECT_TRUE(output() == reference_) << "an incomplete dataset has an .idx, " << when;
}

RunEnd ForkedRuns::expect_rerun_completes(const std::string& when) const {
  RunEnd end = run();
  EXPECT_EQ(end.exit_code, 0) << end.message << ", " << when;
  for (const auto& [suffix, content] : output()) {
    EXPECT_TRUE(content == reference_.at(suffix)) << suffix << " differs, " << when;
  }
  for (const char* left : {"d.work", "d.lock"}) {
    EXPECT_FALSE(fs::exists(out_folder_ / left)) << left << " is left, " << when;
  }
  return end;
}

std::function<void()> crash_at(const std::string& name) {
  return [name] { ::setenv("WEFT_CRASH_AT", name.c_str(), 1); };
}

}  // namespace weft
