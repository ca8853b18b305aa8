// Causal self-attention.
#include <algorithm>
#include <cmath>
#include <random>

#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t B, T, H, D;  // T queries
  Heads heads = {};
  Documents documents = {};
  bool has_slopes = false;
  int64_t queries_per_key = 1;
  int64_t first_query = 0, later_keys = 0;  // keys before the first query, and after the last one
  bool apart = false;  // queries, keys and values are tensors of their own, keys by heads
  int64_t offset = 0;  // the part of first_query that is on the device

  int64_t num_keys() const { return first_query + T + later_keys; }
  int64_t groups() const { return H / queries_per_key; }
  int64_t rows() const { return queries_per_key + 2; }  // of a group
  int64_t packed() const { return B * num_keys() * groups() * rows() * D; }
};

std::string shape_name(const char* operation, DType x, const Shape& s, float p) {
  return std::string(operation) + "_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" +
         std::to_string(s.T) + "_H" + std::to_string(s.H) + "_D" + std::to_string(s.D) +
         (s.heads.total > 0
              ? "_from" + std::to_string(s.heads.first) + "of" + std::to_string(s.heads.total)
              : "") +
         (s.queries_per_key > 1 ? "_R" + std::to_string(s.queries_per_key) : "") +
         (s.num_keys() > s.T
              ? "_at" + std::to_string(s.first_query) + "of" + std::to_string(s.num_keys())
              : "") +
         (s.offset > 0 ? "_offset" + std::to_string(s.offset) : "") + (s.apart ? "_apart" : "") +
         s.documents.name() + (s.has_slopes ? "_slopes" : "") + (p > 0 ? "_dropout" : "");
}

float scale_of(const Shape& s) { return 1.0F / std::sqrt(static_cast<float>(s.D)); }

Dropout dropout_of(float p) {
  return {.p = p, .seed = 3, .stream = 1, .first_element = 1ULL << 36};
}

// One is 0, and one is so flat that thousands of tokens count. Steeper ones make gradients of keys
// so small that the rounding of `out`, which backward subtracts, is no longer small beside them.
Values slopes_of(const Shape& s) {
  constexpr double kSlopes[] = {1.0 / 256, 0.25, 0, 0.5};
  Values slopes;
  for (int64_t h = 0; s.has_slopes && h < s.H; ++h)
    slopes.push_back(kSlopes[(h + s.heads.first) % 4]);
  return slopes;
}

struct Inputs {
  Values qkv, dout;
  // Queries and keys are so large that the softmax is far from uniform.
  Inputs(DType x, const Shape& s)
      : qkv(random_values(s.packed(), 1, x, 2.0)),
        dout(random_values(s.B * s.T * s.H * s.D, 2, x)) {}
};

// Calls function(element of the packed tensor, 0 to 2 for q, k and v, element of that tensor) for
// each number of a query that there is, of a key and of a value.
template <typename Function>
void for_each_apart(const Shape& s, const Function& function) {
  const int64_t Tk = s.num_keys(), R = s.queries_per_key;
  for (int64_t i = 0; i < s.packed(); ++i) {
    const int64_t d = i % s.D, row = i / s.D % s.rows(), group = i / (s.D * s.rows()) % s.groups();
    const int64_t token = i / (s.D * s.rows() * s.groups()), b = token / Tk, t = token % Tk;
    const int64_t query = t - s.first_query;
    if (row >= R) {
      function(i, row - R + 1, ((b * s.groups() + group) * Tk + t) * s.D + d);
    } else if (query >= 0 && query < s.T) {
      function(i, 0, ((b * s.T + query) * s.H + group * R + row) * s.D + d);
    }
  }
}

// Queries, keys and values, or their gradients, in memory: packed for all tokens, or apart.
struct QkvMemory {
  Shape s;
  Tensor packed, tensors[3];
  Qkv view;

