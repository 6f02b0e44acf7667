//===- Perturb.h - values moved by some units in the last place -----------===//
//
// Values are moved at random by as much as rounding may move them. The difference of two such runs shows the effect of
// rounding (Monte Carlo arithmetic). Values that a kernel computes are moved, but not those that are only read, copied
// or sent. The distance depends on the value and the seed alone, so equal values on several ranks stay equal.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_VERIFY_PERTURB_H
#define MOERT_VERIFY_PERTURB_H

#include "core/Instrument.h"

namespace moert::verify {

/// Moves the outputs of `call`, which has run, by up to `ulps` units in the last place. Zeros and infinities stay, and
/// no value becomes one.
void perturbOutputs(const Call &call, const Perturbation &perturbation);

} // namespace moert::verify

#endif // MOERT_VERIFY_PERTURB_H
