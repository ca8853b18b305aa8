// Checks of cross-entropy and of means over samples.
#include "kernels/checks/check_shapes.h"
#include "kernels/checks/checker.h"

namespace weft {

void check_cross_entropy(const Tensor& losses, const Tensor& logits, const Tensor& targets,
                         const Tensor& loss_mask, int64_t vocabulary_size) {
  const Checker check("cross_entropy");
  check.model_type("logits", logits);
  check.rank("logits", logits, 2, "(N,Vp)");
  const int64_t N = num_rows(logits);
  check.elements("losses", losses, DType::kFloat32, N);
  check.elements("targets", targets, DType::kInt32, N);
  if (loss_mask) check.elements("loss_mask", loss_mask, DType::kFloat32, N);
  check.require(vocabulary_size > 0 && vocabulary_size <= num_columns(logits),
                "vocabulary_size is " + std::to_string(vocabulary_size) + ", but logits is " +
                    text_of(logits));
}

void check_cross_entropy_statistics(const Tensor& statistics, const Tensor& logits,
                                    const Tensor& targets, int64_t first_word,
                                    int64_t vocabulary_size) {
  const Checker check("cross_entropy_statistics");
  check.model_type("logits", logits);
  check.rank("logits", logits, 2, "(N,Vp/tp)");
  const int64_t N = num_rows(logits);
  check.tensor("statistics", statistics, DType::kFloat32, {N, 3});
  check.elements("targets", targets, DType::kInt32, N);
  check.require(vocabulary_size > 0 && first_word >= 0,
                "vocabulary_size is " + std::to_string(vocabulary_size) + " and first_word " +
                    std::to_string(first_word));
}

void check_cross_entropy_gradient(const Tensor& losses, const Tensor& logits,
                                  const Tensor& statistics, const Tensor& targets,
                                  const Tensor& loss_mask, int64_t first_word,
                                  int64_t vocabulary_size) {
  const Checker check("cross_entropy_gradient");
  check.model_type("logits", logits);
  check.rank("logits", logits, 2, "(N,Vp/tp)");
  const int64_t N = num_rows(logits);
  check.require(statistics.rank() == 3,
                "statistics is " + text_of(statistics) + ", should be (tp,N,3)");
  check.tensor("statistics", statistics, DType::kFloat32, {statistics.shape(0), N, 3});
  check.elements("losses", losses, DType::kFloat32, N);
  check.elements("targets", targets, DType::kInt32, N);
  if (loss_mask) check.elements("loss_mask", loss_mask, DType::kFloat32, N);
  check.require(vocabulary_size > 0 && first_word >= 0,
                "vocabulary_size is " + std::to_string(vocabulary_size) + " and first_word " +
                    std::to_string(first_word));
}

void check_sample_losses(const Tensor& out, const Tensor& losses, const Tensor& loss_mask) {
  const Checker check("sample_losses");
  check.rank("losses", losses, 2, "(B,T)");
  const int64_t B = num_rows(losses), T = num_columns(losses);
  check.tensor("losses", losses, DType::kFloat32, {B, T});
  check.elements("out", out, DType::kFloat32, B);
  if (loss_mask) check.elements("loss_mask", loss_mask, DType::kFloat32, B * T);
}

}  // namespace weft
