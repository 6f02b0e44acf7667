//===- Placement.cpp - placements by index notation -----------------------===//
#include "moe/Dialect/Moe/IR/Placement.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;
using Kind = Placement::Kind;

std::string Placement::describe() const {
  switch (kind) {
  case Kind::Replicated:
    return "one value that all members share";
  case Kind::Copies:
    return "equal copies";
  case Kind::Shard:
  case Kind::Part:
    return dim == kExperts  ? "parts by expert"
           : dim == kTokens ? "parts by token"
                            : "parts of dimension " + std::to_string(dim);
  case Kind::Partial:
    return "partial sums";
  case Kind::Terms:
    return "terms of sums, side by side";
  case Kind::Joined:
  case Kind::Unknown:
    return "values of which nothing is known";
  }
  llvm_unreachable("all kinds are handled");
}

namespace {

/// An operand or a result of a rule.
struct Term {
  enum Role { Factor, Addend, Nonlinear, Ignored } role = Factor;
  bool addsTerms = false; ///< `#`
  bool all = false;       ///< `*`
  bool nothing = false;   ///< `?`
  SmallVector<std::string, 4> dims;
  char without = 0; ///< the letter after `|`
  std::optional<unsigned> gradientOf;

  /// Letter of the dimension that `placement` divides. With `*` it is a number that stands for the dimension.
  std::optional<int> getLetter(unsigned dim) const;
  /// The dimension that `letter` stands for.
  std::optional<unsigned> getDim(int letter) const;
  bool has(int letter) const { return getDim(letter).has_value(); }
};

struct Rule {
  SmallVector<Term, 6> operands, results;
  bool dependsOnRank = false;
  llvm::SmallDenseSet<int, 4> whole; ///< letters that must not be divided
};

/// First number of dimensions among letters.
constexpr int kAllBase = 256;

} // namespace

std::optional<int> Term::getLetter(unsigned dim) const {
  if (all)
    return kAllBase + static_cast<int>(dim);
  if (dim == Placement::kExperts && without)
    return without;
  for (const std::string &letters : dims)
    if (letters.size() > 1 && (dim == Placement::kExperts || dim == Placement::kTokens))
      return letters[letters.size() - (dim == Placement::kExperts ? 2 : 1)];
  if (dim < dims.size() && dims[dim].size() != 2 && dims[dim] != ".")
    return dims[dim][0];
  return std::nullopt;
}

std::optional<unsigned> Term::getDim(int letter) const {
  if (all)
    return letter >= kAllBase ? std::optional<unsigned>(letter - kAllBase) : std::nullopt;
  for (auto [i, letters] : llvm::enumerate(dims)) {
    size_t place = letter < kAllBase ? letters.find(static_cast<char>(letter)) : std::string::npos;
    if (place != std::string::npos) {
      size_t behind = letters.size() - place;
      return letters.size() == 1 || behind == 3 ? i : behind == 2 ? Placement::kExperts : Placement::kTokens;
    }
  }
  return without && letter == without ? std::optional<unsigned>(Placement::kExperts) : std::nullopt;
}

static Term parseTerm(StringRef text, llvm::SmallDenseSet<int, 4> &whole) {
  Term term;
  text = text.trim();
  if (text.consume_front("_"))
    term.role = Term::Ignored;
  else if (text.consume_front("+"))
    term.role = Term::Addend;
  else if (text.consume_front("!"))
    term.role = Term::Nonlinear;
  else
    term.addsTerms = text.consume_front("#");
  auto [body, gradient] = text.split('~');
  unsigned number;
  if (!gradient.getAsInteger(10, number))
    term.gradientOf = number;
  term.all = body.consume_front("*");
  term.nothing = body.consume_front("?");
  bool inside = false;
  for (size_t i = 0; i < body.size(); ++i) {
    char c = body[i], letter = llvm::toLower(c);
    if (c == '(' || c == ')') {
      inside = c == '(';
      if (inside)
        term.dims.emplace_back();
      continue;
    }
    if (c == '|') {
      term.without = body[++i];
      continue;
    }
    if (letter != c)
      whole.insert(letter);
    if (inside)
      term.dims.back() += letter;
    else
      term.dims.push_back(std::string(1, letter));
  }
  return term;
}

static Rule parseRule(StringRef text) {
  Rule rule;
  rule.dependsOnRank = text.consume_front("@");
  auto [operands, results] = text.split("->");
  auto parse = [&](StringRef list, SmallVectorImpl<Term> &terms) {
    SmallVector<StringRef> parts;
    list.split(parts, ',');
    for (StringRef part : parts)
      terms.push_back(parseTerm(part, rule.whole));
  };
  if (!operands.trim().empty() || operands.contains(','))
    parse(operands, rule.operands);
  parse(results, rule.results);
  return rule;
}

/// Whether `term` has as many dimensions as `value`, if it names any.
static bool hasDimsOf(const Term &term, Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return term.role == Term::Ignored || term.all || term.nothing || !type ||
         static_cast<size_t>(type.getRank()) == term.dims.size();
}

static bool fits(const Rule &rule, Operation *op) {
  auto haveDimsOf = [](ArrayRef<Term> terms, ValueRange values) {
    return terms.size() == values.size() && llvm::all_of_zip(terms, values, hasDimsOf);
  };
  return haveDimsOf(rule.operands, op->getOperands()) && haveDimsOf(rule.results, op->getResults()) &&
         llvm::all_of(rule.results, [&](const Term &term) {
           return term.gradientOf.value_or(0) < std::max<size_t>(rule.operands.size(), 1);
         });
}

