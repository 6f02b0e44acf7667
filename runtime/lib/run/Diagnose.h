//===- Diagnose.h - what is wrong with a result that is not exact ----------===//
#ifndef MOERT_RUN_DIAGNOSE_H
#define MOERT_RUN_DIAGNOSE_H

#include "core/Field.h"
#include "run/Runner.h"

namespace moert::run {

/// Cause of the difference between a result and the reference's, as far as the field elements show it: a factor, or a
/// missing sum over a group. For example "it lacks a sum over group 'mp'"; empty if they show none.
std::string diagnose(const Plan &plan, const RunResult &result, const RunResult &reference, const std::string &name);

/// Text of a fraction of small numbers, "3/4"; empty for other elements.
std::string fractionText(Field factor);
/// Text of groups, "group 'mp' (or 'ep')".
std::string groupText(const std::vector<std::string> &names);

} // namespace moert::run

#endif // MOERT_RUN_DIAGNOSE_H
