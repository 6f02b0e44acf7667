//===- Checks.h - the checks of kernels' operands -------------------------===//
//
// These functions check shapes, types, attributes and the presence of operands. They read no values, which may lie in a
// device's memory. Kernels check slots, counts, ids, labels and steps themselves. Each kernel of core/Kernels.h has a
// function with the same arguments. It checks types and shapes by kernels.def, and then the rest if kernels.def says
// `checked`. An error says what was expected: "'kernel': expected ..". All floating types are accepted: f32, f64, bf16
// and f16.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CHECKS_H
#define MOERT_CORE_CHECKS_H

#include "core/Kernels.h"

namespace moert {

#define MOERT_METHOD(kind, method, parameters, arguments) Status check##kind parameters;
#include "moert/kernels.inc"

class Checker;
/// Checks what kernels.def does not say, after `check` has accepted types and shapes.
#define MOERT_RESTS_OF_CHECKS
#include "moert/kernels.inc"

} // namespace moert

#endif // MOERT_CORE_CHECKS_H
