//===- SimOutput.h - a simulation as text, JSON, trace and page -*- C++ -*-===//
#ifndef MOE_REPORT_SIMOUTPUT_H
#define MOE_REPORT_SIMOUTPUT_H

#include "moe/Report/Compare.h"
#include "moe/Simulator/Report.h"

namespace mlir::moe {

/// Prints a table that fits a terminal of 80 columns.
void printText(const SimHeader &header, const SimResult &result, const SimReport &report, llvm::raw_ostream &os);
void printComparison(const Comparison &comparison, llvm::raw_ostream &os);
/// Writes one object, which docs/Outputs.md describes. `comparison` may be null.
void writeJson(const SimHeader &header, const SimResult &result, const SimReport &report, const Comparison *comparison,
               llvm::raw_ostream &os);
/// Writes a trace for Chrome and Perfetto, in the form that moe-run writes, with one process for each simulated rank.
void writeTrace(const SimResult &result, llvm::raw_ostream &os);

/// Reads a trace that moe-run wrote. An error is a complete diagnostic, `file:line:column: error: 'key': expected ..
/// but got ..`.
llvm::Expected<std::vector<MeasuredOp>> loadTrace(llvm::StringRef path);
/// Reads a trace from the file's content.
llvm::Expected<std::vector<MeasuredOp>> parseTrace(llvm::StringRef text, llvm::StringRef fileName);

/// Writes one page without any reference to the network: timeline of all ranks, memory, roofline, tables. `measured`
/// may be empty and `comparison` null. The measured lanes lie below the predicted ones. `command` is the command line
/// that asked for the page.
void writeHtml(llvm::StringRef command, const SimHeader &header, const SimResult &result, const SimReport &report,
               llvm::ArrayRef<MeasuredOp> measured, const Comparison *comparison, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_REPORT_SIMOUTPUT_H
