#include "preprocess/stores/s3_store.h"

#include <algorithm>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/object_store/s3_objects.h"
#include "preprocess/stores/path_pattern.h"

namespace weft {
namespace {

class S3Lister final : public RemoteLister {
 public:
  S3Lister(HttpOptions options, const std::atomic<bool>& cancelled)
      : options_(std::move(options)), cancelled_(cancelled) {}

  // The store is asked for folders and patterns only: a missing object is found when it is read.
  StoredFiles list(const std::string& address) override {
    const S3Address asked = parse_s3_address(address);
    const bool is_folder = asked.key.empty() || asked.key.ends_with('/');
    StoredFiles found;
    if (!is_folder && !is_path_pattern(asked.key)) {
      found.files.push_back({.address = asked.text(), .sha256 = "", .path_below = ""});
      return found;
    }
    const std::string prefix =
        is_folder ? asked.key : asked.key.substr(0, asked.key.find_first_of("*?["));
    const size_t num_top_bytes = prefix.rfind('/') + 1;  // 0 without a slash
    for (const std::string& key : list_s3_keys(asked, prefix, options_, cancelled_)) {
      S3Address address = asked;
      address.key = key;
      StoredFile file{.address = address.text(), .sha256 = "", .path_below = ""};
      if (key == asked.key) {  // it has this very name
        found.files = {file};
        return found;
      }
      const PathFit fit = is_folder ? PathFit::kInFolder : fit_of_path(asked.key, key);
      if (fit == PathFit::kNone) continue;
      file.path_below = key.substr(num_top_bytes);
      if (!is_sound_path(file.path_below)) {
        throw NetworkError(address.text() +
                           ": its key is no path that files can have; name it alone, by itself");
      }
      file.is_of_folder = fit == PathFit::kInFolder;
      found.files.push_back(std::move(file));
    }
    return found;
  }

 private:
  const HttpOptions options_;
  const std::atomic<bool>& cancelled_;
};

constexpr RemoteStore store_of(std::string_view scheme) {
  return {
      .scheme = scheme,
      .check = [](const std::string& address) { (void)parse_s3_address(address); },
      .open = [](const std::string& address,
                 const HttpOptions& options) -> std::shared_ptr<RemoteFile> {
        return make_s3_object(parse_s3_address(address), options.s3);
      },
      .make_lister = [](const HttpOptions& options,
                        const std::atomic<bool>& cancelled) -> std::unique_ptr<RemoteLister> {
        return std::make_unique<S3Lister>(options, cancelled);
      },
  };
}

}  // namespace

const RemoteStore kS3Store = store_of("s3"), kGoogleStore = store_of("gs");

}  // namespace weft
