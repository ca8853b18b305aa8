#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "tokenizer/decoder.h"
#include "tokenizer/text_encoder.h"

namespace weft {

struct Tokenizer::Impl {
  template <typename Id>
  void check_type(const std::vector<Id>& ids) const;
  template <typename Id>
  void encode(std::string_view text, std::vector<Id>& ids);
  template <typename Id, typename Encode>
  std::string_view encode_to_last_special(std::string_view text, std::vector<Id>& ids,
                                          const Encode& encode_before) const;

  std::shared_ptr<const Vocabulary> vocabulary;
  SpecialTokens special_tokens;
  std::unique_ptr<TextEncoder> encoder;
  Decoder decoder;
};

template <typename Id>
void Tokenizer::Impl::check_type(const std::vector<Id>&) const {
  if (sizeof(Id) > 2 || vocabulary->size() <= 1 << 16) return;
  throw std::invalid_argument("Tokenizer: a vocabulary of " + std::to_string(vocabulary->size()) +
                              " ids does not fit 16 bits; ask for int32_t");
}

// Returns what follows the last special token. The text between them is split on its own, as
// Hugging Face's tokenizers do: `encode_before` gets what lies before each.
template <typename Id, typename Encode>
std::string_view Tokenizer::Impl::encode_to_last_special(std::string_view text,
                                                         std::vector<Id>& ids,
                                                         const Encode& encode_before) const {
  if (special_tokens == SpecialTokens::kLiteral) return text;
  size_t found;
  while ((found = text.find(kEndOfText)) != std::string_view::npos) {
    if (special_tokens == SpecialTokens::kError) {
      throw std::runtime_error(
          "the text contains <|endoftext|>; accept it as ordinary text or as the end-of-document "
          "token "
          "(--special literal or --special token)");
    }
    encode_before(text.substr(0, found));
    ids.push_back(static_cast<Id>(vocabulary->end_of_document()));
    text.remove_prefix(found + kEndOfText.size());
  }
  return text;
}

template <typename Id>
void Tokenizer::Impl::encode(std::string_view text, std::vector<Id>& ids) {
  check_type(ids);
  const auto encode_text = [&](std::string_view part) { encoder->encode(part, ids); };
  encode_text(encode_to_last_special(text, ids, encode_text));
}

Tokenizer::Tokenizer(std::shared_ptr<const Vocabulary> vocabulary, SpecialTokens special_tokens) {
  if (vocabulary == nullptr) throw std::invalid_argument("Tokenizer: no vocabulary");
  if (special_tokens == SpecialTokens::kToken)
    vocabulary->end_of_document();  // throws if there is none
  auto encoder = make_text_encoder(*vocabulary);
  Decoder decoder(*vocabulary);
  impl_ = std::make_unique<Impl>(
      Impl{std::move(vocabulary), special_tokens, std::move(encoder), std::move(decoder)});
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
