// The operations by definition, in fp64; speed does not matter here.
#pragma once

#include "kernels/backend.h"
#include "tests/kernels/op_case.h"

namespace weft::test::reference {

// Returns 0 for each of the n elements from `first` on that is dropped, else 1/(1-p).
Values dropout_multipliers(const Dropout& dropout, int64_t n);
// The same of n elements of attention's mask, whose digits are ordered otherwise.
Values mask_multipliers(const Dropout& dropout, int64_t n);
// The element of a query and key among those of their head: the bit in the tiles of 64 x 64.
int64_t mask_element(int64_t query, int64_t key);
Values multiply(const Values& a, const Values& b);
Values add(const Values& a, const Values& b);

// out (N,O) = inp (N,I) * weight (O,I)^T + bias (O) or nothing.
Values linear(const Values& inp, const Values& weight, const Values& bias, int64_t I, int64_t O);
Values activation(Values x, Activation kind);
// Returns (N,F) of pre (N,2F).
Values glu(const Values& pre, int64_t F, Glu kind);

struct Normalised {
  Values normed, mean, rstd;
};
Normalised layernorm(const Values& inp, const Values& weight, const Values& bias, double epsilon);
Normalised rms_norm(const Values& inp, const Values& weight, double epsilon);  // mean is empty

struct AttentionResult {
  Values out, lse;
};
// `qkv` is (B,T,H/R,R+2,D).
AttentionResult attention(const Values& qkv, int64_t B, int64_t T, int64_t H, int64_t R, int64_t D,
                          double scale, const Heads& heads, const Dropout& dropout,
                          const Values& document_bounds = {}, const Values& slopes = {});

// Returns (B*T, C).
Values embedding(const Values& tokens, const Values& word, int64_t C, int64_t first_word);

// Returns the loss of each row, not masked.
Values cross_entropy(const Values& logits, const Values& targets, int64_t Vp, int64_t V);

// d(sum(dout * f(x)))/dx by central differences: right to about 1e-9 for smooth f near 1.
Values gradient(const std::function<Values(const Values&)>& f, Values x, const Values& dout);

}  // namespace weft::test::reference
