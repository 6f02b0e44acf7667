//===- PlanDialect.cpp - the plan dialect ---------------------------------===//
#include "moe/Dialect/Plan/IR/PlanDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Support/Text.h"

#include <cmath>

using namespace mlir;
using namespace mlir::plan;

#include "moe/Dialect/Plan/IR/PlanDialect.cpp.inc"
#include "moe/Dialect/Plan/IR/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "moe/Dialect/Plan/IR/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "moe/Dialect/Plan/IR/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "moe/Dialect/Plan/IR/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "moe/Dialect/Plan/IR/PlanOps.cpp.inc"
      >();
}

bool mlir::plan::isBufferType(MemRefType type) {
  Type element = type.getElementType();
  return type.hasStaticShape() && type.getLayout().isIdentity() && type.getRank() <= 4 &&
         (element.isF32() || element.isF64() || element.isBF16() || element.isF16() || element.isSignlessInteger(32)) &&
         moe::getCheckedByteSize(type);
}

int64_t mlir::plan::getByteSize(MemRefType type) { return *moe::getCheckedByteSize(type); }

//===----------------------------------------------------------------------===//
// CostAttr
//===----------------------------------------------------------------------===//

namespace {
/// Integer fields of a cost by their keys, in the order in which they are printed.
struct CostField {
  StringLiteral key;
  int64_t moe::OpCost::*member;
  /// Value of a field that is left out.
  int64_t absent;
};
} // namespace

static constexpr CostField costFields[] = {
    {"read", &moe::OpCost::bytesRead, 0},  {"written", &moe::OpCost::bytesWritten, 0},
    {"payload", &moe::OpCost::payload, 0}, {"root", &moe::OpCost::root, 0},
    {"rows", &moe::OpCost::raggedRows, 0}, {"counts", &moe::OpCost::countsInput, -1},
    {"peers", &moe::OpCost::peerDim, -1},  {"copies", &moe::OpCost::copies, 1},
};

/// Parses `= [a, b, ..]`. `expected` describes the list in errors.
static ParseResult parseNumbers(AsmParser &parser, StringRef expected, ArrayRef<int64_t *> numbers) {
  SmallVector<int64_t, 4> sizes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseEqual() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                                            [&] { return parser.parseInteger(sizes.emplace_back()); }))
    return failure();
  if (sizes.size() != numbers.size())
    return parser.emitError(loc) << "expected " << expected;
  for (auto [number, size] : llvm::zip_equal(numbers, sizes))
    *number = size;
  return success();
}

/// Parses the name of one of an enum's values. `expected` describes it in errors.
template <class Enum>
static ParseResult parseName(AsmParser &parser, StringRef expected, std::optional<Enum> (*find)(StringRef),
                             Enum &value) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<Enum> found = find(name);
  if (!found)
    return parser.emitError(loc) << "expected " << expected << " but got '" << name << "'";
  value = *found;
  return success();
}

static ParseResult parseCostField(AsmParser &parser, moe::OpCost &cost) {
  StringRef key;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&key))
    return failure();
  if (key == "flops")
    return failure(parser.parseEqual() || parser.parseFloat(cost.flops));
  if (key == "gemm")
    return parseNumbers(parser, "gemm = [groups, rows, columns, depth]",
                        {&cost.gemm.groups, &cost.gemm.rows, &cost.gemm.columns, &cost.gemm.depth});
  if (key == "attention")
    return parseNumbers(parser, "attention = [columns of a head, products]",
                        {&cost.attention.headColumns, &cost.attention.products});
  if (key == "collective")
    return failure(parser.parseEqual() || parseName(parser, "a collective", moe::parseCollective, cost.collective));
  if (key == "phase")
    return parseNumbers(parser, "phase = [number, phases]", {&cost.phase, &cost.phases});
  if (key == "ragged_depth") {
    cost.raggedDepth = true;
    return success();
  }
  const CostField *field = llvm::find_if(costFields, [&](const CostField &field) { return field.key == key; });
  if (field == std::end(costFields))
    return parser.emitError(loc) << "expected a part of a cost but got '" << key << "'";
  return failure(parser.parseEqual() || parser.parseInteger(cost.*field->member));
}

Attribute CostAttr::parse(AsmParser &parser, Type) {
  moe::OpCost cost;
  if (parser.parseLess() || parseName(parser, "a resource", moe::parseResource, cost.resource))
    return {};
  while (succeeded(parser.parseOptionalComma()))
    if (parseCostField(parser, cost))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<CostAttr>(parser.getContext(), cost);
}

