//===- Diagnose.h - what is wrong with a result that is not exact ----------===//
#ifndef MOERT_RUN_DIAGNOSE_H
#define MOERT_RUN_DIAGNOSE_H

#include "core/Field.h"
#include "run/Runner.h"

namespace moert::run {

/// What makes a result, of elements of a field, differ from the reference's, as far as its elements tell it: that it is
/// a multiple, or that a sum over a group is missing. Such as "it lacks a sum over group 'mp'"; empty where they do
/// not.
std::string diagnose(const Plan &plan, const RunResult &result, const RunResult &reference, const std::string &name);

/// "3/4", for a fraction of small numbers; else empty.
std::string fractionText(Field factor);
/// "group 'mp' (or 'ep')".
std::string groupText(const std::vector<std::string> &names);

} // namespace moert::run

#endif // MOERT_RUN_DIAGNOSE_H