  QkvMemory(Arrays& arrays, DType x, const Shape& shape, const Values& values) : s(shape) {
    const int64_t B = s.B, Tk = s.num_keys(), G = s.groups(), D = s.D;
    if (!s.apart) {
      packed = arrays.make(x, {B, Tk, G, s.rows(), D}, values);
      view = packed;
      view.q.T = s.T;
      view.q.data = packed.as<char>() + s.first_query * view.q.token_stride * size_bytes(x);
      return;
    }
    const size_t num_queries = static_cast<size_t>(B * s.T * s.H * D),
                 num_keys = static_cast<size_t>(B * G * Tk * D);
    Values parts[3] = {Values(num_queries), Values(num_keys), Values(num_keys)};
    for_each_apart(s, [&](int64_t i, int64_t part, int64_t element) {
      parts[part][static_cast<size_t>(element)] = values[static_cast<size_t>(i)];
    });
    tensors[0] = arrays.make(x, {B, s.T, s.H, D}, parts[0]);
    view.q = head_vectors(tensors[0]);
    for (const int part : {1, 2}) {
      tensors[part] = arrays.make(x, {B, G, Tk, D}, parts[part]);
      (part == 1 ? view.k : view.v) =
          HeadVectors{tensors[part].data(), x, B, Tk, G, D, G * Tk * D, D, Tk * D};
    }
  }
  // Returns the numbers in packed order. Those of queries that there are not are 0.
  Values read(Arrays& arrays) const {
    if (!s.apart) return arrays.read(packed);
    Values values(static_cast<size_t>(s.packed()));
    const Values parts[3] = {arrays.read(tensors[0]), arrays.read(tensors[1]),
                             arrays.read(tensors[2])};
    for_each_apart(s, [&](int64_t i, int64_t part, int64_t element) {
      values[static_cast<size_t>(i)] = parts[part][static_cast<size_t>(element)];
    });
    return values;
  }
};

QkvMemory make_gradients(Arrays& arrays, DType x, const Shape& s) {
  return {arrays, x, s, Values(static_cast<size_t>(s.packed()))};
}

struct Buffers {
  QkvMemory qkv;
  Tensor out, lse, kept, document_bounds, slopes;
  Buffers(Arrays& arrays, DType x, const Shape& s, const Inputs& in)
      : qkv(arrays, x, s, in.qkv),
        out(arrays.make(x, {s.B, s.T, s.H, s.D})),
        lse(arrays.make(DType::kFloat32, {s.B, s.H, s.T})),
        kept(arrays.make(DType::kInt32, {s.B, s.H, attention_mask_words(s.num_keys())})) {
    const Values bounds = test::document_bounds(s.documents, s.B, s.num_keys());
    if (!bounds.empty())
      document_bounds = arrays.make(DType::kInt32, {s.B, s.num_keys(), 2}, bounds);
    if (s.has_slopes) slopes = arrays.make(DType::kFloat32, {s.H}, slopes_of(s));
  }
};

// Returns the bit of each query and key that the query can see, in order of b, h, query, key.
Values visible_bits(const Values& words, const Shape& s) {
  Values bits;
  for (int64_t head = 0; head < s.B * s.H; ++head) {
    const double* of_head = words.data() + head * attention_mask_words(s.num_keys());
    for (int64_t query = s.first_query; query < s.first_query + s.T; ++query) {
      for (int64_t key = 0; key <= query; ++key) {
        const auto word =
            static_cast<uint32_t>(static_cast<int32_t>(of_head[attention_mask_word(query, key)]));
        bits.push_back(word >> attention_mask_bit(query, key) & 1);
      }
    }
  }
  return bits;
}
Values expected_bits(const Shape& s, float p) {
  const int64_t total = s.heads.total > 0 ? s.heads.total : s.H;
  const int64_t head_elements = 32 * attention_mask_words(s.num_keys());
  const Values mask = reference::mask_multipliers(dropout_of(p), s.B * total * head_elements);
  Values bits;
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      const int64_t first = (b * total + s.heads.first + h) * head_elements;
      for (int64_t query = s.first_query; query < s.first_query + s.T; ++query) {
        for (int64_t key = 0; key <= query; ++key) {
          const int64_t element = first + reference::mask_element(query, key);
          bits.push_back(mask[static_cast<size_t>(element)] != 0 ? 1 : 0);
        }
      }
    }
  }
  return bits;
}

void run_forward(Arrays& arrays, const Shape& s, const Buffers& buffers, float p) {
  arrays.run(AttentionForward{.out = buffers.out,
                              .lse = buffers.lse,
                              .dropout_mask = buffers.kept,
                              .qkv = buffers.qkv.view,
                              .first_query = s.first_query - s.offset,
                              .offset = arrays.offset(s.offset),
                              .document_bounds = buffers.document_bounds,
                              .slopes = buffers.slopes,
                              .scale = scale_of(s),
                              .heads = s.heads,
                              .dropout = dropout_of(p)});
}

