#include "preprocess/ledger/ledger_messages.h"

#include <concepts>
#include <stdexcept>
#include <type_traits>

#include "indexed_dataset/base/storage/little_endian.h"

namespace weft {
namespace {

class Writer {
 public:
  void operator()(int64_t value) {
    char bytes[8];
    store_number(bytes, value);
    bytes_.append(bytes, sizeof bytes);
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  void operator()(int64_t& value) {
    if (rest_.size() < 8) fail("it ends too early");
    value = load_number<int64_t>(rest_.data());
    rest_.remove_prefix(8);
  }
  void operator()(std::string& text) {
    const size_t size = length();
    text.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
  }
  // The length of a string or list; everything in a list has at least one byte.
  size_t length() {
    int64_t size = 0;
    (*this)(size);
    if (size < 0 || static_cast<uint64_t>(size) > rest_.size()) {
      fail("a length in it is larger than it is");
    }
    return static_cast<size_t>(size);
  }
  void finish() const {
    if (!rest_.empty()) fail("it is longer than what it says");
  }
  [[noreturn]] static void fail(const char* why) {
    throw std::domain_error(std::string("a message makes no sense: ") + why);
  }

 private:
  std::string_view rest_;
};

template <typename Archive>
constexpr bool kIsReading = std::is_same_v<Archive, Reader>;

// The fields in one place for both directions; `T` is a const type when writing.
template <typename Archive, typename T>
void fields(Archive& archive, T& value);

// Small integers and enumerations travel as 8 bytes too; out of range is an error.
template <typename Archive, typename T>
void small(Archive& archive, T& value, int64_t least, int64_t most) {
  if constexpr (kIsReading<Archive>) {
    int64_t read = 0;
    archive(read);
    if (read < least || read > most) Reader::fail("a number in it is out of range");
    value = static_cast<T>(read);
  } else {
    archive(static_cast<int64_t>(value));
  }
}

template <typename Archive, typename... Counts>
void counts(Archive& archive, Counts&... values) {
  (small(archive, values, 0, INT64_MAX), ...);
}

template <typename Archive, typename List>
void list(Archive& archive, List& elements) {
  if constexpr (kIsReading<Archive>) {
    // One by one: a length that lies costs no memory, the bytes end first.
    for (size_t left = archive.length(); left > 0; --left) {
      fields(archive, elements.emplace_back());
    }
  } else {
    archive(static_cast<int64_t>(elements.size()));
    for (auto& element : elements) fields(archive, element);
  }
}

template <typename Archive, typename Option>
void option(Archive& archive, Option& value) {
  bool is_there = value.has_value();
  small(archive, is_there, 0, 1);
  if constexpr (kIsReading<Archive>) {
    if (is_there) value = typename Option::value_type{};  // emplace() confuses clang 14
  }
  if (is_there) fields(archive, *value);
}

template <typename T, typename Wanted>
concept Is = std::same_as<std::remove_const_t<T>, Wanted>;

template <typename Archive, typename T>
void fields(Archive& archive, T& v) {
  if constexpr (Is<T, DatasetCounts>) {
    counts(archive, v.num_documents, v.num_sequences, v.num_tokens);
  } else if constexpr (Is<T, Crc32>) {
    uint32_t value = v.value();
    int64_t num_bytes = v.num_bytes();
    small(archive, value, 0, UINT32_MAX), small(archive, num_bytes, 0, kMaxTaskBytes);
    if constexpr (kIsReading<Archive>) v = Crc32(value, num_bytes);
  } else if constexpr (Is<T, WrittenChecksums>) {
    fields(archive, v.tokens), fields(archive, v.lengths);
    fields(archive, v.documents), fields(archive, v.sources);
  } else if constexpr (Is<T, PipelineTotals>) {
    counts(archive, v.num_file_bytes, v.num_bytes, v.num_lines, v.num_documents);
    counts(archive, v.num_empty_documents, v.num_tokens, v.num_replaced_surrogates);
    counts(archive, v.num_dropped_bytes);
    list(archive, v.left_out.by_comparison);
    for (auto& count : v.bad_lines.by_problem) counts(archive, count);
  } else if constexpr (Is<T, LeftOutCounts::Counts>) {
    counts(archive, v.num_by_value, v.num_without_key, v.num_of_other_kind);
  } else if constexpr (Is<T, BadLine>) {
    archive(v.input), archive(v.line_number), archive(v.offset_bytes);
    small(archive, v.outcome.problem, 0, kNumLineProblems - 1);
    archive(v.outcome.detail);
    small(archive, v.outcome.position, 0, INT64_MAX);
    archive(v.hint);
  } else if constexpr (Is<T, Task>) {
    archive(v.number);
    small(archive, v.input_idx, 0, INT32_MAX);
    archive(v.begin), archive(v.end), archive(v.limit_bytes);
  } else if constexpr (Is<T, TaskCounts>) {
    fields(archive, v.totals), list(archive, v.datasets), list(archive, v.written);
    list(archive, v.bad_lines), counts(archive, v.num_range_bytes);
  } else if constexpr (Is<T, SpillFile>) {
    small(archive, v.process_id, 0, INT64_MAX), small(archive, v.num_bytes, 0, kMaxTaskBytes);
  } else if constexpr (Is<T, TaskProgress>) {
    fields(archive, v.counts), archive(v.next_offset_bytes);
    list(archive, v.spill), list(archive, v.before_spill);
    small(archive, v.is_read, 0, 1);
  } else if constexpr (Is<T, TaskOffset>) {
    list(archive, v.datasets), archive(v.num_input_lines), archive(v.num_input_bytes);
  } else if constexpr (Is<T, RunFailure>) {
    small(archive, v.exit_code, 0, 255);
    archive(v.message), option(archive, v.bad_line);
    small(archive, v.rank, -1, INT32_MAX), archive(v.task);
  } else if constexpr (Is<T, LedgerRequest::Read>) {
    archive(v.task), fields(archive, v.counts);
  } else if constexpr (Is<T, LedgerRequest::Durable>) {
    archive(v.task), fields(archive, v.progress), list(archive, v.copied_spill);
  } else if constexpr (Is<T, LedgerRequest::Failed>) {
    archive(v.task), fields(archive, v.failure);
  } else if constexpr (Is<T, LedgerReply::Assigned>) {
    fields(archive, v.task), fields(archive, v.progress);
  } else if constexpr (Is<T, LedgerReply::OffsetKnown>) {
    archive(v.task), fields(archive, v.offset);
  } else if constexpr (Is<T, DatasetOffset>) {
    fields(archive, v.before), archive(v.num_input_bytes);
  } else if constexpr (Is<T, LastPassPart>) {
    archive(v.number), archive(v.dataset);
    small(archive, v.kind, 0, static_cast<int64_t>(LastPassPart::Kind::kIdx));
    fields(archive, v.total), list(archive, v.offsets);
    archive(v.begin_bytes), archive(v.end_bytes), list(archive, v.cuts);
  } else if constexpr (Is<T, LastPassResult>) {
    archive(v.number), list(archive, v.checksums), list(archive, v.block_hashes);
  } else if constexpr (Is<T, int64_t>) {
    archive(v);
  } else if constexpr (Is<T, uint64_t>) {
    auto bits = static_cast<int64_t>(v);
    archive(bits);
    if constexpr (kIsReading<Archive>) v = static_cast<uint64_t>(bits);
  } else if constexpr (Is<T, LedgerRequest>) {
    archive(v.num_tasks_wanted), archive(v.num_parts_wanted), fields(archive, v.newly_seen);
    list(archive, v.read_tasks), list(archive, v.durable), list(archive, v.part_results);
    option(archive, v.failed_task), option(archive, v.leaving);
  } else {
    static_assert(Is<T, LedgerReply>);
    list(archive, v.assigned), list(archive, v.parts), list(archive, v.offsets_known);
    small(archive, v.all_done, 0, 1);
    option(archive, v.failure);
  }
}

template <typename T>
std::string written(const T& value) {
  Writer writer;
  fields(writer, value);
  return writer.take();
}

template <typename T>
T read(std::string_view message) {
  Reader reader(message);
  T value;
  fields(reader, value);
  reader.finish();
  return value;
}

}  // namespace

std::string to_message(const LedgerRequest& request) { return written(request); }
std::string to_message(const LedgerReply& reply) { return written(reply); }
std::string to_message(const RunFailure& failure) { return written(failure); }
std::string to_message(const LedgerRequest::Durable& durable) { return written(durable); }

LedgerRequest ledger_request_from(std::string_view message) { return read<LedgerRequest>(message); }
LedgerReply ledger_reply_from(std::string_view message) { return read<LedgerReply>(message); }
RunFailure run_failure_from(std::string_view message) { return read<RunFailure>(message); }
LedgerRequest::Durable durable_from(std::string_view message) {
  return read<LedgerRequest::Durable>(message);
}

}  // namespace weft
