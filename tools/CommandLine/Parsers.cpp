//===- Parsers.cpp - values of options, with errors that help -------------===//
#include "Parsers.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include "moe/Support/Text.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

/// "a", "a or b", "a, b or c".
static std::string joinNames(ArrayRef<StringRef> names) {
  if (names.size() < 2)
    return llvm::join(names, "");
  return llvm::join(names.drop_back(), ", ") + " or " + names.back().str();
}

std::string mlir::moe::describeUnknownName(StringRef given, ArrayRef<StringRef> known) {
  return ("expected " + joinNames(known) + " but got '" + given + "'" + suggestName(given, known)).str();
}

LogicalResult mlir::moe::reportUnknownName(MLIRContext &context, const cl::opt<std::string> &option,
                                           ArrayRef<StringRef> known) {
  return emitError(UnknownLoc::get(&context)) << "expected --" << option.ArgStr << " to be " << joinNames(known)
                                              << " but got '" << option << "'" << suggestName(option, known);
}

void mlir::moe::setDefault(StringRef name, const llvm::Twine &value) {
  cl::Option *option = cl::getRegisteredOptions().lookup(name);
  assert(option && "all tools that compile have the option");
  // The option keeps what it parses, and not the text.
  llvm::SmallString<16> text;
  if (!option->getNumOccurrences())
    option->addOccurrence(/*pos=*/0, name, value.toStringRef(text));
}

bool mlir::moe::isGiven(StringRef name) { return cl::getRegisteredOptions().lookup(name)->getNumOccurrences() > 0; }

std::string Bytes::parse(StringRef text) {
  llvm::Expected<int64_t> parsed = parseByteSize(text);
  if (!parsed)
    return llvm::toString(parsed.takeError());
  number = *parsed;
  return "";
}

std::string Bound::parse(StringRef text) {
  if (text == "none")
    number = HUGE_VAL;
  else if (text.getAsDouble(number) || !std::isfinite(number))
    return ("expected a number of at least 1, or none, but got '" + text + "'").str();
  return "";
}
