#include "tokenizer/unicode/nfc.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tokenizer/unicode/nfc_data.h"
#include "tokenizer/unicode/utf8.h"

namespace weft {
namespace {

// Hangul syllables are made by arithmetic (The Unicode Standard, section 3.12).
constexpr uint32_t kFirstSyllable = 0xAC00, kFirstL = 0x1100, kFirstV = 0x1161;
constexpr uint32_t kBeforeFirstT = 0x11A7;  // T number 0 is none
constexpr uint32_t kNumL = 19, kNumV = 21, kNumT = 28;
constexpr uint32_t kNumSyllables = kNumL * kNumV * kNumT;

struct NfcChar {
  uint32_t code_point;
  uint8_t combining_class;
};

class NfcTables {
 public:
  // kStable: nothing composes with what stands before it, and it is a starter (class 0) that stays
  // as it is. kSecond: it may compose with what stands before it, or decomposes. Any other value is
  // the combining class of a mark that at most changes its place among others.
  static constexpr uint8_t kStable = 0, kSecond = 255;

  NfcTables();
  uint8_t kind(uint32_t code_point) const { return of(code_point)[0]; }
  uint8_t combining_class(uint32_t code_point) const { return of(code_point)[1]; }
  // Returns the composition of both, or 0.
  uint32_t composed(uint32_t first, uint32_t second) const;
  void decompose(uint32_t code_point, std::vector<NfcChar>& chars) const;
  // True for a starter `second` of kSecond that stays as it is behind `starter`, as most vowel
  // signs of Bengali and Tamil do.
  bool stands_alone(uint32_t starter, uint32_t second) const {
    return combining_class(second) == 0 && composed(starter, second) == 0 &&
           !decompositions_.contains(second);
  }

 private:
  using Entry = uint8_t[2];  // kind, combining class
  const Entry& of(uint32_t code_point) const {
    return entries_[size_t{page_of_[code_point >> 8]} << 8 | (code_point & 255)];
  }
  Entry& entry(uint32_t code_point);
  static uint64_t pair(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }

  std::vector<uint8_t> page_of_ = std::vector<uint8_t>(0x1100);  // page 0: kStable alone
  struct Page {
    Entry entries[256];
  };
  std::vector<Page> pages_ = std::vector<Page>(1);
  const Entry* entries_ = nullptr;
  std::unordered_map<uint64_t, uint32_t> compositions_;
  std::unordered_map<uint32_t, Decomposition> decompositions_;
};

NfcTables::NfcTables() {
  for (const CombiningClassRange& range : kCombiningClasses) {
    for (uint32_t c = range.first; c <= range.last; ++c)
      entry(c)[0] = entry(c)[1] = range.combining_class;
  }
  for (const Decomposition& d : kComposedPairs) {
    compositions_.emplace(pair(d.first, d.second), d.code_point);
    decompositions_.emplace(d.code_point, d);
    entry(d.second)[0] = kSecond;
  }
  for (const Decomposition& d : kDecomposedOnly) {
    decompositions_.emplace(d.code_point, d);
    entry(d.code_point)[0] = kSecond;
  }
  for (uint32_t v = 0; v < kNumV; ++v) entry(kFirstV + v)[0] = kSecond;
  for (uint32_t t = 1; t < kNumT; ++t) entry(kBeforeFirstT + t)[0] = kSecond;
  entries_ = pages_[0].entries;
}

NfcTables::Entry& NfcTables::entry(uint32_t code_point) {
  uint8_t& page = page_of_[code_point >> 8];
  if (page == 0) {
    page = static_cast<uint8_t>(pages_.size());  // 70 pages have entries
    pages_.emplace_back();
  }
  return pages_[page].entries[code_point & 255];
}

uint32_t NfcTables::composed(uint32_t first, uint32_t second) const {
  if (first - kFirstL < kNumL && second - kFirstV < kNumV)
    return kFirstSyllable + ((first - kFirstL) * kNumV + (second - kFirstV)) * kNumT;
  if (first - kFirstSyllable < kNumSyllables && (first - kFirstSyllable) % kNumT == 0 &&
      second - kBeforeFirstT - 1 < kNumT - 1) {
    return first + (second - kBeforeFirstT);
  }
  const auto found = compositions_.find(pair(first, second));
  return found == compositions_.end() ? 0 : found->second;
}

void NfcTables::decompose(uint32_t code_point, std::vector<NfcChar>& chars) const {
  if (const uint32_t s = code_point - kFirstSyllable; s < kNumSyllables) {
    chars.push_back({kFirstL + s / (kNumV * kNumT), 0});
    chars.push_back({kFirstV + s / kNumT % kNumV, 0});
    if (s % kNumT != 0) chars.push_back({kBeforeFirstT + s % kNumT, 0});
    return;
  }
  const auto found = decompositions_.find(code_point);
  if (found == decompositions_.end()) {
    chars.push_back({code_point, combining_class(code_point)});
    return;
  }
  decompose(found->second.first, chars);
  if (found->second.second != 0) decompose(found->second.second, chars);
}

const NfcTables& nfc_tables() {
  static const NfcTables tables;
  return tables;
}

// Puts marks between two starters into the order of their classes.
void reorder(std::vector<NfcChar>& chars) {
  const auto is_starter = [](const NfcChar& c) { return c.combining_class == 0; };
  for (auto begin = chars.begin(); begin != chars.end();) {
    begin = std::find_if_not(begin, chars.end(), is_starter);
    const auto end = std::find_if(begin, chars.end(), is_starter);
    std::stable_sort(begin, end, [](const NfcChar& a, const NfcChar& b) {
      return a.combining_class < b.combining_class;
    });
    begin = end;
  }
}

// Composes in place, by the canonical composition algorithm (D117): a character composes with the
// last starter unless one between them has no lower class.
void compose(const NfcTables& tables, std::vector<NfcChar>& chars) {
  size_t num_kept = 0, starter = SIZE_MAX;
  for (const NfcChar c : chars) {
    if (starter != SIZE_MAX) {
      const bool is_next = starter + 1 == num_kept;
      if (is_next || chars[num_kept - 1].combining_class < c.combining_class) {
        if (const uint32_t both = tables.composed(chars[starter].code_point, c.code_point)) {
          chars[starter].code_point = both;
          continue;
        }
      }
    }
    if (c.combining_class == 0) starter = num_kept;
    chars[num_kept++] = c;
  }
  chars.resize(num_kept);
}

// One pass over a text.
class NfcPass {
 public:
  NfcPass(std::string_view text, std::string& normalized)
      : begin_(reinterpret_cast<const uint8_t*>(text.data())),
        end_(begin_ + text.size()),
        copied_(begin_),
        normalized_(normalized) {}

