//===- Train.h - moe-run --train --------------------------------*- C++ -*-===//
#ifndef MOERT_RUN_TRAIN_H
#define MOERT_RUN_TRAIN_H

#include "run/Options.h"

#include <ostream>

namespace moert::run {

/// Trains the plan's model on the tokens of `options.train.data`, step after step, from `options.load`, a checkpoint
/// that is there already, or random parameters. Writes a line a step on `out`, or one JSON object at the end, and says
/// on `err` where it began.
Status train(const Options &options, std::ostream &out, std::ostream &err);

/// The learning rate of step `step`: it rises to options.rate over the warm-up, then falls to options.finalRate, as a
/// half wave of the cosine, at the last step.
double learningRate(const TrainOptions &options, int64_t step);

} // namespace moert::run

#endif // MOERT_RUN_TRAIN_H
