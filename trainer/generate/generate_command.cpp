#include "trainer/generate/generate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "trainer/generate/model_options.h"
#include "trainer/generate/text_generator.h"
#include "trainer/generate/text_stream.h"

namespace weft {
namespace {

enum class Format { kText, kJsonl };
constexpr const char* kRule = "----------------\n";  // between texts

void write_out(const std::string& text) {
  static const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  const std::string shown = is_terminal ? printable(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

class GenerateCommand final : public Command {
 public:
  GenerateCommand()
      : Command("generate", "continue prompts with a model's text",
                "weft-model generate --load checkpoints --prompt 'Once upon a time' --tokens 50") {}

  void declare(OptionSet& options) override {
    options.text("--prompt", prompt_, "text that the model continues");
    options.text("--prompts", prompts_file_, "file with a prompt in each line");
    options.integer("--tokens", generate_.num_tokens, "tokens to generate, at most", 1, 1 << 20);
    options.text("--temperature", temperature_,
                 "logits are divided by it; 0 takes the most likely token");
    options.integer("--top-k", generate_.sampling.top_k,
                    "choose among so many of the most likely tokens; 0: among all");
    options.text("--top-p", top_p_,
                 "choose among the most likely tokens that have this probability together");
    options.integer("--seed", generate_.sampling.seed,
                    "of the random choices: same seed, same text");
    options.text("--stop", generate_.stop, "text that ends a text, and is no part of it");
    options.choice("--format", format_, {{"text", Format::kText}, {"jsonl", Format::kJsonl}},
                   "text, or for each prompt a line {\"prompt\", \"text\", \"ids\"}");
    options.integer("--batch-size", generate_.batch_size, "prompts that are continued together", 1,
                    1 << 16);
    model_.declare(options);
  }

  void validate(OptionSet& options) const override {
    model_.validate(options);
    if (options.given("--prompt") == options.given("--prompts"))
      options.problem("give --prompt TEXT or --prompts FILE, one of them");
    check_number(options, "--temperature", temperature_, 0, 1e6);
    check_number(options, "--top-p", top_p_, 1e-6, 1);
  }

  int run(const OptionSet& options) override {
    const auto begun = Clock::now();
    generate_.sampling.temperature = static_cast<float>(number_of(temperature_));
    generate_.sampling.top_p = static_cast<float>(number_of(top_p_));
    const auto model = open_stored_model(model_.load);
    const auto vocabulary =
        vocabulary_of(model->vocabulary(), model->shape().vocab_size, model_.tokenizer);
    prompts_ = options.given("--prompts") ? read_prompts(prompts_file_)
                                          : std::vector<Prompt>{{"--prompt", prompt_}};
    const ModelShape& shape = model->shape();
    tokenize_prompts(prompts_, vocabulary,
                     shape.has_position_table ? shape.max_positions : kMostPromptTokens);
    const auto backend = model_.create_backend();
    streams_ = format_ == Format::kText && prompts_.size() == 1;
    if (streams_) write_out(prompts_[0].text);
    TextGenerator generator(*backend, weights_of(*model, model_.type_on(*backend)), *vocabulary,
                            prompts_, generate_);
    generator.generate({.on_piece = [this](size_t, const std::string& piece) { show_piece(piece); },
                        .on_text = [this](size_t i, const GeneratedText& text) { show(i, text); }});
    report(begun);
    return static_cast<int>(ExitCode::kDone);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void show_piece(const std::string& piece) {
    if (num_shown_ == 0) first_shown_ = Clock::now();
    ++num_shown_;
    if (streams_) write_out(piece);
  }

  void show(size_t i, const GeneratedText& text) {
    num_tokens_ += text.ids.size();
    num_cut_ += text.lacks_positions ? 1 : 0;
    if (format_ == Format::kJsonl) {
      const nlohmann::ordered_json line = {
          {"prompt", prompts_[i].text}, {"text", text.text}, {"ids", text.ids}};
      std::puts(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
      write_out((i > 0 ? kRule : "") + (streams_ ? "" : prompts_[i].text + text.text) + "\n");
    }
  }

  void report(Clock::time_point begun) const {
    const auto seconds = [](Clock::duration duration) {
      return std::chrono::duration<double>(duration).count();
    };
    if (num_cut_ > 0) {
      print_message(fmt::format("note: {} of {} texts end where the model has no more positions",
                                num_cut_, prompts_.size()));
    }
    if (num_shown_ == 0) return;
    const double after_first = seconds(Clock::now() - first_shown_);
    const size_t num_first = std::min<size_t>(generate_.batch_size, prompts_.size());
    const auto num_later = static_cast<double>(num_tokens_ - std::min(num_first, num_tokens_));
    print_message(
        fmt::format("{} tokens; the first came after {:.2f} s, the others in {:.3f} s ({:.0f} "
                    "tokens/s)",
                    num_tokens_, seconds(first_shown_ - begun), after_first,
                    num_later / std::max(after_first, 1e-9)));
  }

  ModelOptions model_;
  GenerateOptions generate_;
  std::string prompt_, prompts_file_, top_p_ = "1";
  std::string temperature_ = fmt::format("{}", generate_.sampling.temperature);
  Format format_ = Format::kText;
  std::vector<Prompt> prompts_;
  bool streams_ = false;  // the text is shown while it grows
  size_t num_shown_ = 0, num_tokens_ = 0, num_cut_ = 0;
  Clock::time_point first_shown_;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace weft
