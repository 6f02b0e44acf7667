//===- PlanCalls.h - what the calls of a plan are bound to ------*- C++ -*-===//
#ifndef MOERT_CORE_PLANCALLS_H
#define MOERT_CORE_PLANCALLS_H

namespace moert {

/// Binds the calls of the plan `handle` (dlopen) to the functions that this library sees: those of the whole process
/// first, then its own. A plan names no library, so dlopen alone finds them only where libmoert is visible to the whole
/// process. It is not where an extension of Python loaded it, and must not be: its BLAS would take the place of the one
/// that PyTorch brings. Calls that are found nowhere stay as they are.
void bindCalls(void *handle);

} // namespace moert

#endif // MOERT_CORE_PLANCALLS_H
