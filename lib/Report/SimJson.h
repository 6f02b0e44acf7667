//===- SimJson.h - the JSON object of a step --------------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_SIMJSON_H
#define MOE_LIB_REPORT_SIMJSON_H

#include "moe/Report/SimOutput.h"

#include "llvm/Support/JSON.h"

namespace mlir::moe {

/// Writes the attributes of writeJson's object that the page has, too: those that do not grow with the number of ranks
/// and launches.
void writeReportSums(llvm::json::OStream &json, const SimHeader &header, const SimResult &result,
                     const SimReport &report, const Comparison *comparison);
/// Writes the attributes of its "memory", without the points.
void writeMemorySums(llvm::json::OStream &json, const SimHeader &header, const SimResult &result,
                     const SimReport &report);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_SIMJSON_H
