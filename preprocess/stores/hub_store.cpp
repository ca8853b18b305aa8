#include "preprocess/stores/hub_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "preprocess/stores/hub_address.h"
#include "preprocess/stores/hub_answers.h"
#include "preprocess/stores/hub_file.h"
#include "preprocess/stores/path_pattern.h"
#include "preprocess/web/hugging_face.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// A page has 1,000 files of some hundred bytes each.
constexpr int64_t kMaxPageBytes = int64_t{64} << 20;
constexpr size_t kMaxFiles = 10'000'000;

// One answer of the hub's API.
class HubPage final : public RemoteFile {
 public:
  HubPage(std::string url, HubAddress address)
      : url_(std::move(url)), address_(std::move(address)) {}

  std::string name() const override { return display_url(url_); }
  RemoteRequest request(const std::optional<ByteRange>&, const std::string&) override {
    return {.url = url_};
  }
  void describe(HttpResponse&, const HeaderOf& header) override { link_ = header("Link"); }
  HttpFailure judge(const HttpRefusal& refusal) override {
    return judge_hub_answer(refusal, address_);
  }
  bool has_ranges() const override { return false; }

  // The address of the page behind this one, once it was read; "" for the last one.
  std::string next() const {
    const size_t end = link_.find(">; rel=\"next\"");
    if (end == link_.npos) return "";
    const size_t begin = link_.rfind('<', end);
    if (begin == link_.npos) return "";
    const std::string url = link_.substr(begin + 1, end - begin - 1);
    if (!is_same_origin(url, hugging_face_endpoint()))
      throw NetworkError(name() + ": the next page is at another host: " + display_url(url));
    return url;
  }

 private:
  const std::string url_;
  const HubAddress address_;
  std::string link_;  // of the last answer; there is one reader
};

struct HubEntry {
  bool is_folder = false;
  StoredFile file;  // without an address
};
using HubFolder = std::map<std::string, HubEntry>;  // by path

class HubLister final : public RemoteLister {
 public:
  HubLister(const HttpOptions& options, const std::atomic<bool>& cancelled)
      : cancelled_(cancelled) {
    options_.http = options;
    check_url(hugging_face_endpoint(), options.allow_http);
  }

  StoredFiles list(const std::string& address) override {
    HubAddress asked = parse_hub_address(address);
    asked.revision = commit_of(asked);
    StoredFiles found;
    found.hint = "if the dataset has other formats only, the hub may have it as Parquet: " +
                 asked.at("refs/convert/parquet", "**/*.parquet");
    const std::string& pattern = asked.path;
    const bool is_pattern = is_path_pattern(pattern);
    HubAddress folder = asked;
    if (is_pattern) {
      folder.path = folder_before_wildcard(pattern);
    } else if (!pattern.empty() && !pattern.ends_with('/')) {
      if (const HubEntry entry = entry_of(asked); !entry.is_folder) {
        found.files.push_back(entry.file);
        found.files.back().address = asked.at(asked.revision, pattern);
        return found;
      }
      folder.path += '/';
    }
    const std::string_view wild =
        std::string_view(pattern).substr(std::min(folder.path.size(), pattern.size()));
    const bool is_deep = !is_pattern || wild.find('/') != wild.npos || wild.find("**") != wild.npos;
    add_fitting(folder, pattern, is_deep, folder.path.size(), found);
    return found;
  }

 private:
  // Adds the files below `folder` that fit the pattern. `num_top_bytes` of their paths are in front
  // of what path_below is.
  void add_fitting(const HubAddress& folder, const std::string& pattern, bool is_deep,
                   size_t num_top_bytes, StoredFiles& found) {
    for (const auto& [path, entry] : entries_of(folder, is_deep)) {
      if (!path.starts_with(folder.path) || !is_sound_path(path)) {
        throw NetworkError(fmt::format("{}: the hub lists '{}', which is no path in it",
                                       folder.at(folder.revision, folder.path),
                                       escape_for_terminal(path)));
      }
      const PathFit fit = fit_of_path(pattern, path);
      if (fit == PathFit::kNone) continue;
      if (entry.is_folder) {
        if (is_deep) continue;  // what lies in it is in the list
        HubAddress inner = folder;
        inner.path = path + "/";
        add_fitting(inner, pattern, /*is_deep=*/true, num_top_bytes, found);
        continue;
      }
      found.files.push_back(entry.file);
      StoredFile& file = found.files.back();
      file.address = folder.at(folder.revision, path);
      file.path_below = path.substr(num_top_bytes);
      file.is_of_folder = fit == PathFit::kInFolder;
    }
  }

