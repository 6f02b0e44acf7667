//===- MoeAttrs.cpp - groups, worlds, layouts -----------------------------===//
#include "moe/Dialect/Moe/IR/MoeAttrs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/SpmdAxes.h"
#include "moe/Support/Text.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::moe;

LogicalResult GroupAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name, int64_t size,
                                int64_t stride) {
  if (name.empty())
    return emitError() << "expected a group name";
  if (size < 1 || stride < 1)
    return emitError() << "expected group '" << name << "' to have a positive size and stride but got " << size
                       << " and " << stride;
  // Ranks are 32-bit numbers. So no product of sizes and strides overflows.
  if (constexpr int64_t most = std::numeric_limits<int32_t>::max(); size > most / stride)
    return emitError() << "expected group '" << name << "' to have at most " << most
                       << " ranks between its first and its last but got " << size << " with stride " << stride;
  return success();
}

std::optional<std::pair<GroupAttr, GroupAttr>> GroupAttr::divideByNode(int64_t nodeRanks) const {
  int64_t inner = nodeRanks / getStride();
  if (nodeRanks % getStride() != 0 || inner < 2 || inner >= getSize() || getSize() % inner != 0)
    return std::nullopt;
  std::string name = getName().str();
  return std::pair(get(getContext(), name + "_nodes", getSize() / inner, nodeRanks),
                   get(getContext(), name + "_node", inner, getStride()));
}

LogicalResult ParallelAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t world, int64_t pp, int64_t dp,
                                   int64_t mp, int64_t ep, int64_t esp, int64_t cp) {
  for (auto [name, value] : {std::pair<StringRef, int64_t>{"world", world},
                             {"pp", pp},
                             {"dp", dp},
                             {"mp", mp},
                             {"ep", ep},
                             {"esp", esp},
                             {"cp", cp}})
    if (value < 1 || value > kMaxWorld)
      return emitError() << "expected " << name << " to be between 1 and " << kMaxWorld << " but got " << value;
  if (pp * dp * cp * mp != world) {
    InFlightDiagnostic error = emitError() << "expected world = pp * dp * " << (cp > 1 ? "cp * " : "") << "mp but got "
                                           << world << " and " << pp << " * " << dp << " * ";
    if (cp > 1)
      error << cp << " * ";
    return error << mp << " = " << pp * dp * cp * mp;
  }
  if (world % (pp * ep * esp) != 0)
    return emitError() << "expected pp * ep * esp = " << pp * ep * esp << " to divide the world of " << world
                       << " ranks";
  SmallVector<int64_t> boundaries = {1, mp, mp * cp, esp, ep * esp, world / pp, world};
  llvm::sort(boundaries);
  for (auto [lower, upper] : llvm::zip(boundaries, llvm::drop_begin(boundaries))) {
    if (upper % lower == 0)
      continue;
    InFlightDiagnostic error = emitError() << "expected the group boundaries 1, mp = " << mp;
    if (cp > 1)
      error << ", mp * cp = " << mp * cp;
    return error << ", esp = " << esp << ", ep * esp = " << ep * esp << ", world / pp = " << world / pp
                 << ", world = " << world << " to be a chain of divisors, but " << lower << " does not divide "
                 << upper;
  }
  return success();
}

ArrayRef<StringLiteral> ParallelAttr::getGroupNames() {
  static constexpr StringLiteral names[] = {"dp", "mp", "cp", "dp_cp", "ep", "esp", "edp", "ep_esp", "pp", "world"};
  return names;
}

GroupAttr ParallelAttr::getGroup(StringRef name) const {
  auto group = [&](int64_t size, int64_t stride) { return GroupAttr::get(getContext(), name, size, stride); };
  auto [size, stride] = llvm::StringSwitch<std::pair<int64_t, int64_t>>(name)
                            .Case("dp", {getDp(), getCp() * getMp()})
                            .Case("mp", {getMp(), 1})
                            .Case("ep", {getEp(), getEsp()})
                            .Case("esp", {getEsp(), 1})
                            .Case("edp", {getEdp(), getEp() * getEsp()})
                            .Case("ep_esp", {getEp() * getEsp(), 1})
                            .Case("cp", {getCp(), getMp()})
                            .Case("dp_cp", {getDp() * getCp(), getMp()})
                            .Case("pp", {getPp(), getWorld() / getPp()})
                            .Case("world", {getWorld(), 1})
                            .Default({0, 0});
  if (size > 0)
    return group(size, stride);
  auto [whole, number] = name.rsplit('_');
  int64_t members = 0;
  if (number.getAsInteger(10, members) || members < 1)
    return {};
  GroupAttr all = getGroup(whole);
  return all && all.getSize() % members == 0 ? group(members, all.getStride()) : GroupAttr();
}

