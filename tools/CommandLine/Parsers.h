//===- Parsers.h - values of options, with errors that help -----*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_PARSERS_H
#define MOE_TOOLS_COMMANDLINE_PARSERS_H

#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/CommandLine.h"

#include <cmath>
#include <string>

namespace mlir::moe {

/// "expected a, b or c but got 'd'; did you mean 'a'?"
std::string describeUnknownName(StringRef given, ArrayRef<StringRef> known);

/// Reports that the value of `option` is none of the `known` ones, with the nearest of them.
LogicalResult reportUnknownName(MLIRContext &context, const llvm::cl::opt<std::string> &option,
                                ArrayRef<StringRef> known);

/// Gives an option a value as if it stood on the command line, unless it does.
void setDefault(StringRef name, const llvm::Twine &value);
/// Whether an option was given, or has been set.
bool isGiven(StringRef name);

/// Parser of an option with llvm::cl::values.
template <class T> class NameParser : public llvm::cl::parser<T> {
public:
  using llvm::cl::parser<T>::parser;

  bool parse(llvm::cl::Option &option, StringRef name, StringRef text, T &value) {
    SmallVector<StringRef> known;
    for (unsigned index = 0; index < this->getNumOptions(); ++index)
      known.push_back(this->getOption(index));
    if (!llvm::is_contained(known, text))
      return option.error(describeUnknownName(text, known));
    return llvm::cl::parser<T>::parse(option, name, text, value);
  }
};

/// The value of an option that takes bytes (parseByteSize).
struct Bytes {
  int64_t count = 0;
};

/// The value of an option that takes a number from 1 on, or `none`, which is infinity.
struct Bound {
  double factor = HUGE_VAL;
};

} // namespace mlir::moe

namespace llvm::cl {

template <> class parser<mlir::moe::Bytes> : public basic_parser<mlir::moe::Bytes> {
public:
  using basic_parser::basic_parser;

  bool parse(Option &option, StringRef name, StringRef text, mlir::moe::Bytes &bytes);
  StringRef getValueName() const override { return "bytes"; }
  void printOptionDiff(const Option &option, const mlir::moe::Bytes &bytes, const OptVal &otherwise,
                       size_t width) const;
};

template <> class parser<mlir::moe::Bound> : public basic_parser<mlir::moe::Bound> {
public:
  using basic_parser::basic_parser;

  bool parse(Option &option, StringRef name, StringRef text, mlir::moe::Bound &bound);
  StringRef getValueName() const override { return "number|none"; }
  void printOptionDiff(const Option &option, const mlir::moe::Bound &bound, const OptVal &otherwise,
                       size_t width) const;
};

} // namespace llvm::cl

#endif // MOE_TOOLS_COMMANDLINE_PARSERS_H
