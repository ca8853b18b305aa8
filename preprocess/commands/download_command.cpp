// weft-data download fetches files from the web, each whole or not at all.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/process/test_hooks.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/benchmarks/benchmarks.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/store_options.h"
#include "preprocess/stores/find_store.h"
#include "preprocess/web/download.h"
#include "preprocess/web/sha256_list.h"
#include "preprocess/web/url.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

// A list of a million files has about this size.
constexpr int64_t kMaxListBytes = int64_t{128} << 20;

class DownloadCommand final : public Command {
 public:
  DownloadCommand()
      : Command("download",
                "fetch files over https: many connections, continued after a kill, checked",
                "weft-data download https://host.example/corpus.jsonl.zst --output-folder corpus") {
  }

  void declare(OptionSet& options) override {
    options.texts("URL", urls_,
                  "https addresses, or files, folders and quoted patterns of a dataset of the "
                  "Hugging Face hub (hf://datasets/OWNER/NAME[@REVISION]/PATH) or of a bucket "
                  "(s3://BUCKET/KEY, s3://BUCKET/FOLDER/, gs:// likewise); a file that is "
                  "there already is left alone. HF_TOKEN (environment), or the token of hf auth "
                  "login, goes to Hugging Face's own addresses only");
    options.texts("--benchmark", benchmarks_,
                  "instead of URLs: " + benchmark_names() +
                      ", from the hub at known commits, as NAME.parquet or NAME.jsonl, for "
                      "weft-data tasks");
    options.text(
        "--output", output_,
        "the file to write, for one URL of one file; default: the URL's last component; of a "
        "folder or pattern the path below its folder. What has come "
        "before the end lies in OUTPUT.part and OUTPUT.part.json");
    options.text("--output-folder", folder_, "where files named by their URLs go");
    options.texts("--mirror", mirrors_,
                  "other addresses of the same file, for one URL: tried in this order when it "
                  "fails or has a wrong checksum");
    options.text("--sha256", sha256_, "expected checksum of one URL's file, 64 hexadecimal digits");
    options.text("--sha256sums", sha256sums_,
                 "file or URL with lines 'CHECKSUM  NAME', as sha256sum prints them: all URLs must "
                 "be in it, by the ends of their paths");
    options.flag("--overwrite", overwrite_, "fetch again what is there already");
    options.integer("--connections", fetch_.num_connections, "at a time, for one file", 1, 64);
    options.integer("--max-bytes", fetch_.max_bytes, "a longer file is refused", 1);
    options.integer("--attempts", fetch_.num_attempts,
                    "tries in a row that bring the file no further before it gives up", 1, 1000);
    options.integer("--stall-timeout", fetch_.http.stall_timeout_s,
                    "seconds below 1 kB/s after which a connection counts as broken", 1, 3600);
    options.flag("--allow-http", fetch_.http.allow_http,
                 "accept unencrypted http URLs (never by a redirect from https)");
    declare_store_options(options, fetch_.http.s3);
  }

  void validate(OptionSet& options) const override {
    if (urls_.empty() == benchmarks_.empty())
      options.problem("give the URL to download, or --benchmark");
    for (const std::string& name : benchmarks_) {
      if (find_benchmark(name) == nullptr)
        options.problem(fmt::format("--benchmark {}: it is none of {}", name, benchmark_names()));
    }
    validate_store_options(options, fetch_.http.s3);
    std::vector<std::string> addresses = urls_;
    addresses.insert(addresses.end(), mirrors_.begin(), mirrors_.end());
    if (looks_like_url(sha256sums_)) addresses.push_back(sha256sums_);
    for (const std::string& url : addresses)
      options.check([&] { check_remote_address(url, fetch_.http); });
    if (urls_.size() + 2 * benchmarks_.size() > 1) {
      for (const char* name : {"--output", "--mirror", "--sha256"}) {
        if (options.given(name)) options.problem(std::string(name) + " is for one URL");
      }
    }
    if (!output_.empty() && options.given("--output-folder"))
      options.problem("--output and --output-folder exclude each other");
    if (!sha256_.empty() && lower_sha256(sha256_).empty())
      options.problem(fmt::format("--sha256: '{}' is not 64 hexadecimal digits", sha256_));
    if (!sha256_.empty() && !sha256sums_.empty())
      options.problem("--sha256 and --sha256sums exclude each other");
    check_folder(options);
    // What addresses of stores stand for is not known yet.
    if (std::none_of(urls_.begin(), urls_.end(), find_store)) {
      std::vector<Item> items;
      for (const std::string& url : urls_) items.push_back({url, sha256_, output_of(url)});
      for (const std::string& problem : problems_of(items)) options.problem(problem);
    }
  }

