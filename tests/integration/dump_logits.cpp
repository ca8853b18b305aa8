// dump_logits CHECKPOINT_DIR TOKENS LOGITS [cuda]: fp32 logits (N, V) of one row of N int32 tokens,
// without padding columns. For the comparison with transformers (transformers_test.sh).
#include <cstdio>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/resume/architecture.h"
#include "trainer/step/trainer.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto backend = argc > 4 ? weft::create_cuda_backend(0) : weft::create_cpu_backend();
  const int64_t iteration = weft::latest_iteration(argv[1]).value();
  const std::string tokens = weft::read_file(argv[2]);
  weft::TrainerOptions options;
  options.shape = weft::shape_from(weft::read_checkpoint_info(argv[1], iteration).architecture);
  options.shape.seq_length = static_cast<int64_t>(tokens.size() / sizeof(int32_t));
  weft::Trainer trainer(*backend, options);
  trainer.allocate();
  weft::load_checkpoint(argv[1], iteration, trainer.state_tensors(false), *backend);
  trainer.parameters_loaded();

  const int64_t T = options.shape.seq_length, V = options.shape.vocab_size,
                Vp = options.shape.padded_vocab_size;
  void* device_tokens = backend->allocate(T * 4, weft::Memory::kDevice);
  backend->copy(device_tokens, tokens.data(), T * 4, weft::Stream::kCompute);
  weft::MicroBatch batch;
  batch.tokens = batch.targets = weft::Tensor(device_tokens, weft::DType::kInt32, {1, T});
  trainer.model().forward(batch, /*training=*/false);
  std::vector<float> logits(static_cast<size_t>(T * Vp));
  backend->copy(logits.data(), trainer.model().logits().data(), T * Vp * 4, weft::Stream::kCompute);
  backend->synchronize();
  weft::OutputFile out(argv[3]);
  for (int64_t t = 0; t < T; ++t) out.append(logits.data() + t * Vp, static_cast<size_t>(V) * 4);
  out.close();
  return 0;
}
