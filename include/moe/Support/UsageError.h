//===- UsageError.h - errors without a place --------------------*- C++ -*-===//
#ifndef MOE_SUPPORT_USAGEERROR_H
#define MOE_SUPPORT_USAGEERROR_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"

namespace mlir::moe {

/// Begins an error about options or files, which has no place in a module.
inline InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }
inline InFlightDiagnostic emitUsageError(MLIRContext &context) { return emitUsageError(&context); }

/// Hides diagnostics, and stores the first error in `reason`, unless it has one.
class FirstErrorHandler : public ScopedDiagnosticHandler {
public:
  FirstErrorHandler(MLIRContext *context, std::string &reason)
      : ScopedDiagnosticHandler(context, [&reason](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && reason.empty())
            reason = diagnostic.str();
          return success();
        }) {}
};

} // namespace mlir::moe

#endif // MOE_SUPPORT_USAGEERROR_H
