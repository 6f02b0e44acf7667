//===- Inputs.h - the global values a program starts from -----------------===//
#ifndef MOERT_RUN_INPUTS_H
#define MOERT_RUN_INPUTS_H

#include "run/Tensor.h"

#include <ostream>

namespace moert::run {

/// Random values of the distribution that docs/Runtime.md gives for the role. An element depends on the seed, the name
/// and its index in the global value only. i32 has no sensible range: an error.
Status fillRandom(const Value &value, uint64_t seed, Tensor &tensor);

/// A value for each of `arguments`: from the file at `load` where that names it, otherwise random. Says on `log` which
/// ones are random where a file was given.
Status makeInputs(const std::vector<Value> &arguments, const std::string &load, uint64_t seed, std::ostream &log,
                  Tensors &inputs);

} // namespace moert::run

#endif // MOERT_RUN_INPUTS_H
