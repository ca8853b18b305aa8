// Any operation of the list, as one value.
#pragma once

#include <variant>

#include "kernels/operations/operations.h"

namespace weft {

template <typename First, typename... Ops>
struct VariantOfRest {
  using Type = std::variant<Ops...>;
};
#define WEFT_NEXT(Op) , Op
using AnyOperation = VariantOfRest<void WEFT_OPERATIONS(WEFT_NEXT)>::Type;
#undef WEFT_NEXT

}  // namespace weft