reference::AttentionResult definition(const Values& qkv, const Shape& s, float p) {
  const int64_t Tk = s.num_keys();
  const auto all = reference::attention(qkv, s.B, Tk, s.H, s.queries_per_key, s.D,
                                        static_cast<double>(scale_of(s)), s.heads, dropout_of(p),
                                        document_bounds(s.documents, s.B, Tk), slopes_of(s));
  if (s.T == Tk) return all;
  reference::AttentionResult result;  // of the queries that there are
  const auto append = [&](Values& to, const Values& from, int64_t first, int64_t count) {
    to.insert(to.end(), from.begin() + first, from.begin() + first + count);
  };
  for (int64_t b = 0; b < s.B; ++b)
    append(result.out, all.out, (b * Tk + s.first_query) * s.H * s.D, s.T * s.H * s.D);
  for (int64_t bh = 0; bh < s.B * s.H; ++bh)
    append(result.lse, all.lse, bh * Tk + s.first_query, s.T);
  return result;
}

OpCase forward(DType x, Shape s, float p, Accuracy accuracy = Accuracy::kAttention) {
  return {shape_name("attention_forward", x, s, p),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Buffers buffers(arrays, x, s, in);
            run_forward(arrays, s, buffers, p);
            Outputs outputs{arrays.output("out", buffers.out), arrays.output("lse", buffers.lse)};
            if (p > 0)
              outputs.push_back({"dropout_mask", visible_bits(arrays.read(buffers.kept), s)});
            return outputs;
          },
          [=]() -> Outputs {
            const auto result = definition(Inputs(x, s).qkv, s, p);
            Outputs outputs{{"out", result.out}, {"lse", result.lse}};
            if (p > 0) outputs.push_back({"dropout_mask", expected_bits(s, p)});
            return outputs;
          },
          accuracy};
}

Accuracy backward_accuracy(const Shape& s) {
  return s.T > 512 ? Accuracy::kLongAttentionBackward : Accuracy::kAttentionBackward;
}

AttentionBackward backward_args(Arrays& arrays, DType x, const Shape& s, const Buffers& buffers,
                                const Inputs& in, const Qkv& dqkv, float p) {
  return {.dqkv = dqkv,
          .dout = arrays.make(x, {s.B, s.T, s.H, s.D}, in.dout),
          .out = buffers.out,
          .lse = buffers.lse,
          .dropout_mask = buffers.kept,
          .qkv = buffers.qkv.view,
          .first_query = s.first_query,
          .document_bounds = buffers.document_bounds,
          .slopes = buffers.slopes,
          .scale = scale_of(s),
          .dropout_p = p};
}

// Forward runs first: backward takes its out and lse.
OpCase backward(DType x, Shape s, float p, Accuracy accuracy) {
  return {shape_name("attention_backward", x, s, p),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Buffers buffers(arrays, x, s, in);
            const QkvMemory dqkv = make_gradients(arrays, x, s);
            run_forward(arrays, s, buffers, p);
            arrays.run(backward_args(arrays, x, s, buffers, in, dqkv.view, p));
            return {{"dqkv", dqkv.read(arrays), x}};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const auto f = [&](const Values& qkv) { return definition(qkv, s, p).out; };
            return {{"dqkv", reference::gradient(f, in.qkv, in.dout)}};
          },
          accuracy};
}

// The gradient of a bias (H,3,D) by part. Each has its own typical size, which its tolerance
// follows: values have the largest, and keys have none. It has the tolerance of dqkv's type, whose
// rounding is in its sums. A query that sees one key has no gradient, so where all are such the
// rounding of queries is measured against values.
Outputs parts_of_bias(const Values& bias, DType x, const Shape& s) {
  const bool has_queries = s.T > 1 && s.documents.length != 1;
  Outputs parts(3);
  for (int64_t part = 0; part < 3; ++part) {
    Output& output = parts[static_cast<size_t>(part)];
    constexpr const char* kNames[] = {"bias of queries", "bias of keys", "bias of values"};
    output.name = kNames[part];
    output.dtype = x;
  }
  for (size_t i = 0; i < bias.size(); ++i) {
    const size_t part = i / static_cast<size_t>(s.D) % 3;
    parts[part == 0 && !has_queries ? 2 : part].values.push_back(bias[i]);
  }
  return parts;
}