/// Rates by their names in #moe.cluster.
static constexpr std::pair<StringLiteral, double ClusterRates::*> kRates[] = {
    {"flops", &ClusterRates::flops},
    {"memory_bytes", &ClusterRates::memoryBytes},
    {"inside_bytes", &ClusterRates::insideBytes},
    {"outside_bytes", &ClusterRates::outsideBytes},
    {"expert_flops", &ClusterRates::expertFlops},
    {"expert_bytes", &ClusterRates::expertBytes},
    {"expert_start", &ClusterRates::expertStart},
    {"broadcast_bytes", &ClusterRates::broadcastBytes},
    {"link_bytes", &ClusterRates::linkBytes},
    {"node_link_bytes", &ClusterRates::nodeLinkBytes},
    {"all_to_all_alpha", &ClusterRates::allToAllAlpha},
    {"all_to_all_beta", &ClusterRates::allToAllBeta},
    {"all_gather_alpha", &ClusterRates::allGatherAlpha},
    {"all_gather_beta", &ClusterRates::allGatherBeta},
    {"overlapped_alpha", &ClusterRates::overlappedAlpha},
    {"overlapped_beta", &ClusterRates::overlappedBeta}};

llvm::hash_code mlir::moe::hash_value(const ClusterRates &rates) {
  llvm::hash_code code = llvm::hash_value(rates.nodeRanks);
  for (auto [name, rate] : kRates)
    code = llvm::hash_combine(code, llvm::bit_cast<uint64_t>(rates.*rate));
  return code;
}

Attribute ClusterAttr::parse(AsmParser &parser, Type) {
  ClusterRates rates;
  SmallVector<StringRef> names;
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef &name = names.emplace_back();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (llvm::is_contained(ArrayRef(names).drop_back(), name))
      return parser.emitError(loc) << "expected each rate of a cluster once but got '" << name << "' again";
    if (name == "node_ranks")
      return parser.parseInteger(rates.nodeRanks);
    for (auto [known, rate] : kRates)
      if (name == known)
        return parser.parseFloat(rates.*rate);
    InFlightDiagnostic error = parser.emitError(loc) << "expected a rate of a cluster, one of node_ranks";
    for (auto [known, rate] : kRates)
      error << ", " << known;
    return error << ", but got '" << name << "'";
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseOne))
    return {};
  return ClusterAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), rates);
}

void ClusterAttr::print(AsmPrinter &printer) const {
  printer << "<node_ranks = " << getRates().nodeRanks;
  for (auto [name, rate] : kRates)
    if (getRates().*rate != ClusterRates().*rate)
      printer << ", " << name << " = " << getFloatLiteral(getRates().*rate);
  printer << ">";
}

LogicalResult ClusterAttr::verify(function_ref<InFlightDiagnostic()> emitError, ClusterRates rates) {
  if (rates.nodeRanks < 1)
    return emitError() << "expected node_ranks of at least 1 but got " << rates.nodeRanks;
  for (auto [name, rate] : kRates)
    if (!std::isfinite(rates.*rate) || rates.*rate < 0)
      return emitError() << "expected " << name << " of at least 0 but got " << rates.*rate;
  return success();
}

Attribute CutAttr::parse(AsmParser &parser, Type) {
  FailureOr<GroupAttr> group = failure();
  bool zigzag = false;
  if (parser.parseLess() || failed(group = FieldParser<GroupAttr>::parse(parser)))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    zigzag = true;
    if (parser.parseKeyword("zigzag"))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), *group, zigzag);
}

void CutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printStrippedAttrOrType(getGroup());
  printer << (getZigzag() ? ", zigzag>" : ">");
}

LogicalResult ChunkAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t index, int64_t chunks) {
  if (index < 0 || index >= chunks)
    return emitError() << "expected a chunk with 0 <= index < chunks but got " << index << " of " << chunks;
  return success();
}

LogicalResult StageAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t index, StageWork) {
  if (index < 0)
    return emitError() << "expected a stage of at least 0 but got " << index;
  return success();
}