void CostAttr::print(AsmPrinter &printer) const {
  const moe::OpCost &cost = getCost();
  printer << "<" << moe::getName(cost.resource);
  if (cost.flops != 0)
    printer << ", flops = " << moe::getFloatLiteral(cost.flops);
  auto print = [&](const CostField &field) {
    if (cost.*field.member != field.absent)
      printer << ", " << field.key << " = " << cost.*field.member;
  };
  ArrayRef<CostField> fields(costFields);
  llvm::for_each(fields.take_front(2), print);
  if (cost.gemm != moe::GemmShape())
    printer << ", gemm = [" << cost.gemm.groups << ", " << cost.gemm.rows << ", " << cost.gemm.columns << ", "
            << cost.gemm.depth << "]";
  if (cost.raggedDepth)
    printer << ", ragged_depth";
  if (cost.attention != moe::AttentionShape())
    printer << ", attention = [" << cost.attention.headColumns << ", " << cost.attention.products << "]";
  if (cost.collective != moe::Collective::None)
    printer << ", collective = " << moe::getName(cost.collective);
  llvm::for_each(fields.drop_front(2), print);
  if (cost.phases != 1)
    printer << ", phase = [" << cost.phase << ", " << cost.phases << "]";
  printer << ">";
}

static LogicalResult verifyPhase(function_ref<InFlightDiagnostic()> emitError, const moe::OpCost &cost) {
  if (cost.phases < 1 || cost.phase < 0 || cost.phase >= cost.phases)
    return emitError() << "expected phase = [number, phases] with 0 <= number < phases but got [" << cost.phase << ", "
                       << cost.phases << "]";
  if (cost.phases > 1 && cost.collective != moe::Collective::AllToAll)
    return emitError() << "expected phases of an all_to_all, and of nothing else";
  return success();
}

LogicalResult CostAttr::verify(function_ref<InFlightDiagnostic()> emitError, moe::OpCost cost) {
  if (cost.copies < 1)
    return emitError() << "expected copies to be at least 1 but got " << cost.copies;
  bool negative = llvm::any_of(costFields, [&](const CostField &field) { return cost.*field.member < field.absent; });
  negative |= std::min({cost.gemm.groups, cost.gemm.rows, cost.gemm.columns, cost.gemm.depth}) < 0;
  if (negative || !std::isfinite(cost.flops) || cost.flops < 0)
    return emitError() << "expected costs to be finite and not negative";
  if (std::min(cost.attention.headColumns, cost.attention.products) < 0 ||
      (cost.attention.headColumns > 0) != (cost.attention.products > 0))
    return emitError() << "expected attention = [columns of a head, products], both positive";
  if ((cost.raggedRows > 0) != (cost.countsInput >= 0))
    return emitError() << "expected rows and counts together";
  if (cost.peerDim > 1)
    return emitError() << "expected peers to be 0 or 1 but got " << cost.peerDim;
  if ((cost.collective != moe::Collective::None) != (cost.resource == moe::Resource::Network))
    return emitError() << "expected a collective with the resource network, and only with it";
  if (cost.copies > 1 && cost.collective != moe::Collective::AllToAll)
    return emitError() << "expected copies of an all_to_all only but got " << cost.copies;
  return verifyPhase(emitError, cost);
}

//===----------------------------------------------------------------------===//
// CountsAttr
//===----------------------------------------------------------------------===//

namespace {
/// Parses `, key = value` for each field, in the rule's order.
struct RuleParser {
  AsmParser &parser;
  bool failed = false;

  void input(StringRef key, int64_t &value) {
    parse(key, [&] { return parser.parseInteger(value); });
  }
  void integer(StringRef key, int64_t &value, int64_t, int64_t) { input(key, value); }
  void real(StringRef key, double &value) {
    parse(key, [&] { return parser.parseFloat(value); });
  }

private:
  void parse(StringRef key, function_ref<ParseResult()> parseValue) {
    if (failed)
      return;
    SMLoc loc = parser.getCurrentLocation();
    failed = parser.parseOptionalComma() || parser.parseOptionalKeyword(key);
    if (failed)
      parser.emitError(loc) << "expected ', " << key << " = ..' in a rule for counts";
    else
      failed = parser.parseEqual() || parseValue();
  }
};

struct RulePrinter {
  AsmPrinter &printer;

  void input(StringRef key, int64_t value) { printer << ", " << key << " = " << value; }
  void integer(StringRef key, int64_t value, int64_t, int64_t) { input(key, value); }
  void real(StringRef key, double value) { printer << ", " << key << " = " << moe::getFloatLiteral(value); }
};
} // namespace

