//===- Train.h - moe-run --train --------------------------------*- C++ -*-===//
#ifndef MOERT_RUN_TRAIN_H
#define MOERT_RUN_TRAIN_H

#include "run/Options.h"

#include <ostream>

namespace moert::run {

/// Trains the plan's model on the tokens of `options.train.data`. It starts from an existing checkpoint, from
/// `options.loads` or from random parameters. Writes a line for each step to `out`, or one JSON object at the end, and
/// reports on `err` where it began.
Status train(const Options &options, std::ostream &out, std::ostream &err);

} // namespace moert::run

#endif // MOERT_RUN_TRAIN_H
