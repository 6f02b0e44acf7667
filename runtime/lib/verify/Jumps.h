//===- Jumps.h - arguments near a jump of a derivative --------------------===//
//
// The derivative of a ReLU jumps at 0, and that of a clamp at its limits. If an argument lies within rounding of the
// jump, a plan and its reference may rightly take it on different sides. Their gradients then differ by more than
// rounding. See moert_decide.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_VERIFY_JUMPS_H
#define MOERT_VERIFY_JUMPS_H

#include "core/Instrument.h"

namespace moert::verify {

/// Calls `modes.decide` for each f32 or f64 argument of `call` near a jump, before the call runs, and moves the
/// argument to the side of the answer. `earlier` is the number of earlier calls of the op. Other types have too many
/// such arguments.
void decideJumps(const Call &call, int64_t earlier, const VerifyModes &modes);

} // namespace moert::verify

#endif // MOERT_VERIFY_JUMPS_H
