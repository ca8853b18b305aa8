#include "trainer/generate/text_generator.h"

#include <algorithm>

#include "trainer/generate/text_stream.h"

namespace weft {

namespace {

// One text of a batch while it grows.
class GrowingText {
 public:
  GrowingText(std::string stop, int64_t num_tokens, bool lacks_positions)
      : stream_(std::move(stop)), num_tokens_(num_tokens), lacks_positions_(lacks_positions) {}

  bool has_ended() const { return has_ended_; }
  // Returns the bytes that can be shown.
  std::string add(int32_t id, const Vocabulary& vocabulary, int64_t end_of_document) {
    if (id == end_of_document) {
      has_ended_ = true;
      lacks_positions_ = false;
      return stream_.finish();
    }
    ids_.push_back(id);
    std::string piece = stream_.add(vocabulary.bytes(id));
    has_ended_ = stream_.has_stopped() || static_cast<int64_t>(ids_.size()) == num_tokens_;
    if (stream_.has_stopped()) lacks_positions_ = false;
    return has_ended_ ? piece + stream_.finish() : piece;
  }
  GeneratedText result() const { return {stream_.text(), ids_, lacks_positions_}; }

 private:
  TextStream stream_;
  const int64_t num_tokens_;  // it ends with so many
  bool lacks_positions_;      // they are all that the model has positions for
  bool has_ended_ = false;
  std::vector<int32_t> ids_;
};

// Returns the most tokens that can follow a prompt: all of a text but its last token take a
// position.
int64_t most_tokens(const Prompt& prompt, const ModelShape& shape, const GenerateOptions& options) {
  const int64_t left = shape.max_positions - static_cast<int64_t>(prompt.ids.size()) + 1;
  return shape.has_position_table ? std::min(left, options.num_tokens) : options.num_tokens;
}

// Adds the tokens that the step has chosen; returns whether all texts have ended.
bool absorb(std::span<const int32_t> tokens, std::vector<GrowingText>& texts, size_t first,
            const Vocabulary& vocabulary, int64_t end_of_document, const TextListener& listener) {
  bool have_all_ended = true;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].has_ended()) {
      const std::string piece = texts[i].add(tokens[i], vocabulary, end_of_document);
      if (!piece.empty()) listener.on_piece(first + i, piece);
    }
    have_all_ended = have_all_ended && texts[i].has_ended();
  }
  return have_all_ended;
}

DecoderSizes sizes_for(const std::vector<Prompt>& prompts, const ModelShape& shape,
                       const Vocabulary& vocabulary, const GenerateOptions& options) {
  DecoderSizes sizes{
      .batch_size = std::min(options.batch_size, static_cast<int64_t>(prompts.size())),
      .vocabulary_size = vocabulary.size()};
  for (const Prompt& prompt : prompts) {
    sizes.longest_prompt = std::max(sizes.longest_prompt, static_cast<int64_t>(prompt.ids.size()));
    sizes.num_tokens = std::max(sizes.num_tokens, most_tokens(prompt, shape, options));
  }
  return sizes;
}

}  // namespace

// A GPU computes the next token while the host looks at this one.
TextGenerator::TextGenerator(Backend& backend, const InferenceWeights& weights,
                             const Vocabulary& vocabulary, std::vector<Prompt> prompts,
                             const GenerateOptions& options)
    : vocabulary_(vocabulary),
      shape_(weights.shape),
      end_of_document_(weights.end_of_document),
      prompts_(std::move(prompts)),
      options_(options),
      sizes_(sizes_for(prompts_, shape_, vocabulary, options)),
      ahead_(backend.kind() == DeviceKind::kCuda ? 1 : 0),
      decoder_(backend, weights, sizes_, options.sampling) {}

void TextGenerator::generate(const TextListener& listener) {
  const auto batch_size = static_cast<size_t>(sizes_.batch_size);
  for (size_t first = 0; first < prompts_.size(); first += batch_size)
    generate_batch(first, std::min(prompts_.size(), first + batch_size), listener);
}

void TextGenerator::generate_batch(size_t first, size_t end, const TextListener& listener) {
  std::vector<std::vector<int32_t>> ids;
  std::vector<GrowingText> texts;
  for (size_t i = first; i < end; ++i) {
    ids.push_back(prompts_[i].ids);
    const int64_t num_tokens = most_tokens(prompts_[i], shape_, options_);
    texts.emplace_back(options_.stop, num_tokens, num_tokens < options_.num_tokens);
  }
  decoder_.start(ids, static_cast<int64_t>(first));
  bool have_all_ended = false;
  for (int64_t step = 0; step < sizes_.num_tokens + ahead_ && !have_all_ended; ++step) {
    if (step < sizes_.num_tokens) decoder_.step();
    if (step < ahead_) continue;
    have_all_ended = absorb(decoder_.tokens_of(step - ahead_), texts, first, vocabulary_,
                            end_of_document_, listener);
  }
  for (size_t i = 0; i < texts.size(); ++i) listener.on_text(first + i, texts[i].result());
}

}  // namespace weft