Attribute CountsAttr::parse(AsmParser &parser, Type) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&name))
    return {};
  std::optional<moe::CountsRule> rule = moe::CountsRule::create(name);
  if (!rule) {
    parser.emitError(loc) << "expected a rule for counts, one of " << moe::CountsRule::getNames() << ", but got '"
                          << name << "'";
    return {};
  }
  RuleParser fields{parser};
  fields.input("output", rule->output);
  std::visit([&](auto &how) { moe::counts::visit(how, fields); }, rule->how);
  if (fields.failed || parser.parseGreater())
    return {};
  return parser.getChecked<CountsAttr>(parser.getContext(), *rule);
}

void CountsAttr::print(AsmPrinter &printer) const {
  const moe::CountsRule &rule = getRule();
  printer << "<" << rule.getName();
  RulePrinter fields{printer};
  fields.input("output", rule.output);
  std::visit([&](const auto &how) { moe::counts::visit(how, fields); }, rule.how);
  printer << ">";
}

LogicalResult CountsAttr::verify(function_ref<InFlightDiagnostic()> emitError, moe::CountsRule rule) {
  if (std::string error = rule.getError(); !error.empty())
    return emitError() << error;
  return success();
}

//===----------------------------------------------------------------------===//
// BufferOp
//===----------------------------------------------------------------------===//

LogicalResult BufferOp::verify() {
  MemRefType type = getType();
  if (!isBufferType(type)) // (C1)
    return emitOpError("expected ") << kBufferTypes << " but got " << type;
  if (!isa_and_nonnull<SpaceAttr>(type.getMemorySpace())) // (C1)
    return emitOpError("expected the memory space to be #plan<space device> or #plan<space host_pinned> but got ")
           << type;
  if (getOffset().value_or(0) > kMaxArenaBytes) // (C2)
    return emitOpError("expected an offset of at most 2^62 but got ") << *getOffset();
  return success();
}

//===----------------------------------------------------------------------===//
// ViewOp
//===----------------------------------------------------------------------===//

Value mlir::plan::getMemory(Value value) {
  while (auto view = value.getDefiningOp<ViewOp>())
    value = view.getSource();
  return value;
}

static void addLaunches(Value value, SmallVectorImpl<LaunchOp> &launches) {
  for (Operation *user : value.getUsers()) {
    if (auto view = dyn_cast<ViewOp>(user))
      addLaunches(view.getResult(), launches);
    else
      launches.push_back(cast<LaunchOp>(user));
  }
}

SmallVector<LaunchOp> mlir::plan::getLaunches(BufferOp buffer) {
  SmallVector<LaunchOp> launches;
  addLaunches(buffer.getMemref(), launches);
  return launches;
}

void ViewOp::build(OpBuilder &builder, OperationState &state, Value source, moe::RankPart part, MemRefType type) {
  IntegerAttr at = part.at ? builder.getI64IntegerAttr(*part.at) : IntegerAttr();
  build(builder, state, type, source, part.shift, part.parts, part.group, /*step=*/IntegerAttr(), at);
}

/// Verifies (C5).
static LogicalResult verifyPiece(ViewOp view) {
  MemRefType type = view.getSource().getType(), result = view.getType();
  if (view.getParts() != 1 || view.getGroup() || view.getStep())
    return view.emitOpError("expected a piece to have no part, group or step");
  if (!isBufferType(type) || !isBufferType(result) || type.getRank() != 1 ||
      type.getElementType() != result.getElementType() || type.getMemorySpace() != result.getMemorySpace())
    return view.emitOpError("expected a piece of a 1-D source, of its element type and in its memory space, but got ")
           << result << " of " << type;
  int64_t most = type.getNumElements() - result.getNumElements(), at = *view.getAt();
  if (at > most)
    return view.emitOpError("expected a piece of ") << result.getNumElements() << " elements to end in the source's "
                                                    << type.getNumElements() << " elements but got one at " << at;
  return success();
}

