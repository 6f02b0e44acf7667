//===- Page.h - a page with data in it --------------------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_PAGE_H
#define MOE_LIB_REPORT_PAGE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

namespace mlir::moe {

/// Writes `page`, an .html file of this folder, with the JSON value of `writeData` in place of `{{data}}`.
void writePage(llvm::StringRef page, llvm::function_ref<void(llvm::json::OStream &)> writeData, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_PAGE_H
