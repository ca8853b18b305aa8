// The patterns of the known families of tokenizers, by the text of their regular expressions.
//
// A pattern means what its container's engine makes of it: tokenizer.json is read by Oniguruma,
// rank files by fancy-regex, and `\p{N}{1,3}+` is `(?:\p{N}{1,3})+` in the first and possessive in
// the second.
#pragma once

namespace weft {

enum class SplitKind {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  // (Hugging Face's ByteLevel with use_regex, and tiktoken's r50k and p50k)
  kGpt2,
  // ` ?[^(\s|[.,!?…。，、।۔،])]+`, where text between matches is a piece, too
  kBloom,
  // '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|
  // \s++$|\s*[\r\n]|\s+(?!\S)|\s   in a rank file
  kCl100k,
  // The same text in a tokenizer.json: numbers of any length are one piece.
  kCl100kOniguruma,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+   (GLM-4's, too)
  kLlama3,
  // kLlama3 with \p{N} in place of \p{N}{1,3}
  kQwen2,
  // [^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+
  // (Megatron-LM's v1; its v2 is kTekken): the pieces of kQwen2 without contractions
  kMegatronV1,
  // kQwen2 with [\p{L}\p{M}]+ in place of \p{L}+, and [^\s\p{L}\p{M}\p{N}]+
  kQwen35,
  // [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|
  // 'm|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|
  // 't|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
  // (also MiniMax's, which removes what lies between matches: nothing does)
  kO200k,
  // kO200k without contractions, with \p{N} in place of \p{N}{1,3}
  kTekken,
  // Three Splits, one after the other: \p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+, then
  // [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
  //  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kDeepSeekV3,
  // Digits(individual_digits=true), then ByteLevel with GPT-2's pattern (SmolLM's, too)
  kStarCoder,
  // Punctuation(Contiguous), ByteLevel with GPT-2's pattern, Digits, Split [0-9][0-9][0-9]
  kFalcon,
};

}  // namespace weft
