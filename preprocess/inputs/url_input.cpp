// An address of the web or of a store as an input: lines are fetched ahead while they are read, of
// a table the ranges that the wanted columns lie in. Nothing is stored.
#include <fmt/format.h>

#include <optional>
#include <sstream>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/columnar/table_file.h"
#include "preprocess/compressed/decompress.h"
#include "preprocess/inputs/input.h"
#include "preprocess/inputs/layout_text.h"
#include "preprocess/inputs/remote_bytes.h"
#include "preprocess/stores/find_store.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

class UrlInput final : public Input {
 public:
  UrlInput(const std::string& address, const HttpOptions& options)
      : Input(find_store(address) != nullptr ? address : display_url(address)), address_(address) {
    options_.fetch.http = options;
  }

  std::string key() const override {
    return find_store(address_) != nullptr ? address_ : url_without_secrets(address_);
  }
  void check_name() const override { check_remote_address(address_, options_.fetch.http); }

  void look(const std::atomic<bool>& cancelled, const RowRequest& wanted) override {
    file_ = open_remote(address_, options_.fetch.http);
    options_.expected = {};
    const UrlStat stat = stat_url(file_, options_, cancelled);
    be_file(stat.identity);
    table_format_ = table_format(stat.first_bytes);
    if (table_format_) {
      if (!stat.has_ranges || identity_.version.empty() || identity_.file_bytes < 0) {
        throw NetworkError(name() +
                           ": its server gives no ranges of it, or does not say of which version "
                           "they are, as reading a table needs: download it first");
      }
      be_table();
      layout_ = table_->layout(wanted, cancelled);
      return;
    }
    layout_ = {};
    layout_.file_bytes = stat.identity.size_bytes;
    const auto decoder = decoder_for(stat.first_bytes);
    layout_.format = decoder ? decoder->format() : "plain";
    // A run that goes on asks for the rest only, where the server can prove that it is one.
    layout_.cut_anywhere = !decoder && layout_.file_bytes >= 0 && !identity_.version.empty();
    layout_.is_one_task = true;
  }
  // Lines: layout, size, ETag, date, format of the table. A file without a validator is asked for
  // by each process, as it cannot be told from another one.
  std::string found() const override {
    const UrlIdentity& file = options_.expected;
    if (identity_.version.empty()) return "";
    return fmt::format("{}\n{}\n{}\n{}\n{}", layout_text(layout_), file.size_bytes, file.etag,
                       file.last_modified,
                       table_format_ ? static_cast<int>(*table_format_) : kNoTable);
  }
  void take_found(const std::string& found, const std::atomic<bool>&, const RowRequest&) override {
    std::istringstream lines(found);
    std::string layout, size;
    UrlIdentity file;
    int format = kNoTable;
    std::getline(lines, layout);
    std::getline(lines, size);
    std::getline(lines, file.etag);
    std::getline(lines, file.last_modified);
    lines >> format;
    file.size_bytes = std::stoll(size);
    file_ = open_remote(address_, options_.fetch.http);
    be_file(file);
    layout_ = layout_from(layout);
    if (format == kNoTable) return;
    table_format_ = static_cast<TableFormat>(format);
    be_table();
  }

  // The range goes to the file's end. What begins in the middle is plain.
  std::unique_ptr<ByteSource> open(int64_t begin, int64_t, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override {
    auto raw = open_url_source(file_, options_, begin, cancelled);
    return begin > 0 ? std::move(raw) : decode(std::move(raw), name(), options);
  }
  std::unique_ptr<RowSource> open_rows(int64_t begin, int64_t end, int64_t num_rows_passed,
                                       const RowRequest& request,
                                       const std::atomic<bool>& cancelled) const override {
    return table_->read(begin, end, num_rows_passed, request, cancelled);
  }

 private:
  static constexpr int kNoTable = -1;

  void be_file(const UrlIdentity& file) {
    identity_ = {version_text(file), file.size_bytes};
    options_.expected = file;  // another one is a NetworkError from now on
  }
  void be_table() {
    table_ = std::make_unique<TableFile>(name(), *table_format_,
                                         [this](const std::atomic<bool>& while_opening) {
                                           return open_remote_bytes(file_, options_, while_opening);
                                         });
  }

  const std::string address_;
  UrlOptions options_;
  std::shared_ptr<RemoteFile> file_;  // known when it was looked at
  std::optional<TableFormat> table_format_;
  std::unique_ptr<TableFile> table_;  // null: it holds none
};

}  // namespace

std::shared_ptr<Input> make_url_input(const std::string& address, const HttpOptions& options) {
  return std::make_shared<UrlInput>(address, options);
}

}  // namespace weft
