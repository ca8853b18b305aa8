// Lines of a training log, as people paste them: those of Megatron-LM (2021 and 2024),
// Megatron-DeepSpeed, GPT-NeoX and NeMo, with or without what srun -l, torchrun or a time stamp put
// before them.
//
//    1:  iteration      200/    1000 | consumed samples:          800 | ... | global batch size:     4 | ...
//   [2024-07-16 22:14:01] iteration        1/  508626 | consumed samples:          288 | ...
//    samples/sec: 47.6 | iteration       10/  143000 | elapsed time per iteration (ms): 2689.9 | ...
//   Training epoch 0, iteration 8/9 | consumed_samples: 288 | ... | global_step: 8 | ...
//    validation loss at iteration 1000 | lm loss value: 7.0E+00 | ...
//    validation results at iteration 1000 | lm_loss value: 7.0E+00 | ...
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft {

struct LogLine {
  int64_t iteration = 0;
  bool is_validation = false;
  std::optional<int64_t> consumed_samples;   // after the iteration
  std::optional<int64_t> global_batch_size;  // of the iteration
  std::optional<int64_t>
      consumed_tokens;  // after the iteration; only Megatron-DeepSpeed prints them
  // The iterations that the run was to have. NeMo's number stays unknown: it is that of the run or
  // of an epoch, and counted from 0 or from 1, by its version
  // (nemo/lightning/pytorch/callbacks/progress_printer.py).
  std::optional<int64_t> num_iterations;

  bool operator==(const LogLine&) const = default;
};

// Returns what the lines of `text` tell that are of an iteration or of a validation after one.
// Lines that are broken by a terminal or a mail are not put together again: numbers that are
// missing stay so.
std::vector<LogLine> parse_log_lines(std::string_view text);

}  // namespace weft