// Backward that also sums the gradient of a bias, or adds it to what is there.
OpCase backward_with_bias(DType x, Shape s, float p, bool accumulate, Accuracy accuracy) {
  const Values before = random_values(s.H * 3 * s.D, 5, DType::kFloat32);
  return {shape_name("attention_backward_bias", x, s, p) + (accumulate ? "_accumulate" : ""),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Buffers buffers(arrays, x, s, in);
            const QkvMemory dqkv = make_gradients(arrays, x, s);
            const Tensor bias = arrays.make(DType::kFloat32, {s.H * 3 * s.D}, before);
            run_forward(arrays, s, buffers, p);
            AttentionBackward args = backward_args(arrays, x, s, buffers, in, dqkv.view, p);
            arrays.run(args);
            const Values alone = dqkv.read(arrays);
            args.dqkv_bias = bias;
            args.accumulate = accumulate;
            arrays.run(args);
            EXPECT_EQ(dqkv.read(arrays), alone) << "the bias changes dqkv";
            return parts_of_bias(arrays.read(bias), x, s);
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const auto f = [&](const Values& qkv) { return definition(qkv, s, p).out; };
            const Values dqkv = reference::gradient(f, in.qkv, in.dout);
            Values bias(before.size());
            for (size_t i = 0; i < dqkv.size(); ++i) bias[i % bias.size()] += dqkv[i];
            for (size_t i = 0; i < bias.size(); ++i) {
              if (i / static_cast<size_t>(s.D) % 3 == 1) {
                EXPECT_NEAR(bias[i], 0, 1e-6) << "a gradient of a bias of keys";
                bias[i] = 0;
              }
            }
            return parts_of_bias(accumulate ? reference::add(bias, before) : bias, x, s);
          },
          accuracy};
}

// Heads of the kernels that sum the bias, of tiles that they fill and of one that they do not, with
// everything that attention has; and heads for which a pass over dqkv does it. Samples, and tiles
// of a sample, add up.
std::vector<Shape> shapes_with_bias(Sizes sizes) {
  constexpr bool kRandom = true, kSlopes = true;
  if (sizes == Sizes::kSmall) {
    return {{1, 1, 1, 8},
            {2, 7, 3, 8},
            {1, 66, 1, 2, {1, 4}},
            {3, 20, 1, 4, {}, {12, kRandom}, kSlopes}};
  }
  std::vector<Shape> shapes = {{1, 1, 1, 64}, {2, 150, 2, 64, {}, {1}}};
  for (const int64_t D : {64, 80, 96, 128}) {
    shapes.insert(shapes.end(), {{3, 65, 3, D},
                                 {2, 513, 2, D},
                                 {2, 384, 2, D, {}, {90, kRandom}},
                                 {1, 321, 2, D, {3, 5}, {}, kSlopes},
                                 {2, 300, 3, D, {}, {200, kRandom}, kSlopes}});
  }
  for (const int64_t D : {8, 160, 20, 145}) shapes.push_back({2, 200, 3, D, {}, {90, kRandom}});
  return shapes;
}

// Lengths on and beside the edges of the kernels' tiles, and one at whose end a token is thousands
// away.
std::vector<Shape> shapes_with_slopes(Sizes sizes) {
  constexpr bool kRandom = true, kSlopes = true;
  if (sizes == Sizes::kSmall) {
    return {{2, 7, 3, 8, {}, {}, kSlopes},
            {1, 67, 2, 4, {1, 4}, {}, kSlopes},
            {1, 67, 2, 4, {}, {30, kRandom}, kSlopes}};
  }
  std::vector<Shape> shapes;
  for (const int64_t D : {64, 96, 128}) {
    shapes.insert(shapes.end(), {{2, 65, 3, D, {}, {}, kSlopes},
                                 {1, 384, 2, D, {3, 5}, {}, kSlopes},
                                 {2, 321, 2, D, {}, {90, kRandom}, kSlopes}});
  }
  shapes.push_back({1, 2111, 2, 64, {}, {}, kSlopes});
  return shapes;
}

