// Token types of a Megatron dataset (.idx header code). Megatron-LM
// core/datasets/indexed_dataset.py.
#pragma once

#include <cstdint>

namespace weft {

enum class TokenType : uint8_t {
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt16 = 8
};

// Returns use(T{}), where T is the number type of a token.
template <typename Use>
constexpr auto with_number_type(TokenType type, const Use& use) {
  switch (type) {
    case TokenType::kUInt8:
      return use(uint8_t{});
    case TokenType::kInt8:
      return use(int8_t{});
    case TokenType::kInt16:
      return use(int16_t{});
    case TokenType::kInt32:
      return use(int32_t{});
    case TokenType::kInt64:
      return use(int64_t{});
    case TokenType::kUInt16:
      return use(uint16_t{});
  }
  __builtin_unreachable();
}

constexpr int64_t size_bytes(TokenType type) {
  return with_number_type(type, [](auto number) { return int64_t{sizeof number}; });
}

// NumPy's name, as --dtype has it.
constexpr const char* name_of(TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return "uint8";
    case TokenType::kInt8:
      return "int8";
    case TokenType::kInt16:
      return "int16";
    case TokenType::kInt32:
      return "int32";
    case TokenType::kInt64:
      return "int64";
    case TokenType::kUInt16:
      return "uint16";
  }
  return "?";
}

// Megatron's rule: u16 for vocabularies below 65500, else i32.
constexpr TokenType token_type_for_vocabulary(int64_t vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::kUInt16 : TokenType::kInt32;
}

}  // namespace weft
