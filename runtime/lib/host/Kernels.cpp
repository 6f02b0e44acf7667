//===- Kernels.cpp - the checks of the host's kernels ---------------------===//

#include "host/Kernels.h"
#include "core/Checker.h"
#include "core/Checks.h"

namespace moert::host {

/// Refuses operands of 16 bits, which only casts have.
static void refuseNarrow(Checker &check, View view) {
  check.require(MOERT_ERROR_UNSUPPORTED, !isNarrow(view.dtype), dtypeName(view.dtype),
                " runs on no host kernel; compile with --dtype=f32 or f64");
}

/// Calls `check`, one of core/Checks.h, with all arguments of a kernel.
template <class... Parameters, class... Args>
static Checker checkOperands(Kind kernel, Status (*check)(Parameters...), const Args &...args) {
  Checker checker(kernel);
  auto refuse = [&]<class Arg>(const Arg &arg) {
    if constexpr (std::is_same_v<Arg, View>)
      refuseNarrow(checker, arg);
    else if constexpr (std::is_same_v<Arg, AttentionInputs>)
      for (View view : {arg.q, arg.k, arg.v, arg.bias, arg.sinks, arg.step})
        refuseNarrow(checker, view);
  };
  if (kernel != Kind::Cast)
    (refuse(args), ...);
  return checker.ok() ? checker.also(check(args...)) : checker;
}

#define MOERT_CHECKED_CALLS
#include "moert/kernels.inc"

} // namespace moert::host
