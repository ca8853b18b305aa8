// weft-data download: one URL into one file.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "indexed_dataset/lock_file.h"
#include "preprocess/commands.h"
#include "preprocess/download.h"
#include "preprocess/progress.h"
#include "preprocess/sha256.h"
#include "preprocess/stop_signal.h"

namespace weft {
namespace {

class DownloadCommand final : public Command {
 public:
  std::string name() const override { return "download"; }
  std::string description() const override {
    return "fetch one file over https, resumable, checked";
  }

  void declare(OptionSet& options) override {
    options.positional("URL", request_.url, "https address");
    options.text("--output", output_,
                 "the file to write; what is received before the end lies in OUTPUT.part");
    options.text("--sha256", request_.sha256, "expected checksum, 64 hexadecimal digits");
    options.flag("--allow-http", request_.allow_http, "accept an unencrypted http URL");
    options.integer("--attempts", num_attempts_,
                    "tries in a row that bring the file no further before it gives up", 1, 1000);
  }

  void validate(OptionSet& options) const override {
    if (request_.url.empty()) options.problem("give the URL to download");
    if (output_.empty()) options.problem("--output is required");
    const std::string& sha = request_.sha256;
    if (!sha.empty() &&
        (sha.size() != 64 || sha.find_first_not_of("0123456789abcdefABCDEF") != sha.npos)) {
      options.problem("--sha256: '" + sha + "' is not 64 hexadecimal digits");
    }
    const std::filesystem::path folder = std::filesystem::path(output_).parent_path();
    std::error_code ignored;
    if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
      options.problem("--output: folder '" + folder.string() + "' does not exist; create it first");
    }
  }

  int run(const OptionSet&) override {
    install_stop_signals();
    request_.output = output_;
    request_.num_attempts = static_cast<int>(num_attempts_);
    const LockFile lock(output_ + ".lock");
    try {
      download_file(request_, [this](int64_t num_bytes, int64_t total_bytes) {
        return show(num_bytes, total_bytes);
      });
    } catch (const DownloadStopped&) {
      std::fprintf(stderr, "\nstopped: the same command continues where the server allows it\n");
      throw StoppedBySignal(stop_signal());
    }
    std::fprintf(stderr, "%s%s: %s, SHA-256 %s\n", is_terminal_ ? "\r\033[K" : "", output_.c_str(),
                 with_prefix(static_cast<double>(std::filesystem::file_size(output_)), "B").c_str(),
                 sha256_of_file(output_).c_str());
    return 0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // A refreshed line on a terminal, a line every 30 s in a log.
  bool show(int64_t num_bytes, int64_t total_bytes) {
    const auto now = Clock::now();
    if (now - last_shown_ >
            (is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(30)) &&
        num_bytes > 0) {
      last_shown_ = now;
      std::string line = "downloaded " + with_prefix(static_cast<double>(num_bytes), "B");
      if (total_bytes > 0) {
        line +=
            fmt::format(" of {} ({:.1f}%)", with_prefix(static_cast<double>(total_bytes), "B"),
                        100.0 * static_cast<double>(num_bytes) / static_cast<double>(total_bytes));
      }
      std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    }
    return stop_signal() == 0;
  }

  DownloadRequest request_;
  std::string output_;
  int64_t num_attempts_ = 5;
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  Clock::time_point last_shown_ = Clock::now();
};

}  // namespace

std::unique_ptr<Command> make_download_command() { return std::make_unique<DownloadCommand>(); }

}  // namespace weft
