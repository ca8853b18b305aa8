#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/numbers/philox.h"

namespace weft::test::reference {

namespace {
size_t index(int64_t i) { return static_cast<size_t>(i); }
}  // namespace

Values dropout_multipliers(const Dropout& dropout, int64_t n) {
  Values out(index(n), 1.0);
  if (dropout.p == 0.0F) return out;
  const double threshold = std::round(static_cast<double>(dropout.p) * 65536);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t element = dropout.first_element + i;
    const PhiloxBlock block = philox<7>(dropout.seed, dropout.stream, element / 8);
    const uint32_t number = block.word[element % 8 / 2] >> (element % 2 * 16) & 0xffff;
    out[i] = number < threshold ? 0.0 : 65536 / (65536 - threshold);
  }
  return out;
}

Values mask_multipliers(const Dropout& dropout, int64_t n) {
  Values out(index(n), 1.0);
  if (dropout.p == 0.0F) return out;
  const double threshold = std::round(static_cast<double>(dropout.p) * 65536);
  for (size_t i = 0; i < out.size(); i += 128) {
    const uint64_t first_block = (dropout.first_element + i) / 128 * 16;
    uint32_t numbers[128] = {};
    for (uint64_t digit = 0; digit < 16; ++digit) {
      const PhiloxBlock block = philox<7>(dropout.seed, dropout.stream, first_block + digit);
      for (size_t e = 0; e < 128; ++e)
        numbers[e] = numbers[e] * 2 + (block.word[e / 32] >> (e % 32) & 1);
    }
    for (size_t e = 0; e < 128; ++e)
      out[i + e] = numbers[e] < threshold ? 0.0 : 65536 / (65536 - threshold);
  }
  return out;
}

int64_t mask_element(int64_t query, int64_t key) {
  const int64_t query_tile = query / 64, tile = query_tile * (query_tile + 1) / 2 + key / 64;
  const int64_t lane = query % 8 * 4 + key % 8 / 2;
  const int64_t word = tile * 128 + query % 64 / 16 * 32 + lane;
  return word * 32 + key % 2 * 16 + key % 64 / 8 * 2 + query % 16 / 8;
}

Values multiply(const Values& a, const Values& b) {
  Values out(a);
  for (size_t i = 0; i < out.size(); ++i) out[i] *= b[i];
  return out;
}

Values add(const Values& a, const Values& b) {
  Values out(a);
  for (size_t i = 0; i < out.size(); ++i) out[i] += b[i];
  return out;
}

Values linear(const Values& inp, const Values& weight, const Values& bias, int64_t I, int64_t O) {
  const int64_t N = static_cast<int64_t>(inp.size()) / I;
  Values out(index(N * O));
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t o = 0; o < O; ++o) {
      double sum = bias.empty() ? 0 : bias[index(o)];
      for (int64_t i = 0; i < I; ++i) sum += inp[index(n * I + i)] * weight[index(o * I + i)];
      out[index(n * O + o)] = sum;
    }
  }
  return out;
}

Values activation(Values x, Activation kind) {
  for (double& v : x) {
    if (!is_gelu(kind)) {
      const double positive = std::max(v, 0.0);
      v = kind == Activation::kRelu ? positive : positive * positive;
      continue;
    }
    const double inner = kind == Activation::kGeluTanh
                             ? std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))
                             : std::erf(v / std::sqrt(2.0));
    v = 0.5 * v * (1 + inner);
  }
  return x;
}

Values glu(const Values& pre, int64_t F, Glu kind) {
  Values out;
  for (size_t row = 0; row < pre.size(); row += index(2 * F)) {
    for (size_t i = row; i < row + index(F); ++i) {
      const double x = pre[i], up = pre[i + index(F)];
      const double value = kind == Glu::kSwiglu  ? x / (1 + std::exp(-x))
                           : kind == Glu::kGeglu ? activation({x}, Activation::kGeluErf)[0]
                           : kind == Glu::kReglu ? std::max(x, 0.0)
                                                 : x;
      out.push_back(value * up);
    }
  }
  return out;
}

Normalised layernorm(const Values& inp, const Values& weight, const Values& bias, double epsilon) {
  const size_t C = weight.size(), N = inp.size() / C;
  Normalised result{Values(inp.size()), Values(N), Values(N)};
  for (size_t n = 0; n < N; ++n) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < C; ++c) mean += inp[n * C + c] / static_cast<double>(C);
    for (size_t c = 0; c < C; ++c) {
      variance += std::pow(inp[n * C + c] - mean, 2) / static_cast<double>(C);
    }
    const double rstd = 1 / std::sqrt(variance + epsilon);
    for (size_t c = 0; c < C; ++c) {
      result.normed[n * C + c] = (inp[n * C + c] - mean) * rstd * weight[c] + bias[c];
    }
    result.mean[n] = mean;
    result.rstd[n] = rstd;
  }
  return result;
}

