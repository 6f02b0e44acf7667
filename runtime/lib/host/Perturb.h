//===- Perturb.h - values moved by some units in the last place -----------===//
//
// Two runs of a program whose values are moved at random by what rounding may move them show how far rounding carries
// (Monte Carlo arithmetic). A value that a kernel computes is moved, one that is only fetched, copied or sent is not.
// How far is a function of the value and the seed alone: ranks that compute the same go on having the same.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_PERTURB_H
#define MOERT_HOST_PERTURB_H

#include "core/Device.h"

namespace moert::host {

/// `value` moved by up to `ulps` units in the last place of its type: not to 0 or to infinity, and not from there.
void perturb(View value, const Perturbation &perturbation);

/// What `call`, which has run, computed.
void perturbOutputs(const Call &call, const Perturbation &perturbation);

} // namespace moert::host

#endif // MOERT_HOST_PERTURB_H
