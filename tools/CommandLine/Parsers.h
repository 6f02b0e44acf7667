//===- Parsers.h - values of options, with errors that help -----*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_PARSERS_H
#define MOE_TOOLS_COMMANDLINE_PARSERS_H

#include "mlir/IR/MLIRContext.h"
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
  static constexpr StringLiteral kName = "bytes";
  int64_t number = 0;
  /// Returns the mistake in `text`; empty if there is none.
  std::string parse(StringRef text);
};

/// The value of an option that takes a number from 1 on, or `none`, which is infinity.
struct Bound {
  static constexpr StringLiteral kName = "number|none";
  double number = HUGE_VAL;
  std::string parse(StringRef text);
};

} // namespace mlir::moe

/// Parser of such values.
template <class T>
  requires requires(T value) { value.parse(llvm::StringRef()); }
class llvm::cl::parser<T> : public llvm::cl::basic_parser<T> {
public:
  using basic_parser<T>::basic_parser;

  bool parse(Option &option, StringRef, StringRef text, T &value) {
    std::string mistake = value.parse(text);
    return !mistake.empty() && option.error(mistake);
  }
  StringRef getValueName() const override { return T::kName; }
  void printOptionDiff(const Option &option, const T &value, const OptionValue<T> &, size_t width) const {
    this->printOptionName(option, width);
    outs() << "= " << value.number << "\n";
  }
};

#endif // MOE_TOOLS_COMMANDLINE_PARSERS_H
