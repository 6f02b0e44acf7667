//===- Perturb.h - values moved by some units in the last place -----------===//
//
// Two runs of a program whose values are moved at random, as far as rounding may move them, show how far rounding
// carries (Monte Carlo arithmetic). Values that a kernel computes are moved. Values that are only fetched, copied or
// sent are not. The distance depends on the value and the seed alone, so equal values on several ranks stay equal.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_VERIFY_PERTURB_H
#define MOERT_VERIFY_PERTURB_H

#include "core/Instrument.h"

namespace moert::verify {

/// Moves what `call`, which has run, computed by up to `ulps` units in the last place. Zeros and infinities stay, and
/// no value becomes one.
void perturbOutputs(const Call &call, const Perturbation &perturbation);

} // namespace moert::verify

#endif // MOERT_VERIFY_PERTURB_H
