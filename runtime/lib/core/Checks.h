//===- Checks.h - the checks of kernels' operands -------------------------===//
//
// Shapes, types, attributes, and which operands must be there: all that can be said without reading what operands hold,
// which may lie in a device's memory. Slots, counts, ids, labels and steps are the kernels' own to check. One function
// for each kernel of core/Kernels.h, with the same arguments. Types and shapes are checked by kernels.def, and then the
// rest where that says `checked`. An error says what was expected: "'kernel': expected ..". All floating types pass:
// f32, f64, bf16 and f16.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_CHECKS_H
#define MOERT_CORE_CHECKS_H

#include "core/Kernels.h"

namespace moert {

#define MOERT_METHOD(kind, method, parameters, arguments) Status check##kind parameters;
#include "moert/kernels.inc"

class Checker;
/// What kernels.def does not say. `check` has found types and shapes right.
#define MOERT_RESTS_OF_CHECKS
#include "moert/kernels.inc"

} // namespace moert

#endif // MOERT_CORE_CHECKS_H
