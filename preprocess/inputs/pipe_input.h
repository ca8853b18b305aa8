// Standard input, a named pipe or a device as an input: read once, from front to back.
#pragma once

#include <memory>
#include <string>

#include "preprocess/inputs/file_input.h"
#include "preprocess/inputs/input.h"

namespace weft {

class PipeInput final : public Input {
 public:
  // `path`: "-" for standard input.
  explicit PipeInput(const std::string& path)
      : Input(path == "-" ? "<stdin>" : path), path_(path) {}

  std::string key() const override { return key_of_path(path_); }
  std::string path() const override { return is_standard_input() ? "" : path_; }
  int opening_error() const override;
  void look(const std::atomic<bool>&) override { be_stream(); }
  std::unique_ptr<ByteSource> open(int64_t begin, int64_t end, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override;

 private:
  bool is_standard_input() const { return path_ == "-"; }

  const std::string path_;
};

}  // namespace weft
