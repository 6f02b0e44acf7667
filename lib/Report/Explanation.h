//===- Explanation.h - reads why a schedule was taken -----------*- C++ -*-===//
#ifndef MOE_LIB_REPORT_EXPLANATION_H
#define MOE_LIB_REPORT_EXPLANATION_H

#include "mlir/IR/BuiltinAttributes.h"

#include "moe/Report/Explanations.h"

namespace mlir::moe {

/// Whether predictions decide, or measurements have to, by what addMargin has added.
void printMargin(DictionaryAttr explanation, llvm::raw_ostream &os);
/// The names of what is as good as the choice, as far as the profile can tell.
SmallVector<StringRef> getClose(DictionaryAttr explanation);

/// A candidate in the module; what is not there is 0 or empty.
class ExplainedCandidate {
public:
  explicit ExplainedCandidate(DictionaryAttr fields) : fields(fields) {}
  StringRef getText(StringRef name) const {
    auto text = fields.getAs<StringAttr>(name);
    return text ? text.getValue() : "";
  }
  double getNumber(StringRef name) const {
    if (auto integer = fields.getAs<IntegerAttr>(name))
      return static_cast<double>(integer.getInt());
    auto number = fields.getAs<FloatAttr>(name);
    return number ? number.getValueAsDouble() : 0;
  }
  bool is(StringRef verdict) const { return getText("verdict") == verdict; }
  bool isSimulated() const { return getNumber("seconds") > 0; }

private:
  DictionaryAttr fields;
};
SmallVector<ExplainedCandidate> getCandidates(DictionaryAttr explanation);
/// Those with a time, the fastest first.
SmallVector<ExplainedCandidate> sortSimulated(ArrayRef<ExplainedCandidate> candidates);

} // namespace mlir::moe

#endif // MOE_LIB_REPORT_EXPLANATION_H
