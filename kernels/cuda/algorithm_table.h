// The table of timed GEMM choices. With the same table a restarted run, or another rank, computes
// with the same algorithms, and so with the same bits.
//
//   weft-gemm-algorithms 1
//   <key> <value>
//
// A key is one word that names everything the choice depends on (shape, types, epilogue, library
// version, GPU); a value is one word of hexadecimal digits. The table lives in memory; it can be
// taken from a text (of a checkpoint, of rank 0) and kept in a file. Lines of the file are only
// ever added: a key keeps its first value, also when several processes share the file.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

namespace weft::cuda {

class AlgorithmTable {
 public:
  // Reads the file where it exists. An empty path keeps no file, and nothing is timed. Throws
  // std::runtime_error when the file is of another kind.
  explicit AlgorithmTable(std::string path);

  bool has_file() const { return !path_.empty(); }
  const std::string& path() const { return path_; }

  // A key that is found counts as in use.
  std::optional<std::string> find(const std::string& key);
  // The same without what only this machine's file tells: a key that is in use already, or was
  // taken from a text. Products that nobody has timed for this run must not follow the file, which
  // other ranks and other nodes do not have.
  std::optional<std::string> find_settled(const std::string& key);
  void add(const std::string& key, const std::string& value);

  // Takes the pairs of a text in the file's format; they win over those that are there. Throws
  // std::runtime_error when the text is of another kind.
  void take(const std::string& text);
  // Returns the pairs in use in the file's format, sorted; "" where there are none.
  std::string text_in_use() const;

  // Adds the pairs that add() brought to the file (whole, then renamed). Where another process was
  // faster, its values replace ours. Returns "", or why the file does not hold the new pairs.
  std::string store();

 private:
  using Pairs = std::map<std::string, std::string>;
  Pairs read_file() const;

  std::string path_;
  Pairs values_;
  std::set<std::string> in_use_, taken_, unstored_;
};

}  // namespace weft::cuda
