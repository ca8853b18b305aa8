// The entries and merges of a tokenizer.json: read as they are parsed, checked when all is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/formats/entry_index.h"
#include "tokenizer/formats/json_stream.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// `model.vocab`: "printable form of the entry": id.
class VocabSink final : public JsonSink {
 public:
  explicit VocabSink(const std::string& file) : file_(file) {}

  void on_key(std::string_view key) override;
  void on_integer(int64_t value) override;
  void on_string(std::string_view) override { fail_entry("its id is not an integer"); }
  void on_other() override { fail_entry("its id is not an integer"); }
  void on_open(bool) override { fail_entry("its id is not an integer"); }
  void on_close() override {}

  size_t size() const { return entries_.size(); }
  // The texts by id, valid while this lives. Throws std::runtime_error for ids with gaps, out of
  // range, or used twice.
  std::vector<std::string_view> texts_by_id() const;

 private:
  struct Entry {
    uint32_t end;  // of its text
    int32_t id;
  };
  [[noreturn]] void fail_entry(const std::string& why) const;
  std::string_view text_of(size_t i) const;

  std::string file_, text_;  // text_: of all entries, back to back
  std::vector<Entry> entries_;
};

// The ids of the texts. Throws std::runtime_error if two are equal.
EntryIndex index_entries(const std::vector<std::string_view>& texts, const std::string& file);

// `model.merges`: "left right" or ["left", "right"], in order of rank.
class MergesSink final : public JsonSink {
 public:
  explicit MergesSink(const std::string& file) : file_(file) {}

  void on_string(std::string_view text) override;
  void on_key(std::string_view) override { fail("is not a pair of entries"); }
  void on_integer(int64_t) override { fail("is not a pair of entries"); }
  void on_other() override { fail("is not a pair of entries"); }
  void on_open(bool is_list) override;
  void on_close() override;

  size_t size() const { return ends_.size() / 2; }
  // Adds the merges, whose entries have `ids`. Throws std::runtime_error for entries that are not
  // there, and merges that stand there twice.
  void add_to(Vocabulary::Parts& parts, const EntryIndex& ids) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;
  void add_half(std::string_view half);

  std::string file_, text_;     // text_: of all halves, back to back
  std::vector<uint32_t> ends_;  // of each half: left, right, left, right, ...
  bool is_in_pair_ = false;
  size_t pair_begin_ = 0;  // in ends_, of the pair that is open
};

}  // namespace weft