// Documents of one token, many short ones, some that are longer than the tiles of the kernels, with
// ends on the tiles' edges and between them, and a single one.
std::vector<Shape> shapes_with_documents(Sizes sizes) {
  constexpr bool kRandom = true;
  if (sizes == Sizes::kSmall) {
    return {
        {2, 7, 2, 4, {}, {1}}, {2, 9, 2, 4, {}, {4, kRandom}}, {1, 67, 1, 4, {}, {30, kRandom}}};
  }
  std::vector<Shape> shapes;
  for (const int64_t D : {64, 96, 128}) {
    shapes.insert(shapes.end(), {{1, 65, 2, D, {}, {1}},
                                 {2, 200, 2, D, {}, {9, kRandom}},
                                 {1, 512, 1, D, {}, {64}},
                                 {2, 513, 2, D, {}, {200, kRandom}},
                                 {1, 700, 1, D, {}, {600, kRandom}}});
  }
  shapes.insert(shapes.end(), {{1, 321, 1, 64, {}, {1000}},
                               {2, 130, 2, 64, {2, 6}, {50, kRandom}},
                               {3, 384, 1, 128, {}, {128}},
                               {1, 1100, 2, 64, {}, {31}}});
  return shapes;
}

// Heads that fill no tile of the kernels (kernels/cuda/attention/arguments/params.h): the smallest,
// those on either side of the tile of 96 columns, and the largest; with all that attention has.
std::vector<Shape> shapes_of_other_heads() {
  constexpr bool kRandom = true, kSlopes = true;
  std::vector<Shape> shapes;
  for (const int64_t D : {8, 40, 72, 80, 88, 104, 112, 136, 160}) shapes.push_back({2, 65, 3, D});
  for (const int64_t D : {80, 160}) {
    shapes.insert(shapes.end(), {{1, 1, 1, D},
                                 {1, 513, 2, D},
                                 {2, 321, 2, D, {}, {90, kRandom}},
                                 {1, 384, 2, D, {3, 5}, {}, kSlopes},
                                 {2, 200, 2, D, {}, {50, kRandom}, kSlopes}});
  }
  return shapes;
}

// Heads that the GPU's flash kernels do not take (kernels/unfused_attention.h): rows that are no
// multiples of 16 bytes and those that are, one block of queries and several, and more heads than
// fit into memory together.
std::vector<Shape> shapes_of_unfused_heads() {
  constexpr bool kRandom = true, kSlopes = true;
  std::vector<Shape> shapes;
  for (const int64_t D : {1, 5, 20, 145, 168, 224, 320, 512}) shapes.push_back({2, 65, 3, D});
  for (const int64_t D : {20, 145, 224}) {
    shapes.insert(shapes.end(), {{1, 1, 1, D},
                                 {2, 513, 2, D},
                                 {2, 321, 2, D, {}, {90, kRandom}},
                                 {1, 384, 2, D, {3, 5}, {}, kSlopes},
                                 {2, 1100, 2, D, {2, 6}, {600, kRandom}, kSlopes}});
  }
  shapes.insert(shapes.end(), {{1, 1100, 29, 20}, {1, 1025, 3, 320, {}, {1}}});
  return shapes;
}

// Queries that share keys: all of them, and some, in packed tensors and in others.
std::vector<Shape> shapes_with_groups(Sizes sizes) {
  constexpr bool kRandom = true, kSlopes = true, kApart = true;
  if (sizes == Sizes::kSmall) {
    return {{2, 7, 6, 4, {}, {}, false, 3},
            {1, 9, 4, 8, {2, 8}, {4, kRandom}, kSlopes, 4, 0, 0, kApart}};
  }
  std::vector<Shape> shapes;
  for (const int64_t D : {20, 64, 80, 96, 128, 160}) {
    shapes.insert(shapes.end(), {{2, 130, 6, D, {}, {}, false, 3},
                                 {2, 321, 4, D, {}, {90, kRandom}, kSlopes, 4, 0, 0, kApart},
                                 {1, 200, 4, D, {1, 9}, {}, false, 2}});
  }
  return shapes;
}

