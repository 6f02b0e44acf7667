//===- Explain.h - why a schedule was taken ---------------------*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_EXPLAIN_H
#define MOE_LIB_COMPILER_EXPLAIN_H

#include "moe/Compiler/AutoSchedule.h"

namespace mlir::moe {

/// What kExplainAttrName holds.
DictionaryAttr getExplanation(const AutoResult &result, MLIRContext *context);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_EXPLAIN_H
