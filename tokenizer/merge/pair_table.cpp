#include "tokenizer/merge/pair_table.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "tokenizer/merge/merge_table.h"
#include "tokenizer/merge/stable_pair.h"

namespace weft {
namespace {

constexpr size_t kNumBytePairs = size_t{kNumByteTokens} * kNumByteTokens;

}  // namespace

// All rules with the same left token.
template <typename Token>
struct PairTable<Token>::Row {
  Token left = 0;
  std::vector<Token> rights, products;
};

template <typename Token>
std::optional<PairTable<Token>> PairTable<Token>::make(const MergeRules& rules) {
  if (kNumByteTokens + rules.merges.size() >= kNever) return std::nullopt;
  PairTable table;
  table.add_tokens(rules);
  return table;
}

template <typename Token>
void PairTable<Token>::add_tokens(const MergeRules& rules) {
  const size_t num_tokens = kNumByteTokens + rules.merges.size();
  std::vector<Token> token_of_id(rules.entries.size(), kNone);
  std::vector<Row> rows(num_tokens);
  for (uint32_t byte = 0; byte < kNumByteTokens; ++byte) {
    ids_.push_back(rules.table.byte_id(static_cast<uint8_t>(byte)));
    num_bytes_.push_back(1);
    halves_.push_back({static_cast<Token>(byte), static_cast<Token>(byte)});
    if (ids_.back() >= 0) token_of_id[ids_.back()] = static_cast<Token>(byte);
  }
  for (const MergeRules::Merge& merge : rules.merges) {
    const Token left = token_of_id[merge.left], right = token_of_id[merge.right];
    const auto product = static_cast<Token>(ids_.size());
    token_of_id[merge.result] = product;
    ids_.push_back(merge.result);
    num_bytes_.push_back(num_bytes_[left] + num_bytes_[right]);
    halves_.push_back({left, right});
    rows[left].left = left;
    rows[left].rights.push_back(right);
    rows[left].products.push_back(product);
  }
  place_rows(rows);
  for (uint32_t pair = 0; pair < kNumBytePairs; ++pair) {
    const auto left = static_cast<uint8_t>(pair >> 8), right = static_cast<uint8_t>(pair);
    byte_pairs_[pair] = rules.table.may_touch(left, right) ? find(left, right) : kNever;
  }
}

// The longest rows first, as long as it is easy to find room for them.
template <typename Token>
void PairTable<Token>::place_rows(std::vector<Row>& rows) {
  const size_t num_bases = rows.size() + 1;  // one more for the lone token
  std::erase_if(rows, [](const Row& row) { return row.rights.empty(); });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.rights.size() > b.rights.size(); });
  num_slots_ = std::bit_ceil(num_bases);
  allocate(num_bases);
  while (!std::all_of(rows.begin(), rows.end(), [&](const Row& row) { return place_row(row); })) {
    num_slots_ *= 2;
    allocate(num_bases);
  }
}

template <typename Token>
void PairTable<Token>::allocate(size_t num_bases) {
  pages_ = ZeroedPages(num_slots_ * sizeof(Slot) + num_bases * sizeof(uint32_t) +
                       kNumBytePairs * sizeof(Token));
  slots_ = static_cast<Slot*>(pages_.data());
  std::uninitialized_fill_n(slots_, num_slots_, Slot());
  bases_ = reinterpret_cast<uint32_t*>(slots_ + num_slots_);
  byte_pairs_ = reinterpret_cast<Token*>(bases_ + num_bases);
}

// Tries free slots for the row's first rule, beginning anywhere: so all parts of the table are
// about as full, and a row of ten finds room in a table that is half full after 2^9 slots.
template <typename Token>
bool PairTable<Token>::place_row(const Row& row) {
  const auto is_free = [&](size_t i) { return slots_[i].left == kNone; };
  const uint32_t mask = static_cast<uint32_t>(num_slots_ - 1);
  const uint32_t first = row.left * 0x9E3779B9u;
  for (uint32_t i = first; i != first + num_slots_; ++i) {
    if (!is_free(i & mask)) continue;
    const uint32_t base = (i & mask) ^ row.rights[0];
    if (!std::all_of(row.rights.begin(), row.rights.end(),
                     [&](Token right) { return is_free(base ^ right); })) {
      continue;
    }
    for (size_t k = 0; k < row.rights.size(); ++k) {
      slots_[base ^ row.rights[k]] = {row.left, row.products[k]};
    }
    bases_[row.left] = base;
    return true;
  }
  return false;
}

template <typename Token>
bool PairTable<Token>::is_stable(Token left, Token right) const {
  const auto find_product = [this](uint32_t a, uint32_t b) {
    const Token product = find(static_cast<Token>(a), static_cast<Token>(b));
    return product == kNone ? UINT32_MAX : uint32_t{product};
  };
  return is_stable_pair(left, right, find_product, halves_);
}

template class PairTable<uint16_t>;
template class PairTable<uint32_t>;

}  // namespace weft
