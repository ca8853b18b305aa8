// Choices that a training run makes before it starts: the device, the samples, whether it fits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "indexed_dataset/samples/gpt_dataset.h"
#include "kernels/backend.h"
#include "trainer/checkpoint/resume.h"
#include "trainer/config/config.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/vocabulary_size.h"
#include "trainer/step/trainer.h"

namespace weft {

struct DeviceChoice {
  DeviceKind kind = DeviceKind::kCpu;
  std::string why;
};
// Resolves --device. Throws std::invalid_argument for a head size that the GPU's attention kernels
// do not have, std::runtime_error for --device cuda without a usable GPU.
DeviceChoice choose_device(const Config& config);
std::unique_ptr<Backend> create_backend(DeviceKind kind, const Config& config);

// Returns the number of samples that the run needs of each split; iterations follow the batch size
// ramp-up.
DatasetTargetSizes target_sizes(const Config& config, const BatchSchedule& schedule);

// Throws LimitExceeded with both numbers where the plan needs more memory than the device has free.
void check_memory(const MemoryPlan& plan, const Backend& backend);

}  // namespace weft