// Queries that see keys before them, and do not see some behind them: on and beside the edges of
// tiles, a single query, and more of them than keys before.
std::vector<Shape> shapes_with_other_keys(Sizes sizes) {
  constexpr bool kRandom = true, kSlopes = true, kApart = true;
  if (sizes == Sizes::kSmall) {
    return {{2, 3, 2, 4, {}, {}, false, 1, 4, 1},
            {1, 3, 4, 4, {}, {3, kRandom}, kSlopes, 2, 64, 0, kApart},
            {2, 1, 4, 4, {}, {3, kRandom}, kSlopes, 2, 9, 2, kApart, 7},
            {1, 70, 1, 2, {}, {}, false, 1, 64, 3}};
  }
  std::vector<Shape> shapes;
  for (const int64_t D : {20, 64, 80, 96, 128, 160}) {
    shapes.insert(shapes.end(), {{2, 1, 4, D, {}, {}, false, 2, 300, 0, kApart},
                                 {3, 1, 4, D, {}, {90, kRandom}, kSlopes, 2, 200, 20, kApart},
                                 {2, 1, 4, D, {}, {700, kRandom}, kSlopes, 2, 600, 500, kApart, 1},
                                 {2, 1, 2, D, {}, {}, false, 1, 255, 257, kApart, 255},
                                 {2, 70, 2, D, {}, {}, false, 1, 128, 64},
                                 {1, 200, 4, D, {}, {90, kRandom}, kSlopes, 4, 333, 17, kApart},
                                 {1, 257, 2, D, {1, 9}, {}, kSlopes, 1, 64, 0},
                                 {2, 64, 2, D, {}, {200, kRandom}, false, 1, 191, 1}});
  }
  for (const int64_t D : {256, 509, 512})
    shapes.push_back({2, 1, 2, D, {}, {}, false, 1, 1000, 0, kApart});
  return shapes;
}

// So many heads that each block of a GPU takes several tiles one after the other, of few tokens.
std::vector<Shape> shapes_of_many_heads() {
  std::vector<Shape> shapes;
  for (const int64_t D : {64, 96, 128, 160}) shapes.push_back({10, 300, 14, D, {}, {200, true}});
  return shapes;
}

// Numbers that follow from a seed.
struct Random {
  std::mt19937_64 bits;
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(bits() % static_cast<uint64_t>(bound));
  }
  bool coin() { return below(2) == 0; }
  // Every order of magnitude of [1, bound] is as likely.
  int64_t spread(int64_t bound) {
    const double exponent = static_cast<double>(bits() >> 11) / 9007199254740992.0;
    return std::min(bound, static_cast<int64_t>(std::pow(bound + 1, exponent)));
  }
};

int64_t random_divisor(Random& random, int64_t n) {
  int64_t divisor = 1 + random.below(n);
  while (n % divisor != 0) --divisor;
  return divisor;
}

// The scores of all heads are so many at most, which the CPU computes in a second. Short sequences
// may have more heads than there are slots of sums (kernels/flash_attention.h).
Shape random_shape(Random& random) {
  constexpr int64_t kMostScores = 16 << 20, kMostHeads = 500, kLongest = 2500;
  constexpr int64_t kFullTiles[] = {64, 96, 128, 160};
  Shape s = {};
  s.T = random.spread(kLongest);
  const int64_t num_heads =
      random.spread(std::clamp<int64_t>(kMostScores / (s.T * s.T), 1, kMostHeads));
  s.H = random.spread(num_heads);
  s.B = num_heads / s.H;
  s.D = random.coin() ? kFullTiles[random.below(4)] : 8 * (1 + random.below(20));
  if (random.coin()) s.documents = {random.spread(2 * s.T), random.coin()};
  if (random.coin()) s.heads = {random.below(3), s.H + 2 + random.below(3)};
  s.has_slopes = random.coin();
  s.queries_per_key = random.coin() ? random_divisor(random, s.H) : 1;
  s.apart = random.coin();
  return s;
}

// Some of the queries of a shape become keys alone, which a mask takes in whole tiles.
Shape with_other_keys(Random& random, Shape s, bool whole_tiles) {
  s.first_query = random.below(s.T);
  if (whole_tiles) s.first_query = s.first_query / kMaskTile * kMaskTile;
  s.later_keys = random.below(s.T - s.first_query);
  s.T -= s.first_query + s.later_keys;
  return s;
}

// Shapes whose gradients finite differences compute quickly.
Shape small_random_shape(Random& random) {
  Shape s = {};
  s.queries_per_key = 1 + random.below(3);
  s.B = 1 + random.below(2);
  s.T = 1 + random.below(9);
  s.H = s.queries_per_key * (1 + random.below(2));
  s.D = 1 + random.below(5);
  if (random.coin()) s.documents = {random.spread(2 * s.T), random.coin()};
  if (random.coin()) s.heads = {random.below(3), s.H + 2 + random.below(3)};
  s.has_slopes = random.coin();
  s.apart = random.coin();
  return s;
}

}  // namespace

