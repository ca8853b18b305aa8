#include "preprocess/columnar/plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kFileName[] = "weft_columnar.so";

// As it lies in a build folder and where it is installed, or beside the program; "" if nowhere.
fs::path find_plugin() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder / "../lib", folder / "../lib/weft", folder}) {
    if (fs::exists(place / kFileName, error)) return place / kFileName;
  }
  return {};
}

// The functions that it exports; null if they cannot be had, then `why` says why.
ColumnarPlugin load(const fs::path& path, std::string& why) {
  if (path.empty()) {
    why = "is not there";
    return {};
  }
  // Local: libparquet has an OpenSSL of its own in it, which must not take the place of the one
  // that downloads use.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto function = [&](const char* name) {
    void* const found = library == nullptr ? nullptr : ::dlsym(library, name);
    const char* const error = found == nullptr ? ::dlerror() : nullptr;
    if (error != nullptr) why = std::string("cannot be loaded (") + error + ")";
    return found;
  };
  return {reinterpret_cast<OpenTable*>(function(kOpenTable)),
          reinterpret_cast<ReadJsonLines*>(function(kReadJsonLines))};
}

}  // namespace

bool has_columnar_plugin() { return !find_plugin().empty(); }

const ColumnarPlugin& load_columnar_plugin(const std::string& name, const std::string& what) {
  static std::mutex mutex;
  static std::string why;
  const std::lock_guard lock(mutex);
  static const ColumnarPlugin plugin = load(find_plugin(), why);
  if (why.empty()) return plugin;
  throw UsageError(
      name + ": this is " + what + ", and " + kFileName + ", which reads it, " + why +
      "; jobs/install-deps.sh --parquet installs what it needs, then build Weft again, "
      "or convert the file to JSON lines");
}

}  // namespace weft
