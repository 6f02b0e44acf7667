//===- Observe.cpp - tells a caller of the calls that ran -----------------===//

#include "verify/Observe.h"
#include "core/Field.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace moert::verify {

/// Whether an input of the call lies in the memory of an output.
static bool isInput(const Call &call, const View &out) {
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i)
    if (const View &in = call.views[i]; in && !infoOf(call.kind).operands[i].isOutput)
      if (in.as<const char>() < out.as<const char>() + out.bytes() &&
          out.as<const char>() < in.as<const char>() + in.bytes())
        return true;
  return false;
}

void forgetOutputs(const Call &call) {
  for (size_t i = 0; i < static_cast<size_t>(call.viewCount); ++i)
    if (const View &out = call.views[i];
        out && out.dtype == kFieldType && infoOf(call.kind).operands[i].isOutput && !isInput(call, out))
      std::fill_n(out.as<Field>(), out.elements(), -std::numeric_limits<Field>::infinity());
}

void Observer::tell(std::span<const Call *const> calls) {
  std::vector<moert_operand> operands;
  std::vector<moert_ran> ran;
  for (const Call *call : calls) {
    const size_t first = operands.size();
    for (size_t i = 0; i < static_cast<size_t>(call->viewCount); ++i)
      if (const View &view = call->views[i])
        operands.push_back({view.data, view.bytes(), view.dtype, infoOf(call->kind).operands[i].isOutput});
    ran.push_back({call->rank, call->op, static_cast<int64_t>(operands.size() - first), nullptr});
  }
  const moert_operand *next = operands.data();
  for (moert_ran &call : ran) {
    call.operands = next;
    next += call.operand_count;
  }
  std::lock_guard lock(mutex);
  observe(context, ran.data(), static_cast<int64_t>(ran.size()));
}

} // namespace moert::verify