/// The rule of `op`. Fails with an error if `text` is no rule.
static FailureOr<Rule> getRule(Operation *op, StringRef text) {
  Rule rule = parseRule(text);
  if (!fits(rule, op))
    return op->emitOpError() << "expected an index rule of " << op->getNumOperands() << " operands and "
                             << op->getNumResults() << " results with their dimensions but got '" << text
                             << "'; correct its getIndexRule";
  return rule;
}

LogicalResult mlir::moe::verifyIndexRule(Operation *op, StringRef text) {
  return text.empty() ? success() : LogicalResult(getRule(op, text));
}

namespace {

/// A rule applied to operands along one axis.
class Inference {
public:
  Inference(const AxisPlacements &along, const Rule &rule) : along(along), operands(along.operands), rule(rule) {}

  LogicalResult run(SmallVectorImpl<Placement> &results);

private:
  LogicalResult visitOperands();
  FailureOr<Placement> getResult(const Term &result) const;
  /// Placement of the product of the factors, by the dimensions of `result`.
  Placement getProduct(const Term &result) const;
  Placement moveTo(const Term &result, Placement placement) const;
  FailureOr<Placement> addTerms(Placement sum, const Term &result) const;
  InFlightDiagnostic fail(const Twine &what) const;

  const AxisPlacements &along;
  ArrayRef<Placement> operands;
  const Rule &rule;
  bool unknown = false, hasFactor = false;
  unsigned partialFactors = 0;
  std::optional<int> letter; ///< letter that is divided over the axis
};

} // namespace

InFlightDiagnostic Inference::fail(const Twine &what) const {
  return along.op->emitOpError() << "expected whole values but " << what << "; a sum over "
                                 << along.axes.describe(along.axis) << " is missing";
}

LogicalResult Inference::visitOperands() {
  for (auto [number, term, placement] : llvm::enumerate(rule.operands, operands)) {
    if (term.role == Term::Ignored)
      continue;
    hasFactor |= term.role != Term::Addend;
    bool hasTerms = placement.is(Kind::Terms);
    if (placement.is(Kind::Unknown) || (hasTerms && !term.addsTerms)) {
      unknown = true;
    } else if (placement.is(Kind::Partial)) {
      if (term.role == Term::Nonlinear)
        return fail("operand #" + Twine(number) + " holds partial sums, and the op is not linear in it");
      partialFactors += term.role == Term::Factor;
    } else if (placement.is(Kind::Shard) || hasTerms) {
      std::optional<int> own = term.getLetter(placement.dim);
      unknown |= !own || (letter && *letter != *own);
      letter = own;
    }
  }
  if (partialFactors > 1)
    return fail("two operands that are multiplied hold partial sums");
  return success();
}

Placement Inference::getProduct(const Term &result) const {
  if (partialFactors > 0)
    return {letter ? Kind::Unknown : Kind::Partial};
  if (!letter)
    return {rule.dependsOnRank ? Kind::Unknown : Kind::Copies};
  if (rule.whole.contains(*letter))
    return {Kind::Unknown};
  std::optional<unsigned> dim = result.getDim(*letter);
  bool ofCopies = result.gradientOf && operands[*result.gradientOf].is(Kind::Copies);
  return !dim || ofCopies ? Placement{Kind::Partial} : Placement::shard(*dim);
}

/// Placement of an operand, by the dimensions of `result`.
Placement Inference::moveTo(const Term &result, Placement placement) const {
  if (placement.is(Kind::Replicated))
    return {Kind::Copies};
  if (!placement.is(Kind::Shard) || !letter)
    return placement;
  std::optional<unsigned> dim = result.getDim(*letter);
  return dim ? Placement::shard(*dim) : Placement{Kind::Partial};
}

/// Adds the addends to `sum`, the product of the factors if there are any.
FailureOr<Placement> Inference::addTerms(Placement sum, const Term &result) const {
  bool begun = hasFactor;
  for (auto [number, term, placement] : llvm::enumerate(rule.operands, operands)) {
    if (term.role != Term::Addend)
      continue;
    Placement own = moveTo(result, placement);
    if (!begun)
      sum = own;
    else if ((sum.is(Kind::Partial) && own.is(Kind::Copies)) || (sum.is(Kind::Copies) && own.is(Kind::Partial)))
      return fail("operand #" + Twine(number) + ", " + own.describe() + ", is added to " + sum.describe());
    else if (own.is(Kind::Copies) || sum.is(Kind::Copies)) // every part has the copy added
      sum = own.is(Kind::Copies) ? sum : own;
    else if (own != sum)
      sum = {Kind::Unknown};
    begun = true;
  }
  return sum;
}

FailureOr<Placement> Inference::getResult(const Term &result) const {
  if (result.nothing)
    return Placement{letter || partialFactors || rule.dependsOnRank ? Kind::Unknown : Kind::Copies};
  return addTerms(getProduct(result), result);
}

LogicalResult Inference::run(SmallVectorImpl<Placement> &results) {
  if (failed(visitOperands()))
    return failure();
  for (const Term &result : rule.results) {
    FailureOr<Placement> placement = unknown ? Placement{Kind::Unknown} : getResult(result);
    if (failed(placement))
      return failure();
    results.push_back(*placement);
  }
  return success();
}

LogicalResult AxisPlacements::inferByRule(StringRef text, SmallVectorImpl<Placement> &results) const {
  if (text.empty()) {
    results.assign(op->getNumResults(), {Kind::Unknown});
    return success();
  }
  FailureOr<Rule> rule = getRule(op, text);
  return failed(rule) ? failure() : Inference(*this, *rule).run(results);
}
