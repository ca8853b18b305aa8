// Compares small models of all shapes with PyTorch's values
// (tests/golden/trainer/make_golden.py): logits, loss, every gradient, and 20 steps of AdamW or
// Muon with clipping and weight decay.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/trainer/model_fixture.h"

namespace weft {
namespace {

// Both sides compute in fp32 and sum in different orders; a tensor's relative error is that of its
// norm.
constexpr double kTolerance = 1e-5;
constexpr double kToleranceAfter20Steps = 1e-4;
// With bf16 products each iteration rounds to 8 digits, in different places.
constexpr double kBf16MuonTolerance = 0.03;

struct Golden {
  std::map<std::string, double> value;
  std::map<std::string, std::vector<float>> tensor;
  int64_t integer(const std::string& name) const { return static_cast<int64_t>(value.at(name)); }
  bool has(const std::string& property, bool otherwise) const {
    return value.contains(property) ? value.at(property) != 0 : otherwise;
  }
  float real(const std::string& name) const { return static_cast<float>(value.at(name)); }
};

Golden read_golden(const std::string& model) {
  const char* source_dir = std::getenv("WEFT_SOURCE_DIR");
  const std::string path =
      std::string(source_dir ? source_dir : ".") + "/tests/golden/trainer/" + model + ".golden";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  Golden golden;
  std::vector<std::pair<std::string, size_t>> tensors;
  std::string line;
  while (std::getline(file, line) && line != "end") {
    std::istringstream words(line);
    std::string kind, name;
    double number = 0;
    words >> kind;
    if (kind == "value" && words >> name >> number) golden.value[name] = number;
    if (kind == "tensor" && words >> number && std::getline(words >> std::ws, name)) {
      tensors.emplace_back(name, static_cast<size_t>(number));
    }
  }
  for (const auto& [name, count] : tensors) {
    std::vector<float>& values = golden.tensor[name];
    values.resize(count);
    file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * 4));
  }
  if (!file) throw std::runtime_error(path + ": is truncated");
  return golden;
}

// The pseudo-random words of words() in make_golden.py.
class Words {
 public:
  explicit Words(const std::string& name) {
    for (const char c : name) state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  }
  uint32_t next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state_ >> 40);
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325ull;
};

std::vector<float> golden_weight(const Parameter& parameter) {
  const bool is_scale = parameter.name.find("layernorm.weight") != std::string::npos;
  const float center = is_scale ? parameter.init_value : 0.0F;  // 1, or 0 as it is stored less 1
  Words words(parameter.name);
  std::vector<float> values(static_cast<size_t>(parameter.num_elements));
  for (float& value : values) {
    const float u = static_cast<float>(words.next()) / 16777216.0F - 0.5F;
    value = center + u * (is_scale ? 0.5F : 0.25F);
  }
  return values;
}

void fill_golden_tokens(HostBatch& batch, const Golden& golden, int64_t step) {
  const auto T = static_cast<size_t>(golden.integer("seq_length"));
  const auto V = static_cast<uint32_t>(golden.integer("vocab_size"));
  Words words("tokens " + std::to_string(step));
  for (size_t sample = 0; sample < batch.tokens().size() / T; ++sample) {
    for (size_t t = 0; t <= T; ++t) {
      const auto token = static_cast<int32_t>(words.next() % V);
      if (t < T) batch.tokens()[sample * T + t] = token;
      if (t > 0) batch.targets()[sample * T + t - 1] = token;
    }
  }
}

class GoldenModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    TrainerOptions options;
    ModelShape& shape = options.shape;
    shape.num_layers = golden_.integer("num_layers");
    shape.hidden_size = golden_.integer("hidden_size");
    shape.num_heads = golden_.integer("num_heads");
    shape.head_size = golden_.integer("head_size");
    shape.ffn_size = golden_.integer("ffn_size");
    shape.seq_length = shape.max_positions = golden_.integer("seq_length");
    shape.vocab_size = shape.padded_vocab_size = golden_.integer("vocab_size");
    shape.micro_batch_size = golden_.integer("micro_batch_size");
    if (golden_.has("is_swiglu", false)) shape.glu = Glu::kSwiglu;
    if (golden_.has("is_geglu", false)) shape.glu = Glu::kGeglu;
    if (golden_.has("is_reglu", false)) shape.glu = Glu::kReglu;
    if (golden_.has("is_liglu", false)) shape.glu = Glu::kLiglu;
    if (golden_.has("has_exact_gelu", false)) shape.activation = Activation::kGeluErf;
    if (golden_.has("has_relu", false)) shape.activation = Activation::kRelu;
    if (golden_.has("has_squared_relu", false)) shape.activation = Activation::kSquaredRelu;
    shape.has_qk_norm = golden_.has("has_qk_norm", false);
    shape.stores_norms_less_one = golden_.has("stores_norms_less_one", false);
    shape.has_embedding_norm = golden_.has("has_embedding_norm", false);
    if (golden_.has("has_alibi", false)) {
      shape.has_position_table = false;
      shape.has_alibi = true;
    }
    if (golden_.has("rotary_base", false)) {
      shape.has_position_table = false;
      shape.rotary_size =
          golden_.has("rotary_size", false) ? golden_.integer("rotary_size") : shape.head_size;
      shape.rotary_base = golden_.value.at("rotary_base");
      if (golden_.has("rope_scaling_factor", false))
        shape.rope_scaling_factor = golden_.value.at("rope_scaling_factor");
    }
    if (golden_.has("num_query_groups", false))
      shape.num_query_groups = golden_.integer("num_query_groups");
    shape.uses_rms_norm = golden_.has("uses_rms_norm", false);
    shape.unties_head = golden_.has("unties_head", false);
    shape.has_biases = golden_.has("has_biases", true);
    shape.has_qkv_bias = golden_.has("has_qkv_bias", shape.has_biases);
    options.optimizer = {golden_.real("beta1"), golden_.real("beta2"), golden_.real("eps"),
                         golden_.real("weight_decay"), golden_.real("clip_grad")};
    if (has_muon()) options.optimizer.muon = muon_options(DType::kFloat32);
    num_samples_ = shape.micro_batch_size * golden_.integer("num_micro_batches");
    options_ = options;
    create_model();
  }

  bool has_muon() const { return golden_.has("has_muon", false); }
  MuonOptions muon_options(DType products) const {
    const bool is_polar_express = golden_.has("muon_polar_express", false);
    return {.momentum = golden_.value.at("muon_momentum"),
            .nesterov = golden_.has("muon_nesterov", false),
            .splits_qkv = golden_.has("muon_splits_qkv", true),
            .scale =
                golden_.integer("muon_scale") == 0 ? MuonScale::kSpectral : MuonScale::kUnitRmsNorm,
            .extra_scale = golden_.value.at("muon_extra_scale"),
            .iterations = newton_schulz_iterations(is_polar_express ? "polar_express" : "quintic",
                                                   golden_.integer("muon_iterations")),
            .products = products};
  }
  void create_model() {
    model_ = std::make_unique<TrainerOnDevice>(options_);
    for (const Parameter& parameter : trainer().parameters().all()) {
      to_device(*model_->backend, trainer().weight(parameter), golden_weight(parameter));
    }
  }

  Trainer& trainer() { return *model_->trainer; }
  HostBatch batch_of_step(int64_t step) {
    HostBatch batch(trainer().shape(), num_samples_);
    fill_golden_tokens(batch, golden_, step);
    return batch;
  }
  void expect_near(const std::string& name, const std::vector<float>& values, double tolerance) {
    const double error = relative_error(values, golden_.tensor.at(name));
    EXPECT_LE(error, tolerance) << name;
    worst_ = std::max(worst_, error);
  }

  const Golden golden_ = read_golden(GetParam());
  int64_t num_samples_ = 0;
  TrainerOptions options_;
  std::unique_ptr<TrainerOnDevice> model_;
  double worst_ = 0;
};

