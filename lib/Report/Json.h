//===- Json.h - parts of reports in JSON ------------------------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_JSON_H
#define MOE_LIB_REPORT_JSON_H

#include "moe/Report/SimOutput.h"

#include "llvm/Support/JSON.h"

namespace mlir::moe {

inline void writeText(llvm::json::OStream &json, llvm::StringRef key, llvm::StringRef text) {
  json.attribute(key, llvm::json::fixUTF8(text));
}

/// Writes a list of objects, whose attributes `write` writes.
template <class Elements, class Write>
void writeObjects(llvm::json::OStream &json, llvm::StringRef key, const Elements &elements, Write write) {
  json.attributeArray(key, [&] {
    for (const auto &element : elements)
      json.object([&] { write(json, element); });
  });
}

/// Writes the attributes of writeJson's object that the page has, too. They do not grow with ranks and launches.
void writeReportSums(llvm::json::OStream &json, const SimHeader &header, const SimResult &result,
                     const SimReport &report, const Comparison *comparison);
/// Writes the attributes of its "memory", without the points.
void writeMemorySums(llvm::json::OStream &json, const SimHeader &header, const SimResult &result,
                     const SimReport &report);

/// Writes `page`, an .html file of this folder, with an object in place of `{{data}}`, whose attributes `write` writes.
void writePage(llvm::StringRef page, llvm::function_ref<void(llvm::json::OStream &)> write, llvm::raw_ostream &os);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_JSON_H
