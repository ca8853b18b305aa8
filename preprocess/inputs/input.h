// An input of the data tools: a file, a pipe or an address, as it was named on the command line.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "preprocess/columnar/table.h"
#include "preprocess/compressed/input_layout.h"
#include "preprocess/web/fetch_options.h"

namespace weft {

// Tells whether an input is still the same: by its size and time of change, or a server's ETag.
struct InputIdentity {
  std::string version;      // empty: cannot be told (a pipe), so a stopped run starts anew
  int64_t file_bytes = -1;  // -1: unknown
  // The time when a local file's content, name or rights changed last. Other computers may have
  // copies of the file, so this only tells whether a run on this one can go on.
  std::string status_changed{};

  friend bool operator==(const InputIdentity&, const InputIdentity&) = default;
};

class Input {
 public:
  virtual ~Input() = default;

  // How messages and manifests call it.
  const std::string& name() const { return name_; }
  // Equal for two names of one input; "" where that cannot be told.
  virtual std::string key() const = 0;
  // Throws UsageError for a name that is not allowed.
  virtual void check_name() const {}
  // Its path in the file system, "" if it has none there.
  virtual std::string path() const { return ""; }
  // Why it cannot be opened, as an errno; 0 if nothing is known against it. Asks no server.
  virtual int opening_error() const { return 0; }

  // Finds identity and layout, decoding nothing. `wanted` is what will be wanted of a table. Throws
  // std::system_error or NetworkError if the input cannot be read, as Table::check, ReadCancelled.
  virtual void look(const std::atomic<bool>& cancelled, const RowRequest& wanted) = 0;
  // Returns what look() has found, for take_found(); "" where each process must look itself.
  virtual std::string found() const { return ""; }
  // The same as look() with what it has found in another process: no table is opened, and no server
  // is asked.
  virtual void take_found(const std::string& /*found*/, const std::atomic<bool>& cancelled,
                          const RowRequest& wanted) {
    look(cancelled, wanted);
  }
  // All that follows is for an input that was looked at, and thread-safe.
  const InputIdentity& identity() const { return identity_; }
  const InputLayout& layout() const { return layout_; }
  // True if it is no longer what it was when it was looked at, as far as can be told without
  // reading.
  virtual bool has_changed() const { return false; }
  // The plain bytes of the range [begin, end) of the file: both are part begins of the layout, or
  // anything where that can be cut anywhere; `end` is < 0 for the end, wherever that is. Throws as
  // ByteSource::read. `cancelled` must outlive the source.
  virtual std::unique_ptr<ByteSource> open(int64_t begin, int64_t end,
                                           const std::atomic<bool>& cancelled,
                                           const DecodeOptions& options) const = 0;
  // The rows of the range, for an input whose layout has rows; see Table::read().
  virtual std::unique_ptr<RowSource> open_rows(int64_t /*begin*/, int64_t /*end*/,
                                               int64_t /*num_rows_passed*/,
                                               const RowRequest& /*request*/,
                                               const std::atomic<bool>& /*cancelled*/) const {
    throw std::logic_error(name_ + ": has no rows");
  }

 protected:
  explicit Input(std::string name) : name_(std::move(name)) {}
  // The layout of what is read from front to back, and does not say its size.
  void be_stream() {
    layout_ = {};
    layout_.format = "stream";
    layout_.file_bytes = -1;
  }

  std::string name_;
  InputIdentity identity_;
  InputLayout layout_;
};

// The key of standard input, by whatever name it was given: it can be read once.
inline constexpr char kStandardInputKey[] = "standard input";

// For make_input(), which knows which of them a name means.
std::shared_ptr<Input> make_file_input(const std::string& path);
std::shared_ptr<Input> make_pipe_input(const std::string& path);  // "-": standard input
std::shared_ptr<Input> make_url_input(const std::string& address, const HttpOptions& options);

}  // namespace weft