LogicalResult ViewOp::verify() {
  Operation *source = getSource().getDefiningOp();
  auto sourceView = dyn_cast_or_null<ViewOp>(source);
  if (source && !isa<BufferOp>(source) && !(sourceView && !sourceView.getGroup())) // (C1)
    return emitOpError("expected a view of a plan.buffer, an argument or a view without a group");
  if (getAt())
    return verifyPiece(*this);
  int64_t parts = getParts(), shift = getShift();
  if (parts < 1 || shift < 0 || shift >= parts) // (C2)
    return emitOpError("expected a part below ") << parts << ", the number of parts, but got part " << shift;
  if (getGroup() && getGroup()->getSize() % parts != 0) // (C2)
    return emitOpError("expected parts to divide the group's size ") << getGroup()->getSize() << " but got " << parts;
  if (getStep() && (*getStep() < 0 || getGroup())) // (C4)
    return emitOpError("expected a view that moves to have no group, and not to go backwards");
  MemRefType type = getSource().getType(), result = getType();
  SmallVector<int64_t> shape(type.getShape());
  if (!isBufferType(type) || shape.empty() || shape[0] % parts != 0) // (C3)
    return emitOpError("expected a source with a dimension 0 divisible by ") << parts << " but got " << type;
  shape[0] /= parts;
  bool dropsIt = shape[0] == 1 && result.getRank() == type.getRank() - 1;
  if (auto expected = MemRefType::get(ArrayRef(shape).drop_front(dropsIt), type.getElementType(),
                                      MemRefLayoutAttrInterface(), type.getMemorySpace());
      result != expected) // (C3)
    return emitOpError("expected the result to be ") << expected << " but got " << result;
  return success();
}

int64_t ViewOp::getPart(int64_t rank, int64_t iteration) {
  moe::GroupAttr group = getGroupAttr();
  int64_t moved =
      group ? rank / (group.getStride() * (group.getSize() / getParts())) : getStep().value_or(0) * iteration;
  return (getShift() + moved) % getParts();
}

int64_t ViewOp::getOwnOffset(int64_t rank, int64_t iteration) {
  if (std::optional<int64_t> at = getAt())
    return *at * (getType().getElementTypeBitWidth() / 8);
  return getPart(rank, iteration) * getByteSize(getType());
}

int64_t ViewOp::getByteOffset(int64_t rank, int64_t iteration) {
  int64_t offset = getOwnOffset(rank, iteration);
  auto source = getSource().getDefiningOp<ViewOp>();
  return source ? offset + source.getByteOffset(rank, iteration) : offset;
}

//===----------------------------------------------------------------------===//
// RecordOp and WaitOp
//===----------------------------------------------------------------------===//

/// Limit of Plan_Event.
static constexpr int64_t kMaxEvents = 1 << 24;

template <class EventOp> static LogicalResult verifyEvent(EventOp op) {
  if (!op.getTurns() && !op.getShift())
    return success();
  if (!op.getTurns() || !op.getShift() || *op.getShift() >= *op.getTurns()) // (C2)
    return op.emitOpError("expected a turn below the number of turns");
  if (op.getEndOfEvents() > kMaxEvents) // (C1)
    return op.emitOpError("expected events below 2^24");
  return success();
}

LogicalResult RecordOp::verify() { return verifyEvent(*this); }
LogicalResult WaitOp::verify() { return verifyEvent(*this); }

//===----------------------------------------------------------------------===//
// LoopOp
//===----------------------------------------------------------------------===//