LogicalResult RingAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef, int64_t depth) {
  if (depth < 1)
    return emitError() << "expected a ring of depth at least 1 but got " << depth;
  return success();
}

LayoutAttr LayoutAttr::getRows(ParallelAttr parallel, int64_t rank, StringRef columns) {
  MLIRContext *context = parallel.getContext();
  Builder builder(context);
  SmallVector<Attribute> rows = {builder.getStringAttr("dp")}, others;
  if (parallel.getCp() > 1)
    rows.push_back(builder.getStringAttr("cp"));
  if (!columns.empty())
    others.push_back(builder.getStringAttr(columns));
  SmallVector<ArrayAttr> dims = {builder.getArrayAttr(rows)};
  if (rank == 2)
    dims.push_back(builder.getArrayAttr(others));
  return get(context, dims);
}

LayoutAttr LayoutAttr::get(MLIRContext *context, int64_t rank) {
  return get(context, SmallVector<ArrayAttr>(rank, ArrayAttr::get(context, {})));
}

LayoutAttr LayoutAttr::get(MLIRContext *context, ArrayRef<StringRef> groups) {
  SmallVector<ArrayAttr> dims;
  for (StringRef group : groups) {
    SmallVector<Attribute> names;
    if (!group.empty())
      names.push_back(StringAttr::get(context, group));
    dims.push_back(ArrayAttr::get(context, names));
  }
  return get(context, dims);
}

SmallVector<StringRef> LayoutAttr::getGroups(unsigned dim) const {
  return llvm::map_to_vector(getDims()[dim].getAsRange<StringAttr>(), [](StringAttr name) { return name.getValue(); });
}

FailureOr<int64_t> LayoutAttr::getParts(unsigned dim, ParallelAttr parallel) const {
  int64_t parts = 1;
  for (StringRef name : getGroups(dim)) {
    GroupAttr group = parallel.getGroup(name);
    if (!group)
      return failure();
    parts *= group.getSize();
  }
  return parts;
}

FailureOr<RankedTensorType> LayoutAttr::getLocalType(RankedTensorType global, ParallelAttr parallel, StringRef what,
                                                     function_ref<InFlightDiagnostic()> emitError) const {
  if (static_cast<int64_t>(getDims().size()) != global.getRank())
    return emitError() << "expected the layout of '" << what << "' to have " << global.getRank()
                       << " dimensions but got " << *this;
  SmallVector<int64_t> shape(global.getShape());
  SpmdAxes axes(parallel);
  AxisSet used;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    FailureOr<int64_t> parts = getParts(dim, parallel);
    if (failed(parts))
      return emitError() << "expected the layout of '" << what << "' to name groups among "
                         << llvm::join(ParallelAttr::getGroupNames(), ", ") << " but got " << *this;
    // Ranks that choose a part of two dimensions at once would leave some parts of the tensor without a rank.
    for (StringRef name : getGroups(dim)) {
      AxisSet set = *axes.getAxes(parallel.getGroup(name));
      if (!(used & set).empty())
        return emitError() << "expected the groups of the layout of '" << what << "' not to overlap but got " << *this;
      used = used | set;
    }
    if (size % *parts != 0)
      return emitError() << "expected dimension " << dim << " of '" << what << "', " << size << ", to be divisible by "
                         << llvm::join(getGroups(dim), " * ") << " = " << *parts;
    size /= *parts;
  }
  return global.clone(shape);
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  SmallVector<ArrayAttr> dims;
  auto parseName = [&](SmallVectorImpl<Attribute> &names) -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  int64_t sequence = 0, chunks = 0;
  auto parseDim = [&]() -> ParseResult {
    SmallVector<Attribute> names;
    if (succeeded(parser.parseOptionalKeyword("sequence")))
      return failure(parser.parseEqual() || parser.parseInteger(sequence));
    if (succeeded(parser.parseOptionalKeyword("chunks")))
      return failure(parser.parseEqual() || parser.parseInteger(chunks));
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return parseName(names); }))
      return failure();
    dims.push_back(parser.getBuilder().getArrayAttr(names));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseDim))
    return {};
  return LayoutAttr::get(parser.getContext(), dims, sequence, chunks);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(llvm::seq<size_t>(0, getDims().size()), printer, [&](size_t dim) {
    printer << "[";
    llvm::interleaveComma(getGroups(dim), printer);
    printer << "]";
  });
  if (getChunks() > 0)
    printer << ", sequence = " << getSequence() << ", chunks = " << getChunks();
  printer << ">";
}
