//===- Inputs.h - the global values a program starts from -----------------===//
#ifndef MOERT_RUN_INPUTS_H
#define MOERT_RUN_INPUTS_H

#include "moert/world.h"
#include "run/checkpoint/Checkpoint.h"

#include <ostream>

namespace moert::run {

/// Fills in random values of the distribution that docs/PlanFormat.md gives for the role. An element depends on the
/// seed, the name and its index in the global value only. An optimizer's states are zero, ids are below the limit that
/// the plan gives, and the number of the step is from 1 to 1000. Another i32 value without a limit is an error.
Status fillRandom(const Value &value, uint64_t seed, Tensor &tensor);

struct InputOptions {
  uint64_t seed = 0;
  /// Makes parameters and states that the files lack, although the files have others.
  bool allowMissing = false;
  /// Takes values of files that are NaN or infinite.
  bool allowNan = false;
  /// Whether the values are for a model to train: parameters with a first value in the plan get this value.
  bool isNew = false;
  /// Whether the number of the step is random. Otherwise it is 0, as in the first step.
  bool drawsStep = false;
  /// Names of arguments that get a value before each step.
  std::vector<std::string> givenLater = {};
};

/// Makes a value for each of `arguments`: from `loads`, which were opened for them, or by fillRandom. The f32 copy of a
/// parameter has the parameter's value. Files with some parameters must have all of them, and so must files with some
/// states of an optimizer. If there are files, writes to `log` which values are random or were missing, and which
/// tensors of checkpoints are unused.
Status makeInputs(const std::vector<Value> &arguments, Loads &loads, const InputOptions &options, std::ostream &log,
                  Tensors &inputs);
/// The same from the file that `load` names, unless it is empty.
Status makeInputs(const std::vector<Value> &arguments, const std::string &load, uint64_t seed, std::ostream &log,
                  Tensors &inputs);

/// Replaces the integers of `tensor` by random ids, for exact arithmetic. Half of all labels are masked, so that
/// masking matters.
Status fillIds(const Value &value, uint64_t seed, Tensor &tensor);

/// Makes the tokens of each sequence equal to its first one, except those of the last eighth.
void repeatFirst(const Value &value, Tensor &tensor);

/// Converts inputs for a plan that is run in the type `wide`: to the same numbers in f64, or to elements of the field
/// that `seed` draws for each name. The f32 copy of a parameter gets the parameter's. In exact arithmetic, ids are
/// those of fillIds; other integers stay.
Status widenInputs(moert_wide wide, const std::vector<Value> &arguments, uint64_t seed, Tensors &inputs);

} // namespace moert::run

#endif // MOERT_RUN_INPUTS_H
