//===- Inputs.h - the global values a program starts from -----------------===//
#ifndef MOERT_RUN_INPUTS_H
#define MOERT_RUN_INPUTS_H

#include "moert/world.h"
#include "run/checkpoint/Checkpoint.h"

#include <ostream>

namespace moert::run {

/// Random values of the distribution that docs/Runtime.md gives for the role. An element depends on the seed, the name
/// and its index in the global value only. An optimizer's states are zero, ids below what the plan says; i32 of which
/// it says nothing is an error.
Status fillRandom(const Value &value, uint64_t seed, Tensor &tensor);
/// The same for a model that is to be trained: parameters that begin with one value have that.
Status fillNew(const Value &value, uint64_t seed, Tensor &tensor);

using Fill = Status (*)(const Value &, uint64_t seed, Tensor &);

struct InputOptions {
  uint64_t seed = 0;
  /// Parameters and states that the files lack begin as `fill` says, although the files have others.
  bool allowMissing = false;
  Fill fill = fillRandom;
  /// Arguments that get another value before each step.
  std::vector<std::string> givenLater = {};
};

/// A value for each of `arguments`: from `loads`, which were opened for them, where those have it, otherwise from
/// `fill`; the f32 copy of a parameter is what this is. Files that have a parameter must have all of them, and files
/// that have a state of an optimizer all of those. Says on `log` which values are random where there are files, which
/// were missing, and what of checkpoints nobody uses.
Status makeInputs(const std::vector<Value> &arguments, Loads &loads, const InputOptions &options, std::ostream &log,
                  Tensors &inputs);
/// The same from what `load` names, if it is not empty.
Status makeInputs(const std::vector<Value> &arguments, const std::string &load, uint64_t seed, std::ostream &log,
                  Tensors &inputs);

/// Random ids in place of the integers of `tensor`, for exact arithmetic: half of all labels are masked, so that it
/// matters which.
Status fillIds(const Value &value, uint64_t seed, Tensor &tensor);

/// Makes all tokens of each sequence but the last eighth the same as the first of all.
void repeatFirst(const Value &value, Tensor &tensor);

/// The inputs of a plan that is run in the type `wide`: the same numbers in f64, or elements of the field that `seed`
/// draws for each name, a parameter's for its f32 copy. In exact arithmetic ids are those of fillIds; other integers
/// stay what they are.
Status widenInputs(moert_wide wide, const std::vector<Value> &arguments, uint64_t seed, Tensors &inputs);

} // namespace moert::run

#endif // MOERT_RUN_INPUTS_H
