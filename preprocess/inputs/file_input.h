// A file as an input.
#pragma once

#include <memory>
#include <string>

#include "preprocess/inputs/input.h"

namespace weft {

// The key of standard input, by whatever name it was given: it can be read once.
inline constexpr char kStandardInputKey[] = "standard input";
// The key of a path: tells files and pipes apart; "" for what is not there.
std::string key_of_path(const std::string& path);

class FileInput final : public Input {
 public:
  explicit FileInput(const std::string& path) : Input(path) {}

  std::string key() const override { return key_of_path(name()); }
  std::string path() const override { return name(); }
  int opening_error() const override;
  void look(const std::atomic<bool>& cancelled) override;
  bool has_changed() const override;
  std::unique_ptr<ByteSource> open(int64_t begin, int64_t end, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override;
};

}  // namespace weft