  std::string commit_of(const HubAddress& address) {
    if (is_commit(address.revision)) return address.revision;
    std::string& commit = commits_[address.dataset + "@" + address.revision];
    if (!commit.empty()) return commit;
    HubPage page(address.api_url("revision") + "?expand=sha", address);
    const Json json = read(page);
    const auto found = json.find("sha");
    const std::string sha = found != json.end() && found->is_string() ? *found : "";
    if (!is_commit(sha)) throw NetworkError(page.name() + ": the answer names no commit");
    return commit = sha;
  }

  // Throws NetworkError where nothing has the path of `address`.
  HubEntry entry_of(const HubAddress& address) {
    HubAddress folder = address;
    folder.path = address.path.substr(0, address.path.rfind('/') + 1);
    const HubFolder& entries = entries_of(folder, /*is_recursive=*/false);
    const auto found = entries.find(address.path);
    if (found != entries.end()) return found->second;
    throw NetworkError(
        fmt::format("{}: '{}' has no such file or folder at this commit; files are "
                    "listed at {}/tree/{}",
                    address.at(address.revision, address.path), address.dataset, address.page(),
                    address.revision));
  }

  const HubFolder& entries_of(const HubAddress& folder, bool is_recursive) {
    std::string path = folder.path;
    while (path.ends_with('/')) path.pop_back();
    std::string url = folder.api_url("tree");
    if (!path.empty()) url += "/" + percent_encoded(path, "/");
    url += is_recursive ? "?recursive=true&expand=false" : "?recursive=false&expand=false";
    const auto [place, is_new] = folders_.try_emplace(url);
    if (!is_new) return place->second;
    try {
      read_pages(url, folder, place->second);
    } catch (...) {
      folders_.erase(place);
      throw;
    }
    return place->second;
  }

  void read_pages(std::string url, const HubAddress& folder, HubFolder& entries) {
    std::set<std::string> urls;
    while (!url.empty()) {
      HubPage page(url, folder);
      if (!urls.insert(url).second)
        throw NetworkError(page.name() + ": the hub's list of files has no end");
      try {
        for (const Json& entry : read(page)) add_entry(entry, entries);
      } catch (const Json::exception& error) {
        throw NetworkError(page.name() +
                           ": is no list of files as the hub makes them: " + error.what());
      }
      if (entries.size() > kMaxFiles)
        throw LimitExceeded(page.name() + ": lists over ten million files; name a folder in it");
      url = page.next();
    }
  }

  static void add_entry(const Json& json, HubFolder& entries) {
    HubEntry entry;
    entry.is_folder = json.at("type").get<std::string>() == "directory";
    if (const auto lfs = json.find("lfs"); lfs != json.end() && lfs->is_object())
      entry.file.sha256 = lower_sha256(lfs->at("oid").get<std::string>());
    entries.emplace(json.at("path").get<std::string>(), std::move(entry));
  }

  // The caller keeps the page, whose Link it reads afterwards.
  Json read(HubPage& page) {
    const std::shared_ptr<RemoteFile> file(std::shared_ptr<void>(), &page);
    const std::string text = read_url(file, options_, kMaxPageBytes, cancelled_);
    try {
      return parse_json<Json>(text);
    } catch (const std::exception& error) {
      throw NetworkError(page.name() + ": the answer is no JSON: " + error.what());
    }
  }

  FetchOptions options_;
  const std::atomic<bool>& cancelled_;
  std::map<std::string, std::string> commits_;  // by DATASET@REVISION
  std::map<std::string, HubFolder> folders_;    // by the address of the first page
};

}  // namespace

const RemoteStore kHubStore{
    .scheme = "hf",
    .check = [](const std::string& address) { (void)parse_hub_address(address); },
    .open = [](const std::string& address, const HttpOptions& options)
        -> std::shared_ptr<RemoteFile> { return std::make_shared<HubFile>(address, options); },
    .make_lister = [](const HttpOptions& options,
                      const std::atomic<bool>& cancelled) -> std::unique_ptr<RemoteLister> {
      return std::make_unique<HubLister>(options, cancelled);
    },
};

}  // namespace weft
