#include "kernels/operations/loss.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

// `statistics` is empty where the vocabulary is whole.
Operation loss(const char* name, const Tensor& logits, const Tensor& statistics,
               bool writes_gradient) {
  return {.name = name,
          .dimensions = "N V",
          .sizes = {num_rows(logits), num_columns(logits)},
          .dtype = logits.dtype(),
          .bytes = (writes_gradient ? 2 : 1) * bytes_of({logits}) + bytes_of({statistics})};
}

}  // namespace

void check(const CrossEntropy& op) {
  const Checker checker("cross_entropy");
  checker.model_type("logits", op.logits);
  checker.rank("logits", op.logits, 2, "(N,Vp)");
  const int64_t N = num_rows(op.logits);
  checker.elements("losses", op.losses, DType::kFloat32, N);
  checker.elements("targets", op.targets, DType::kInt32, N);
  if (op.loss_mask) checker.elements("loss_mask", op.loss_mask, DType::kFloat32, N);
  checker.require(op.vocabulary_size > 0 && op.vocabulary_size <= num_columns(op.logits),
                  "vocabulary_size is " + std::to_string(op.vocabulary_size) + ", but logits is " +
                      text_of(op.logits));
}
Operation operation_of(const CrossEntropy& op) {
  return loss("cross_entropy", op.logits, {}, op.writes_gradient);
}

void check(const CrossEntropyStatistics& op) {
  const Checker checker("cross_entropy_statistics");
  checker.model_type("logits", op.logits);
  checker.rank("logits", op.logits, 2, "(N,Vp/tp)");
  const int64_t N = num_rows(op.logits);
  checker.tensor("statistics", op.statistics, DType::kFloat32, {N, 3});
  checker.elements("targets", op.targets, DType::kInt32, N);
  checker.require(op.vocabulary_size > 0 && op.first_word >= 0,
                  "vocabulary_size is " + std::to_string(op.vocabulary_size) + " and first_word " +
                      std::to_string(op.first_word));
}
Operation operation_of(const CrossEntropyStatistics& op) {
  return loss("cross_entropy_statistics", op.logits, op.statistics, false);
}

void check(const CrossEntropyGradient& op) {
  const Checker checker("cross_entropy_gradient");
  checker.model_type("logits", op.logits);
  checker.rank("logits", op.logits, 2, "(N,Vp/tp)");
  const int64_t N = num_rows(op.logits);
  checker.require(op.statistics.rank() == 3,
                  "statistics is " + text_of(op.statistics) + ", should be (tp,N,3)");
  checker.tensor("statistics", op.statistics, DType::kFloat32, {op.statistics.shape(0), N, 3});
  checker.elements("losses", op.losses, DType::kFloat32, N);
  checker.elements("targets", op.targets, DType::kInt32, N);
  if (op.loss_mask) checker.elements("loss_mask", op.loss_mask, DType::kFloat32, N);
  checker.require(op.vocabulary_size > 0 && op.first_word >= 0,
                  "vocabulary_size is " + std::to_string(op.vocabulary_size) + " and first_word " +
                      std::to_string(op.first_word));
}
Operation operation_of(const CrossEntropyGradient& op) {
  return loss("cross_entropy_gradient", op.logits, op.statistics, op.writes_gradient);
}

void check(const SampleLosses& op) {
  const Checker checker("sample_losses");
  checker.rank("losses", op.losses, 2, "(B,T)");
  const int64_t B = num_rows(op.losses), T = num_columns(op.losses);
  checker.tensor("losses", op.losses, DType::kFloat32, {B, T});
  checker.elements("out", op.out, DType::kFloat32, B);
  if (op.loss_mask) checker.elements("loss_mask", op.loss_mask, DType::kFloat32, B * T);
}
Operation operation_of(const SampleLosses& op) {
  return flat_operation("sample_losses", op.losses.num_elements(), op.losses.dtype(),
                        bytes_of({op.losses}));
}

}  // namespace weft
