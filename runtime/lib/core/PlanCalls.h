//===- PlanCalls.h - what the calls of a plan are bound to ------*- C++ -*-===//
#ifndef MOERT_CORE_PLANCALLS_H
#define MOERT_CORE_PLANCALLS_H

namespace moert {

/// Binds the calls of the plan `handle` (dlopen) to functions of the whole process, or to those of this library. A plan
/// names no library, so dlopen alone finds them only if libmoert is visible to the whole process. It is not visible if
/// an extension of Python loaded it, and must not be: its BLAS would replace the BLAS of PyTorch. Calls that are not
/// found stay as they are.
void bindCalls(void *handle);

} // namespace moert

#endif // MOERT_CORE_PLANCALLS_H