std::vector<OpCase> small_random_attention_cases(uint64_t seed, int num_shapes) {
  Random random{std::mt19937_64(seed)};
  std::vector<OpCase> cases;
  for (int i = 0; i < num_shapes; ++i) {
    const float p = random.coin() ? 0.3F : 0.0F;
    Shape s = small_random_shape(random);
    if (random.coin()) s = with_other_keys(random, s, /*whole_tiles=*/p > 0);
    cases.push_back(forward(DType::kFloat32, s, p));
    cases.push_back(backward(DType::kFloat32, s, p, Accuracy::kAttentionBackward));
  }
  return cases;
}

std::vector<OpCase> random_attention_cases(uint64_t seed, int num_shapes) {
  constexpr Accuracy kAccuracy = Accuracy::kRandomAttention;
  Random random{std::mt19937_64(seed)};
  std::vector<OpCase> cases;
  for (int i = 0; i < num_shapes; ++i) {
    const Shape s = random_shape(random);
    const DType x = random.coin() ? DType::kBFloat16 : DType::kFloat16;
    const float p = random.coin() ? 0.1F : 0.0F;
    cases.push_back(forward(x, s, p, kAccuracy));
    cases.push_back(forward(x, with_other_keys(random, s, /*whole_tiles=*/p > 0), p, kAccuracy));
    const bool sums_bias = random.coin() && s.queries_per_key == 1 && !s.apart;
    cases.push_back(sums_bias ? backward_with_bias(x, s, p, random.coin(), kAccuracy)
                              : backward(x, s, p, kAccuracy));
  }
  return cases;
}

void add_attention_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  // Finite differences check backward where they are quick; T = 67 and 130 cross the CPU's blocks
  // of 64 queries.
  std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{1, 1, 1, 8}, {2, 7, 3, 8}, {1, 67, 1, 4}, {2, 5, 2, 4, {1, 5}}}
          : std::vector<Shape>{{1, 1, 1, 64},   {2, 64, 3, 64},   {1, 65, 2, 64},
                               {2, 200, 2, 64}, {1, 513, 1, 64},  {1, 128, 2, 96},
                               {2, 77, 2, 96},  {1, 300, 1, 96},  {1, 128, 2, 128},
                               {2, 33, 3, 128}, {1, 321, 1, 128}, {2, 130, 2, 64, {2, 6}}};
  for (const Shape& s : shapes_with_documents(sizes)) shapes.push_back(s);
  for (const Shape& s : shapes_with_slopes(sizes)) shapes.push_back(s);
  for (const Shape& s : shapes_with_groups(sizes)) shapes.push_back(s);
  if (sizes == Sizes::kDevice) {
    for (const Shape& s : shapes_of_other_heads()) shapes.push_back(s);
    for (const Shape& s : shapes_of_unfused_heads()) shapes.push_back(s);
    if (x == DType::kBFloat16)
      for (const Shape& s : shapes_of_many_heads()) shapes.push_back(s);
  }
  for (const Shape& s : shapes) {
    for (const float p : {0.0F, 0.1F}) {
      cases.push_back(forward(x, s, p));
      cases.push_back(backward(x, s, p, backward_accuracy(s)));
    }
  }
  for (const Shape& s : shapes_with_other_keys(sizes)) {
    const bool whole_tiles = s.first_query % kMaskTile == 0;
    for (const float p : {0.0F, 0.1F})
      if (p == 0.0F || whole_tiles) cases.push_back(forward(x, s, p));
    if (sizes == Sizes::kSmall) cases.push_back(backward(x, s, 0.0F, backward_accuracy(s)));
  }
  for (const Shape& s : shapes_with_bias(sizes)) {
    for (const float p : {0.0F, 0.1F}) {
      for (const bool accumulate : {false, true})
        cases.push_back(backward_with_bias(x, s, p, accumulate, backward_accuracy(s)));
    }
  }
  if (sizes == Sizes::kSmall) cases.push_back(forward(x, {2, 130, 2, 64}, 0.1F));
}

}  // namespace weft::test