  int run(const OptionSet&) override {
    install_stop_signals();
    fetch_.part_bytes = hooked_number("WEFT_PART_BYTES", fetch_.part_bytes);
    fetch_.first_backoff_s = 1e-3 * static_cast<double>(hooked_number("WEFT_RETRY_DELAY_MS", 1000));
    try {
      const std::vector<Item> items = find_items();
      int exit_code = 0;
      for (const Item& item : items) {
        try {
          download(item);
        } catch (const std::exception& error) {
          // The others may still come. The program ends with the code of the first failure.
          if (items.size() == 1) throw;
          live_line_.clear();
          const int code = print_error(error);
          if (exit_code == 0) exit_code = code;
        }
      }
      return exit_code;
    } catch (const ReadCancelled&) {
      live_line_.clear();
      print_message("stopped: the same command continues where the server allows it");
      throw StoppedBySignal(stop_signal());
    }
  }

 private:
  // One file to fetch.
  struct Item {
    std::string url;
    std::string sha256;  // "" where none is known
    std::filesystem::path output;
  };

  std::filesystem::path output_of(const std::string& url) const {
    if (!output_.empty()) return output_;
    // Nothing is encoded in a store's address.
    const std::string name =
        url_file_name(find_store(url) != nullptr ? percent_encoded(url, ":/") : url);
    return std::filesystem::path(folder_) / name;
  }