  // True if the text was normalized; else the result is in `normalized`.
  bool run();

 private:
  void skip_ascii();
  void normalize_segment(const uint8_t* segment, const uint8_t* next);

  const NfcTables& tables_ = nfc_tables();
  const uint8_t* const begin_;
  const uint8_t* const end_;
  const uint8_t* p_ = begin_;
  const uint8_t* copied_;  // up to here the text is in normalized_, if anything has changed
  std::string& normalized_;
  bool has_changed_ = false;
  std::vector<NfcChar> chars_;
  std::string segment_text_;
};

void NfcPass::skip_ascii() {
  uint64_t eight;
  while (end_ - p_ >= 8 && (std::memcpy(&eight, p_, 8), (eight & 0x8080808080808080) == 0)) p_ += 8;
  while (p_ < end_ && *p_ < 0x80) ++p_;
}

// A segment is a stable character and all behind it that are not.
bool NfcPass::run() {
  const uint8_t* segment = p_;
  uint32_t starter = 0;  // the last character if it is a starter, else 0
  uint8_t last_class = 0;
  while (true) {
    if (p_ < end_ && *p_ < 0x80) {
      skip_ascii();
      segment = p_ - 1;
      starter = *segment;
      last_class = 0;
    }
    if (p_ == end_) break;
    const CodePoint c = non_ascii_code_point_at(p_, end_);
    const uint8_t* const next = p_ + c.num_bytes;
    const bool is_valid = c.value != kNotACodePoint;
    const uint8_t kind = is_valid ? tables_.kind(c.value) : NfcTables::kStable;
    if (kind == NfcTables::kStable) {
      segment = is_valid ? p_ : next;
      starter = is_valid ? c.value : 0;
      last_class = 0;
      p_ = next;
    } else if (kind != NfcTables::kSecond && kind >= last_class) {
      last_class = kind;
      starter = 0;
      p_ = next;
    } else if (starter != 0 && tables_.stands_alone(starter, c.value)) {
      segment = p_;
      starter = c.value;
      p_ = next;
    } else {
      normalize_segment(segment, next);
      segment = p_;
      starter = 0;
      last_class = 0;
    }
  }
  if (!has_changed_) return true;
  normalized_.append(copied_, end_);
  return false;
}

// Normalizes what goes on at `segment` and holds all up to `next` at least, and sets p_ behind it.
void NfcPass::normalize_segment(const uint8_t* segment, const uint8_t* next) {
  while (next < end_ && *next >= 0x80) {
    const CodePoint c = non_ascii_code_point_at(next, end_);
    if (c.value == kNotACodePoint || tables_.kind(c.value) == NfcTables::kStable) break;
    next += c.num_bytes;
  }
  chars_.clear();
  for (p_ = segment; p_ < next;) {
    const CodePoint c = code_point_at(p_, end_);
    tables_.decompose(c.value, chars_);
    p_ += c.num_bytes;
  }
  reorder(chars_);
  compose(tables_, chars_);
  segment_text_.clear();
  for (const NfcChar& c : chars_) append_utf8(c.code_point, segment_text_);
  const std::string_view before(reinterpret_cast<const char*>(segment),
                                static_cast<size_t>(next - segment));
  if (segment_text_ == before) return;
  if (!has_changed_) normalized_.clear();
  has_changed_ = true;
  normalized_.append(copied_, segment);
  normalized_ += segment_text_;
  copied_ = next;
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& scratch) {
  return NfcPass(text, scratch).run() ? text : std::string_view(scratch);
}

}  // namespace weft
