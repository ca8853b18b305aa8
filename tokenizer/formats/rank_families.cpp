#include "tokenizer/formats/rank_families.h"

namespace weft {
namespace {

using Specials = std::vector<SpecialOfFamily>;

// tiktoken 0.14, tiktoken_ext/openai_public.py.
Specials specials_of_gpt2() { return {{50256, "<|endoftext|>"}}; }

Specials specials_of_cl100k() {
  return {{100257, "<|endoftext|>"},
          {100258, "<|fim_prefix|>"},
          {100259, "<|fim_middle|>"},
          {100260, "<|fim_suffix|>"},
          {100276, "<|endofprompt|>"}};
}

Specials specials_of_o200k() { return {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}; }

// The names of Llama-3.1; Llama-3 calls some of them reserved.
Specials specials_of_llama3() {
  Specials specials;
  int num_reserved = 0;
  for (int32_t i = 0; i < 256; ++i) {
    const char* const name = i == 0    ? "begin_of_text"
                             : i == 1  ? "end_of_text"
                             : i == 4  ? "finetune_right_pad_id"
                             : i == 6  ? "start_header_id"
                             : i == 7  ? "end_header_id"
                             : i == 8  ? "eom_id"
                             : i == 9  ? "eot_id"
                             : i == 10 ? "python_tag"
                                       : nullptr;
    const std::string text = name != nullptr
                                 ? std::string(name)
                                 : "reserved_special_token_" + std::to_string(num_reserved++);
    specials.push_back({128000 + i, "<|" + text + "|>"});
  }
  return specials;
}

// tokenization_qwen.py of Qwen-7B.
Specials specials_of_qwen() {
  Specials specials = {{151643, "<|endoftext|>"}, {151644, "<|im_start|>"}, {151645, "<|im_end|>"}};
  for (int32_t i = 0; i < 205; ++i)
    specials.push_back({151646 + i, "<|extra_" + std::to_string(i) + "|>"});
  return specials;
}

const RankFamily kRankFamilies[] = {
    {"r50k",
     "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
     50256,
     SplitKind::kGpt2,
     Normalizer::kNone,
     specials_of_gpt2,
     {}},
    {"p50k",
     "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
     50280,
     SplitKind::kGpt2,
     Normalizer::kNone,
     specials_of_gpt2,
     {}},
    {"cl100k",
     "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
     100256,
     SplitKind::kCl100k,
     Normalizer::kNone,
     specials_of_cl100k,
     {}},
    {"o200k",
     "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
     199998,
     SplitKind::kO200k,
     Normalizer::kNone,
     specials_of_o200k,
     {}},
    {"llama3",
     "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
     128000,
     SplitKind::kLlama3,
     Normalizer::kNone,
     specials_of_llama3,
     {128000}},
    {"qwen",
     "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
     151643,
     SplitKind::kQwen2,
     Normalizer::kNfc,
     specials_of_qwen,
     {}},
};

}  // namespace

const RankFamily* find_rank_family(std::string_view name, std::string_view sha256) {
  for (const RankFamily& family : kRankFamilies) {
    if (name.empty() ? family.sha256 == sha256 : family.name == name) return &family;
  }
  return nullptr;
}

std::string names_of_rank_families() {
  std::string names;
  for (const RankFamily& family : kRankFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  return names;
}

}  // namespace weft