LogicalResult LoopOp::verify() {
  if (getCount() < 1) // (C1)
    return emitOpError("expected at least one iteration");
  for (Operation &op : getBody().front()) {
    auto inner = dyn_cast<LoopOp>(op);
    bool mayBeInner = inner && inner.getTimes() && !getTimes();
    if (!mayBeInner && !isa<BufferOp, ViewOp, LaunchOp, RecordOp, WaitOp>(op)) // (C2)
      return op.emitOpError("expected only plan ops other than loops in a plan.loop");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

static bool isParam(Attribute attribute) {
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getType().isSignlessInteger(64);
  auto number = dyn_cast<FloatAttr>(attribute);
  return number && number.getType().isF64();
}

/// (C6)
static LogicalResult verifyCounts(LaunchOp launch, int64_t callInputs) {
  llvm::SmallDenseSet<int64_t> seen;
  for (const moe::CountsRule &rule : launch.getCountsRules()) {
    auto outputs = static_cast<int64_t>(launch.getOutputs().size());
    if (rule.output >= outputs || !seen.insert(rule.output).second)
      return launch.emitOpError("expected counts of different outputs among ") << outputs << " but got " << rule.output;
    if (Type type = launch.getOutputs()[rule.output].getType(); !moe::isCounts(type))
      return launch.emitOpError("expected an i32 matrix for counts but got ") << type;
    for (int64_t input : rule.getInputs())
      if (input >= callInputs || llvm::is_contained(launch.getAbsentInputs(), input))
        return launch.emitOpError("expected counts from one of the inputs but got input ") << input;
    moe::Members members = rule.getMembers();
    if (members != moe::Members::None && !launch.getGroup())
      return launch.emitOpError("expected a group for counts by rule '") << rule.getName() << "'";
    if ((members == moe::Members::Meet) != launch.getCollective())
      return launch.emitOpError("expected a collective for counts that members exchange, and only for them, but got "
                                "rule '")
             << rule.getName() << "'";
  }
  return success();
}

LogicalResult LaunchOp::verify() {
  if (ArrayAttr params = getParamsAttr())
    for (Attribute param : params)
      if (!isParam(param)) // (C1)
        return emitOpError("expected params of i64 or f64 but got ") << param;
  if (getCollective() && !getGroup()) // (C2)
    return emitOpError("expected a collective to have a group");
  if (getOpCost().collective != moe::Collective::None && !getCollective()) // (C4)
    return emitOpError("expected a launch whose cost has an exchange to be collective");
  if (std::optional<int64_t> peer = getPeer()) {
    if (!getCollective() || *peer >= getGroup()->getSize()) // (C5)
      return emitOpError("expected a peer to be a member of a collective's group but got ") << *peer;
    if (getInputs().size() + getOutputs().size() != 1) // (C5)
      return emitOpError("expected one input or one output of a launch with a peer but got ")
             << getInputs().size() << " and " << getOutputs().size();
  }
  ArrayRef<int64_t> absent = getAbsentInputs();
  int64_t callInputs = getInputs().size() + absent.size();
  bool isRising = std::adjacent_find(absent.begin(), absent.end(), std::greater_equal<>()) == absent.end();
  if (!absent.empty() && (!isRising || absent.front() < 0 || absent.back() >= callInputs)) // (C3)
    return emitOpError("expected absent positions to rise strictly and be less than ")
           << callInputs << ", the number of the call's inputs, but got [" << absent << "]";
  for (int64_t input : getInPlaceInputs())
    if (input < 0 || input >= static_cast<int64_t>(getInputs().size())) // (C3)
      return emitOpError("expected in_place to name one of ") << getInputs().size() << " inputs but got " << input;
  return verifyCounts(*this, callInputs);
}

SmallVector<moe::CountsRule> LaunchOp::getCountsRules() {
  SmallVector<moe::CountsRule> rules;
  if (ArrayAttr counts = getCountsAttr())
    for (auto attribute : counts.getAsRange<CountsAttr>())
      rules.push_back(attribute.getRule());
  return rules;
}

moe::OpCost LaunchOp::getOpCost() { return getCost() ? getCost()->getCost() : moe::OpCost(); }

/// For a channel the group of its two members.
moe::GroupAttr LaunchOp::getCostGroup() {
  std::optional<Channel> channel = getChannel();
  if (!channel)
    return getGroupAttr();
  int64_t distance = std::max<int64_t>(1, std::abs(channel->to - channel->from));
  return moe::GroupAttr::get(getContext(), getGroup()->getName(), 2, getGroup()->getStride() * distance);
}

std::optional<Channel> LaunchOp::getChannel() {
  if (!getPeer())
    return std::nullopt;
  Operation *program = (*this)->getParentOp();
  if (isa_and_nonnull<LoopOp>(program))
    program = program->getParentOp();
  auto ranks = program ? program->getAttrOfType<DenseI64ArrayAttr>(kRanksAttrName) : DenseI64ArrayAttr();
  int64_t own = ranks && ranks.size() == 2 ? ranks[0] / getGroup()->getStride() % getGroup()->getSize() : 0;
  return getOutputs().empty() ? Channel{own, *getPeer()} : Channel{*getPeer(), own};
}

int64_t LaunchOp::getBytesSent() {
  if (!getGroup())
    return 0;
  if (getPeer())
    return getOutputs().empty() ? getOpCost().payload : 0;
  return getOpCost().getBytesSent(getGroup()->getSize());
}

std::string LaunchOp::describe() {
  std::string text = ("'" + getKernel() + "'").str();
  if (auto label = getLabel())
    text += (" (" + *label + ")").str();
  if (auto group = getGroup())
    text += (" over '" + group->getName() + "'").str();
  if (auto peer = getPeer())
    text += " with member " + std::to_string(*peer);
  if (auto stream = getStream())
    text += (" on '" + *stream + "'").str();
  return text;
}

StringRef LaunchOp::getStreamOrDefault() { return getStream().value_or(kComputeStream); }

ArrayRef<int64_t> LaunchOp::getAbsentInputs() { return getAbsent().value_or(ArrayRef<int64_t>()); }

ArrayRef<int64_t> LaunchOp::getInPlaceInputs() { return getInPlace().value_or(ArrayRef<int64_t>()); }

bool LaunchOp::isInPlace(unsigned input) { return llvm::is_contained(getInPlaceInputs(), static_cast<int64_t>(input)); }
