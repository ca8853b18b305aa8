// The file of timed GEMM choices: what makes a restarted run compute with the same algorithms,
// hence the same bits.
//
//   weft-gemm-algorithms 1
//   <key> <value>
//
// A key is one word that names everything the choice depends on (shape, types, epilogue, library
// version, GPU), the value one word of hexadecimal digits. Lines are only ever added: a key keeps
// its first value, also when several processes share the file.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace weft::cuda {

class AlgorithmCache {
 public:
  // An empty path keeps nothing. Throws std::runtime_error when the file is there but is not such a
  // file.
  explicit AlgorithmCache(std::string path);

  bool enabled() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::optional<std::string> find(const std::string& key) const;
  // Adds the pair, writes the file (whole, then renamed) and returns the value that now stands
  // there: another process's, where one was faster. Throws std::system_error when the file cannot
  // be written.
  std::string add(const std::string& key, const std::string& value);

 private:
  void load();

  std::string path_;
  std::map<std::string, std::string> values_;
};

}  // namespace weft::cuda
