// The file of timed GEMM choices. With it a restarted run computes with the same algorithms, and so
// with the same bits.
//
//   weft-gemm-algorithms 1
//   <key> <value>
//
// A key is one word that names everything the choice depends on (shape, types, epilogue, library
// version, GPU); a value is one word of hexadecimal digits. Lines are only ever added: a key keeps
// its first value, also when several processes share the file.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace weft::cuda {

class AlgorithmCache {
 public:
  // An empty path keeps nothing. Throws std::runtime_error when there is a file of another kind.
  explicit AlgorithmCache(std::string path);

  bool enabled() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::optional<std::string> find(const std::string& key) const;
  // Adds the pair, writes the file (whole, then renamed) and returns the value that the file holds
  // now, which is another process's where that one came first. Throws std::system_error when the
  // file cannot be written.
  std::string add(const std::string& key, const std::string& value);

 private:
  void load();

  std::string path_;
  std::map<std::string, std::string> values_;
};

}  // namespace weft::cuda