  void check_folder(OptionSet& options) const {
    const std::filesystem::path folder = output_.empty()
                                             ? std::filesystem::path(folder_)
                                             : std::filesystem::path(output_).parent_path();
    std::error_code ignored;
    if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
      options.problem(fmt::format("{} '{}' does not exist; create it first",
                                  output_.empty() ? "--output-folder:" : "--output: folder",
                                  folder.string()));
    }
  }

  // Says which files cannot be written, or would be written over each other.
  std::vector<std::string> problems_of(const std::vector<Item>& items) const {
    std::vector<std::string> problems;
    std::set<std::filesystem::path> names;
    std::error_code ignored;
    for (const Item& item : items) {
      if (item.output.filename().empty()) {
        problems.push_back(
            fmt::format("'{}' does not end in a file name; give --output", display_url(item.url)));
        continue;
      }
      if (std::filesystem::is_directory(item.output, ignored)) {
        problems.push_back(
            fmt::format("'{}' is a folder; give the name of a file", item.output.string()));
      }
      for (const char* ending : {"", ".part", ".part.json", ".lock"}) {
        std::filesystem::path name = item.output;
        name += ending;
        if (names.insert(name).second) continue;
        problems.push_back(fmt::format(
            "several URLs would be written to '{}'; download them into different folders",
            name.string()));
        break;
      }
    }
    return problems;
  }

  // All files to fetch, with their checksums.
  std::vector<Item> find_items() {
    std::vector<Item> items;
    for (const std::string& name : benchmarks_) {
      const Benchmark& benchmark = *find_benchmark(name);
      const std::string extension = std::filesystem::path(benchmark.address).extension();
      items.push_back({benchmark.address, benchmark.sha256,
                       std::filesystem::path(folder_) / (name + extension)});
    }
    std::map<const RemoteStore*, std::unique_ptr<RemoteLister>> listers;
    for (const std::string& url : urls_) {
      const RemoteStore* store = find_store(url);
      if (store == nullptr) {
        items.push_back({url, sha256_, output_of(url)});
        continue;
      }
      std::unique_ptr<RemoteLister>& lister = listers[store];
      if (!lister) lister = store->make_lister(fetch_.http, stop_flag());
      add_stored(url, lister->list(url), items);
    }
    if (std::any_of(urls_.begin(), urls_.end(), find_store)) {
      const std::vector<std::string> problems = problems_of(items);
      if (!problems.empty()) throw UsageError(problems[0]);
    }
    find_checksums(items);
    return items;
  }

  void add_stored(const std::string& url, const StoredFiles& stored, std::vector<Item>& items) {
    if (stored.files.empty()) throw NetworkError(url + ": no file there has a name that fits");
    const bool is_one_file = stored.files.size() == 1 && stored.files[0].path_below.empty();
    if (!is_one_file && (!output_.empty() || !sha256_.empty()))
      throw UsageError("--output and --sha256 are for one file, and '" + url + "' is a folder");
    for (const StoredFile& file : stored.files) {
      const std::filesystem::path output =
          is_one_file ? output_of(file.address) : std::filesystem::path(folder_) / file.path_below;
      items.push_back({file.address, sha256_.empty() ? file.sha256 : sha256_, output});
    }
    if (!is_one_file)
      print_message(fmt::format("'{}' stands for {} files", url, stored.files.size()));
  }

  // Those that --sha256sums has.
  void find_checksums(std::vector<Item>& items) {
    if (sha256sums_.empty()) return;
    const std::string text =
        looks_like_url(sha256sums_)
            ? read_url(open_remote(sha256sums_, fetch_.http), fetch_, kMaxListBytes, stop_flag())
            : read_file(sha256sums_);
    const Sha256List list(looks_like_url(sha256sums_) ? display_url(sha256sums_) : sha256sums_,
                          text);
    for (Item& item : items) item.sha256 = list.find(item.url);
  }

  void download(const Item& item) {
    DownloadRequest request;
    request.file = open_remote(item.url, fetch_.http);
    for (const std::string& mirror : mirrors_)
      request.mirrors.push_back(open_remote(mirror, fetch_.http));
    request.output = item.output;
    request.sha256 = item.sha256;
    request.fetch = fetch_;
    const std::string name = request.output.string();
    if (find_store(item.url) != nullptr)
      std::filesystem::create_directories(folder_of(request.output));
    const LockFile lock(name + ".lock");
    if (is_there_already(request)) return;
    check_download_part(request.output);
    begin_ = Clock::now();
    num_bytes_before_ = -1;
    const DownloadResult result = download_file(
        request,
        [&](int64_t num_bytes, int64_t total_bytes) { return show(name, num_bytes, total_bytes); });
    live_line_.clear();
    print_message(fmt::format("{}: {}, SHA-256 {}{}", name,
                              with_prefix(static_cast<double>(result.num_bytes), "B"),
                              result.sha256, result.is_checked ? " (as expected)" : ""));
  }

  // Only whole files have their final name, so that a list of URLs goes on where it was left.
  bool is_there_already(const DownloadRequest& request) const {
    if (overwrite_ || !std::filesystem::exists(request.output)) return false;
    const std::string name = request.output.string();
    const std::string origin = origin_url_of(request.output);
    if (request.sha256.empty() && !origin.empty() && origin != request.file->key()) {
      throw UsageError("'" + name + "' is there already, but comes from " + origin +
                       "; give another --output or --output-folder, or --overwrite");
    }
    if (request.sha256.empty()) {
      print_message(name + (origin.empty() ? ": is there already, perhaps from another URL: only "
                                             "--sha256 could tell; --overwrite fetches it again"
                                           : ": is there already; --overwrite fetches it again"));
      return true;
    }
    if (sha256_of_file(request.output) != lower_sha256(request.sha256)) {
      print_message(name + ": is there already, with another checksum: replacing it");
      return false;
    }
    print_message(name + ": is there already, SHA-256 as expected");
    return true;
  }

  // Shows how far a file is; false if the program is to stop. Bytes of an earlier run have no
  // speed.
  bool show(const std::string& name, int64_t num_bytes, int64_t total_bytes) {
    if (num_bytes_before_ < 0) num_bytes_before_ = num_bytes;
    if (num_bytes > 0 && live_line_.is_due()) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
      const auto done = static_cast<double>(num_bytes);
      const auto total = static_cast<double>(total_bytes > 0 ? total_bytes : -1);
      live_line_.show("downloaded " +
                      progress_fields(done, total,
                                      static_cast<double>(num_bytes - num_bytes_before_) / seconds,
                                      "B") +
                      " | " + with_prefix(done, "B") +
                      (total > 0 ? " of " + with_prefix(total, "B") : "") + " | " + name);
    }
    return stop_signal() == 0;
  }

  using Clock = std::chrono::steady_clock;

  std::vector<std::string> urls_, benchmarks_, mirrors_;
  std::string output_, folder_ = ".", sha256_, sha256sums_;
  FetchOptions fetch_;
  bool overwrite_ = false;
  LiveLine live_line_;
  Clock::time_point begin_ = Clock::now();  // of the file that is downloaded
  int64_t num_bytes_before_ = -1;           // of it, there before; -1: not known yet
};

}  // namespace

std::unique_ptr<Command> make_download_command() { return std::make_unique<DownloadCommand>(); }

}  // namespace weft
