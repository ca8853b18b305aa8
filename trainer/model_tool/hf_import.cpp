#include <set>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model_tool/hf_folder.h"
#include "trainer/model_tool/hf_model_folder.h"
#include "trainer/resume/architecture.h"

namespace weft {

// Tensors are stored in the order of theirs; some of ours are several of theirs.
std::string import_hf(const HfImport& options) {
  const HfModelFolder folder(options.input, options.make_vocab_size_divisible_by);
  const ParameterTable table(folder.shape(), {});
  std::set<std::string> names;
  std::vector<std::vector<float>> storage;
  std::vector<StateTensor> tensors;
  for (const HfTensor& tensor : hf_tensors(folder.shape())) {
    if (!names.insert(tensor.parameter).second) continue;
    const Parameter& parameter = table.find(tensor.parameter);
    storage.emplace_back(static_cast<size_t>(parameter.num_elements));
    folder.read(parameter, DType::kFloat32, reinterpret_cast<char*>(storage.back().data()));
    tensors.push_back({"model/" + parameter.name, parameter.global_shape, -1, 0, 0,
                       Tensor(storage.back().data(), DType::kFloat32, {parameter.num_own})});
  }
  CheckpointInfo info;
  info.architecture = architecture_of(folder.shape());
  info.data.vocabulary = folder.vocabulary();
  info.lr_decay_style = "none";
  const auto cpu = create_cpu_backend();
  save_checkpoint(options.save, info, tensors, *cpu);
  return folder.note();
}

}  // namespace weft