TEST_P(GoldenModel, LogitsOfAMicroBatch) {
  HostBatch batch = batch_of_step(0);
  GlobalBatch first = batch.view();
  first.num_micro_batches = 1;
  trainer().evaluate(first);
  trainer().result();
  expect_near("logits", to_host(*model_->backend, trainer().model().logits()), kTolerance);
  RecordProperty("worst_relative_error_times_1e9", static_cast<int>(worst_ * 1e9));
}

TEST_P(GoldenModel, LossAndEveryGradient) {
  HostBatch batch = batch_of_step(0);
  const double loss = trainer().forward_backward(batch.view());
  expect_near("loss", {static_cast<float>(loss)}, kTolerance);
  for (const Parameter& parameter : trainer().parameters().all()) {
    expect_near("gradient/" + parameter.name,
                to_host(*model_->backend, trainer().gradient(parameter)), kTolerance);
  }
  RecordProperty("worst_relative_error_times_1e9", static_cast<int>(worst_ * 1e9));
}

TEST_P(GoldenModel, TwentySteps) {
  const int64_t num_steps = golden_.integer("num_steps");
  std::vector<float> losses, norms;
  for (int64_t step = 0; step < num_steps; ++step) {
    HostBatch batch = batch_of_step(step);
    trainer().step(batch.view(), {.learning_rate = golden_.value.at("lr")});
    const StepResult result = trainer().result();
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.grad_norm));
  }
  expect_near("step losses", losses, kToleranceAfter20Steps);
  expect_near("step norms", norms, kToleranceAfter20Steps);
  size_t num_compared = 0, num_final = 0;
  for (const auto& [name, values] : golden_.tensor) num_final += name.starts_with("final/") ? 1 : 0;
  for (const Parameter& parameter : trainer().parameters().all()) {
    if (golden_.tensor.count("final/" + parameter.name) == 0) continue;
    expect_near("final/" + parameter.name, to_host(*model_->backend, trainer().weight(parameter)),
                kToleranceAfter20Steps);
    ++num_compared;
  }
  EXPECT_EQ(num_compared, num_final);
  EXPECT_GE(num_final, 5U);
  RecordProperty("worst_relative_error_times_1e9", static_cast<int>(worst_ * 1e9));
}

// Compares the first update of every matrix, with products of both types.
TEST_P(GoldenModel, FirstUpdateOfMuon) {
  if (!has_muon()) return;
  for (const DType products : {DType::kFloat32, DType::kBFloat16}) {
    const bool is_bf16 = products == DType::kBFloat16;
    options_.optimizer.muon = muon_options(products);
    create_model();
    HostBatch batch = batch_of_step(0);
    trainer().step(batch.view(), {.learning_rate = golden_.value.at("lr")});
    size_t num_matrices = 0;
    for (const Parameter& parameter : trainer().parameters().all()) {
      const auto golden =
          golden_.tensor.find((is_bf16 ? "first bf16/" : "first/") + parameter.name);
      EXPECT_EQ(golden != golden_.tensor.end(), parameter.is_layer_matrix) << parameter.name;
      if (golden == golden_.tensor.end()) continue;
      std::vector<float> update = to_host(*model_->backend, trainer().weight(parameter));
      std::vector<float> wanted = golden->second;
      const std::vector<float> before = golden_weight(parameter);
      for (size_t i = 0; i < before.size(); ++i) {
        update[i] -= before[i];
        wanted[i] -= before[i];
      }
      EXPECT_LE(relative_error(update, wanted),
                is_bf16 ? kBf16MuonTolerance : kToleranceAfter20Steps)
          << golden->first;
      ++num_matrices;
    }
    EXPECT_EQ(num_matrices, 8U);  // four in each of two layers
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GoldenModel,
                         testing::Values("gpt", "llama", "tr8", "bloom", "geglu", "reglu", "liglu",
                                         "erf", "d80", "d145", "llama31", "qwen2", "qwen3",
                                         "nemotron", "opt", "muon", "muon-llama"),
                         [](const auto& test) {
                           return test.param == "muon-llama" ? "muon_llama" : test.param;
                         });

}  // namespace
}  // namespace weft