Normalised rms_norm(const Values& inp, const Values& weight, double epsilon) {
  const size_t C = weight.size(), N = inp.size() / C;
  Normalised result{Values(inp.size()), {}, Values(N)};
  for (size_t n = 0; n < N; ++n) {
    double squares = 0;
    for (size_t c = 0; c < C; ++c) squares += inp[n * C + c] * inp[n * C + c];
    result.rstd[n] = 1 / std::sqrt(squares / static_cast<double>(C) + epsilon);
    for (size_t c = 0; c < C; ++c)
      result.normed[n * C + c] = inp[n * C + c] * result.rstd[n] * weight[c];
  }
  return result;
}

AttentionResult attention(const Values& qkv, int64_t B, int64_t T, int64_t H, int64_t R, int64_t D,
                          double scale, const Heads& heads, const Dropout& dropout,
                          const Values& document_bounds, const Values& slopes) {
  AttentionResult result{Values(index(B * T * H * D)), Values(index(B * H * T))};
  const int64_t total = heads.total > 0 ? heads.total : H;
  const int64_t tiles = (T + 63) / 64, head_elements = tiles * (tiles + 1) / 2 * 64 * 64;
  const Values mask = mask_multipliers(dropout, B * total * head_elements);
  const auto at = [&](int64_t b, int64_t t, int64_t h, int64_t part, int64_t d) {
    const int64_t row = part == 0 ? h % R : R + part - 1;
    return qkv[index((((b * T + t) * (H / R) + h / R) * (R + 2) + row) * D + d)];
  };
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t query = 0; query < T; ++query) {
        Values weights(index(query + 1));
        double sum = 0;
        const int64_t first_key =
            document_bounds.empty()
                ? 0
                : static_cast<int64_t>(document_bounds[index((b * T + query) * 2)]);
        for (int64_t key = first_key; key <= query; ++key) {
          double score = 0;
          for (int64_t d = 0; d < D; ++d) score += at(b, query, h, 0, d) * at(b, key, h, 1, d);
          const double slope = slopes.empty() ? 0 : slopes[index(h)];
          weights[index(key)] = std::exp(scale * score + slope * static_cast<double>(key - query));
          sum += weights[index(key)];
        }
        const int64_t row = (b * H + h) * T + query;
        result.lse[index(row)] = std::log(sum);
        for (int64_t key = first_key; key <= query; ++key) {
          const int64_t element =
              (b * total + heads.first + h) * head_elements + mask_element(query, key);
          const double p = weights[index(key)] / sum * mask[index(element)];
          for (int64_t d = 0; d < D; ++d) {
            result.out[index(((b * T + query) * H + h) * D + d)] += p * at(b, key, h, 2, d);
          }
        }
      }
    }
  }
  return result;
}

Values embedding(const Values& tokens, const Values& word, int64_t C, int64_t first_word) {
  Values out(tokens.size() * index(C));
  const int64_t num_words = static_cast<int64_t>(word.size()) / C;
  for (size_t n = 0; n < tokens.size(); ++n) {
    const int64_t id = static_cast<int64_t>(tokens[n]) - first_word;
    const bool here = id >= 0 && id < num_words;
    for (int64_t c = 0; c < C && here; ++c) {
      out[n * index(C) + index(c)] = word[index(id * C + c)];
    }
  }
  return out;
}

Values cross_entropy(const Values& logits, const Values& targets, int64_t Vp, int64_t V) {
  Values losses(targets.size());
  for (size_t n = 0; n < targets.size(); ++n) {
    const double* row = logits.data() + n * index(Vp);
    double sum = 0;
    for (int64_t v = 0; v < V; ++v) sum += std::exp(row[v]);
    losses[n] = std::log(sum) - row[index(static_cast<int64_t>(targets[n]))];
  }
  return losses;
}

Values gradient(const std::function<Values(const Values&)>& f, Values x, const Values& dout) {
  constexpr double kStep = 1e-5;
  Values result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    x[i] = value + kStep;
    const Values above = f(x);
    x[i] = value - kStep;
    const Values below = f(x);
    x[i] = value;
    for (size_t j = 0; j < dout.size(); ++j)
      result[i] += dout[j] * (above[j] - below[j]) / (2 * kStep);
  }
  return result;
}

}  // namespace weft::test::reference
