#include "tokenizer/tokenizer.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "tokenizer/decoder.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/unicode/nfc.h"

namespace weft {

namespace {

// Tokens without content match nothing.
std::vector<AddedToken> added_tokens_of(const Vocabulary& vocabulary, bool normalized) {
  std::vector<AddedToken> tokens;
  std::string scratch;
  for (AddedToken token : vocabulary.added_tokens()) {
    if (token.normalized != normalized) continue;
    if (normalized && vocabulary.normalizer() == Normalizer::kNfc)
      token.content = std::string(to_nfc(token.content, scratch));
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

// Appends the ids of added tokens, and calls `encode_text` with what lies between them: each text
// is split on its own, as Hugging Face's tokenizers do. `pieces` is scratch.
template <typename Id, typename EncodeText>
void encode_between(const AddedTokens& tokens, std::string_view text,
                    std::vector<AddedTokens::Piece>& pieces, std::vector<Id>& ids,
                    const EncodeText& encode_text) {
  if (tokens.empty()) return encode_text(text);
  pieces.clear();
  tokens.cut(text, pieces);
  for (const AddedTokens::Piece& piece : pieces) {
    if (piece.id >= 0) {
      ids.push_back(static_cast<Id>(piece.id));
    } else {
      encode_text(piece.text);
    }
  }
}

}  // namespace

struct Tokenizer::Impl {
  Impl(std::shared_ptr<const Vocabulary> its_vocabulary, SpecialTokens special_tokens)
      : vocabulary(std::move(its_vocabulary)),
        raw_tokens(added_tokens_of(*vocabulary, false), special_tokens),
        normalized_tokens(added_tokens_of(*vocabulary, true), special_tokens),
        encoder(make_text_encoder(*vocabulary)),
        decoder(*vocabulary) {}

  template <typename Id>
  void check_type(const std::vector<Id>& ids) const;
  template <typename Id>
  void encode(std::string_view text, std::vector<Id>& ids);
  template <typename Id>
  void encode_with_template(std::string_view text, std::vector<Id>& ids);

  std::shared_ptr<const Vocabulary> vocabulary;
  AddedTokens raw_tokens, normalized_tokens;
  std::unique_ptr<TextEncoder> encoder;
  Decoder decoder;
  // Scratch.
  std::vector<AddedTokens::Piece> raw_pieces, normalized_pieces;
  std::string normalized;
};

template <typename Id>
void Tokenizer::Impl::check_type(const std::vector<Id>&) const {
  if (sizeof(Id) > 2 || vocabulary->size() <= 1 << 16) return;
  throw std::invalid_argument("Tokenizer: a vocabulary of " + std::to_string(vocabulary->size()) +
                              " ids does not fit 16 bits; ask for int32_t");
}

template <typename Id>
void Tokenizer::Impl::encode(std::string_view text, std::vector<Id>& ids) {
  check_type(ids);
  encode_between(raw_tokens, text, raw_pieces, ids, [&](std::string_view raw) {
    const bool is_nfc = vocabulary->normalizer() == Normalizer::kNfc;
    const std::string_view text_to_cut = is_nfc ? to_nfc(raw, normalized) : raw;
    encode_between(normalized_tokens, text_to_cut, normalized_pieces, ids,
                   [&](std::string_view ordinary) { encoder->encode(ordinary, ids); });
  });
}

template <typename Id>
void Tokenizer::Impl::encode_with_template(std::string_view text, std::vector<Id>& ids) {
  check_type(ids);
  for (const int32_t id : vocabulary->prefix_ids()) ids.push_back(static_cast<Id>(id));
  encode(text, ids);
  for (const int32_t id : vocabulary->suffix_ids()) ids.push_back(static_cast<Id>(id));
}

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary, SpecialTokens special_tokens) {
  if (vocabulary == nullptr) throw std::invalid_argument("Tokenizer: no vocabulary");
  if (special_tokens == SpecialTokens::kToken && vocabulary->special_tokens().empty())
    vocabulary->end_of_document();  // throws: there is none
  impl_ = std::make_unique<Impl>(std::move(vocabulary), special_tokens);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids) {
  impl_->encode(text, ids);
}

void Tokenizer::encode(std::string_view text, std::vector<uint16_t>& ids) {
  impl_->encode(text, ids);
}

void Tokenizer::encode_with_template(std::string_view text, std::vector<int32_t>& ids) {
  impl_->encode_with_template(text, ids);
}

void Tokenizer::encode_with_template(std::string_view text, std::vector<uint16_t>& ids) {
  impl_->encode_with_template(text, ids);
}

int64_t Tokenizer::num_dropped_bytes() const { return impl_->encoder->num_dropped_bytes(); }

// Between two ASCII characters text is cut before and behind normalizing: both stay what they are,
// and nothing behind the second joins what is before it.
bool Tokenizer::is_safe_cut(std::string_view text, size_t at) const {
  const char before = text[at - 1], behind = text[at];
  const bool may_normalize_across =
      impl_->vocabulary->normalizer() != Normalizer::kNone && ((before | behind) & 0x80) != 0;
  return !may_normalize_across && impl_->vocabulary->pattern().is_safe_cut(text, at) &&
         impl_->raw_tokens.may_cut_between(before, behind) &&
         impl_->normalized_tokens.may_cut_between(before, behind);
}

std::string Tokenizer::decode(const int32_t* ids, size_t num_ids) const {
  std::string text;
  decode(ids, num_ids, text);
  return text;
}

void Tokenizer::decode(const int32_t* ids, size_t num_ids, std::string& text) const {
  impl_->decoder.decode(ids, num_ids, text);
}

void Tokenizer::decode(const uint16_t* ids, size_t num_ids, std::string& text) const {
  impl_->decoder.decode(ids, num_ids, text);
}

const Vocabulary& Tokenizer::vocabulary() const { return *impl_->vocabulary; }

}  // namespace weft
