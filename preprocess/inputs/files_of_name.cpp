#include "preprocess/inputs/files_of_name.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "preprocess/columnar/plugin.h"
#include "preprocess/stores/path_pattern.h"

namespace weft {
namespace {

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string path_below(const std::string& folder, std::string_view name) {
  std::string path = folder;
  if (!path.empty() && !path.ends_with('/')) path += '/';
  return path += name;
}

bool ends_with_one_of(std::string_view name, const std::vector<std::string_view>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [name](std::string_view ending) { return name.ends_with(ending); });
}

bool is_input_name(std::string name, InputFormat format) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (format == InputFormat::kJsonLines && ends_with_one_of(name, {".parquet", ".arrow"}))
    return has_columnar_plugin();
  if (ends_with_one_of(name, {".gz", ".zst", ".zstd", ".xz", ".bz2"}))
    name.resize(name.find_last_of('.'));
  // That of a dataset (dataset_manifest.h) may lie where its corpus does.
  if (name.ends_with(".manifest.json")) return false;
  return ends_with_one_of(name, input_names(format).endings);
}

// Walks over folders and collects the files that are wanted.
class Walk {
 public:
  explicit Walk(InputFormat format) : format_(format) {}
  void add_folder(const std::string& folder);
  // `pattern` is what follows the folder.
  void add_fitting(const std::string& folder, std::string_view pattern);
  FilesOfName take() { return std::move(files_); }

 private:
  using UseEntry = std::function<void(const std::string& name, const std::string& path)>;
  static void each_entry(const std::string& folder, const UseEntry& use);
  void within(const std::string& folder, const std::function<void()>& work);
  void add(const std::string& path);

  const InputFormat format_;
  FilesOfName files_;
  // The folders from the first one to the one that is walked over: symbolic links may lead back.
  std::vector<std::pair<dev_t, ino_t>> open_folders_;
};

void Walk::each_entry(const std::string& folder, const UseEntry& use) {
  std::error_code error;
  const std::filesystem::path listed = folder.empty() ? "." : folder;
  std::filesystem::directory_iterator entry(listed, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    use(name, path_below(folder, name));
  }
  if (error) throw std::system_error(error, listed.string() + ": cannot list the folder");
}

void Walk::within(const std::string& folder, const std::function<void()>& work) {
  struct stat status {};
  if (::stat(folder.empty() ? "." : folder.c_str(), &status) != 0) return;
  const std::pair id{status.st_dev, status.st_ino};
  if (std::find(open_folders_.begin(), open_folders_.end(), id) != open_folders_.end()) return;
  open_folders_.push_back(id);
  work();
  open_folders_.pop_back();
}

void Walk::add_folder(const std::string& folder) {
  within(folder, [&] {
    each_entry(folder, [&](const std::string& name, const std::string& path) {
      if (name.starts_with('.')) {
        files_.passed.insert(path);
      } else if (is_folder(path)) {
        add_folder(path);
      } else if (is_input_name(name, format_)) {
        files_.paths.insert(path);
      } else {
        files_.passed.insert(path);
      }
    });
  });
}

void Walk::add(const std::string& path) {
  if (is_folder(path)) {
    add_folder(path);
  } else {
    files_.paths.insert(path);
  }
}

void Walk::add_fitting(const std::string& folder, std::string_view pattern) {
  const size_t slash = std::min(pattern.find('/'), pattern.size());
  const std::string first(pattern.substr(0, slash));
  std::string_view rest = pattern.substr(slash);
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  if (first == "**") {
    if (rest.empty()) return add_folder(folder);
    within(folder, [&] {
      add_fitting(folder, rest);
      each_entry(folder, [&](const std::string& name, const std::string& path) {
        if (!name.starts_with('.') && is_folder(path)) add_fitting(path, pattern);
      });
    });
    return;
  }
  const auto go_on = [&](const std::string& path) {
    if (rest.empty()) {
      add(path);
    } else if (is_folder(path)) {
      add_fitting(path, rest);
    }
  };
  if (!is_path_pattern(first)) {
    const std::string path = path_below(folder, first);
    if (struct stat status{}; ::stat(path.c_str(), &status) == 0) go_on(path);
    return;
  }
  each_entry(folder, [&](const std::string& name, const std::string& path) {
    if (::fnmatch(first.c_str(), name.c_str(), FNM_PERIOD) == 0) go_on(path);
  });
}

}  // namespace

const InputNames& input_names(InputFormat format) {
  static const InputNames kJsonLines = {"JSON lines", {".jsonl", ".ndjson", ".json"}};
  static const InputNames kText = {"plain text", {".txt", ".text", ".md", ".markdown", ".rst"}};
  return format == InputFormat::kText ? kText : kJsonLines;
}

std::string describe(const InputNames& names) {
  const std::vector<std::string_view>& endings = names.endings;
  return fmt::format("{} or {}, and perhaps .gz, .zst, .xz or .bz2 behind it",
                     fmt::join(endings.begin(), endings.end() - 1, ", "), endings.back());
}

bool is_input_path(const std::string& path, InputFormat format) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return !name.starts_with('.') && is_input_name(name, format);
}

FilesOfName files_of_folder(const std::string& folder, InputFormat format) {
  Walk walk(format);
  walk.add_folder(folder);
  return walk.take();
}

FilesOfName files_of_pattern(const std::string& pattern, InputFormat format) {
  Walk walk(format);
  const std::string folder = folder_before_wildcard(pattern);
  if (folder.empty() || is_folder(folder))
    walk.add_fitting(folder, std::string_view(pattern).substr(folder.size()));
  return walk.take();
}

}  // namespace weft
