//===- SimJson.h - the JSON object of a step --------------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_SIMJSON_H
#define MOE_LIB_REPORT_SIMJSON_H

#include "moe/Report/SimOutput.h"

#include "llvm/Support/JSON.h"

namespace mlir::moe {

/// Writes the object of writeJson as a value of `json`; the page holds it too.
void writeReportObject(llvm::json::OStream &json, const SimHeader &header, const SimResult &result,
                       const SimReport &report, const Comparison *comparison);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_SIMJSON_H
