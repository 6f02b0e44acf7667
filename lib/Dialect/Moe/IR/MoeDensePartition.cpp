//===- MoeDensePartition.cpp - dense ops over the ranks -------------------===//
//
// Rows are tokens, over dp. Columns may be over mp (Megatron's column split), from a moe.linear on to the next one,
// whose rows are then split.
//
//===----------------------------------------------------------------------===//
#include "llvm/ADT/SetVector.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

static LayoutAttr getLayout(Operation *op, ArrayRef<StringRef> groups) {
  return LayoutAttr::get(op->getContext(), groups);
}

/// Sets a layout that is not decided yet, and checks one that is.
static LogicalResult require(Operation *op, StringRef what, LayoutAttr &layout, LayoutAttr wanted) {
  if (layout && layout != wanted)
    return op->emitOpError() << "expected " << what << " to have the layout " << wanted << " but got " << layout;
  layout = wanted;
  return success();
}

/// Requires rows of tokens, with columns whole or over mp.
static LogicalResult requireRows(Operation *op, StringRef what, ParallelAttr parallel, LayoutAttr &layout) {
  LayoutAttr whole = LayoutAttr::getRows(parallel), split = LayoutAttr::getRows(parallel, 2, "mp");
  if (!layout)
    layout = whole;
  if (layout != whole && layout != split)
    return op->emitOpError() << "expected " << what << " to have the layout " << whole << " or " << split << " but got "
                             << layout;
  return success();
}

/// Whether the columns of rows are over mp.
static bool isSplit(LayoutAttr layout) { return !layout.getGroups(1).empty(); }

static int64_t getTokenShard(int64_t tokens, ParallelAttr parallel) {
  return tokens / parallel.getTokenGroup().getSize();
}

/// Number of sequences in a rank's rows.
static int64_t getOwnSequences(const TokenDivision &tokens) { return tokens.sequences / tokens.shards; }

namespace {
/// Part of the sequences that a rank has.
struct OwnRows {
  int64_t length; ///< rows of each sequence
  CutAttr cut;    ///< null if rows are consecutive and no op has to know which ones
};
} // namespace

/// Rank's own part of `rows` in the whole model, of which `op` takes each `period` for a sequence. Pieces shorter than
/// the model's sequences must be whole on a rank.
static FailureOr<OwnRows> getOwnRows(Operation *op, ParallelAttr parallel, const TokenDivision &tokens, int64_t rows,
                                     int64_t period) {
  if (parallel.getCp() == 1)
    return OwnRows{period, {}};
  int64_t length = rows / tokens.sequences;
  if (period == length)
    return OwnRows{length / parallel.getCp(), tokens.cut};
  if (length / tokens.cut.getChunks() % period == 0)
    return OwnRows{period, {}};
  return op->emitOpError() << "expected sequences of " << length << " rows, as other ops have, or pieces that divide "
                           << length / tokens.cut.getChunks() << ", the consecutive rows of a rank, but got " << period;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

FailureOr<Layouts> FillOp::inferLayouts(ParallelAttr, MutableArrayRef<LayoutAttr>) {
  return Layouts{LayoutAttr::get(getContext(), getTensorType(getResult()).getRank())};
}
FailureOr<Values> FillOp::partition(OpBuilder &builder, const Shards &in) {
  return Values{builder.create<FillOp>(getLoc(), getResult().getType(), getValueAttr())};
}

FailureOr<Layouts> ActivationOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (getCounts())
    return emitOpError() << "expected no counts in a model graph";
  if (failed(requireRows(*this, "the input", parallel, operands[0])))
    return failure();
  return Layouts{operands[0]};
}
FailureOr<Values> ActivationOp::partition(OpBuilder &builder, const Shards &in) {
  RankedTensorType result = scaleDim(in.operands[0], 1, 1, getActivationWidth(getKind()));
  return Values{builder.create<ActivationOp>(getLoc(), result, in.operands[0], Value(), getKindAttr(), getAlphaAttr(),
                                             getLimitAttr())};
}

FailureOr<Layouts> RowScaleOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (failed(requireRows(*this, "the rows", parallel, operands[0])) ||
      failed(require(*this, "factors", operands[1], getHeadDim() > 0 ? operands[0] : LayoutAttr::getRows(parallel))))
    return failure();
  return Layouts{operands[0]};
}
FailureOr<Values> RowScaleOp::partition(OpBuilder &builder, const Shards &in) {
  return Values{builder.create<RowScaleOp>(getLoc(), in.operands[0], in.operands[1], getHeadDim())};
}

FailureOr<Layouts> DropoutOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (failed(requireRows(*this, "x", parallel, operands[0])) ||
      failed(require(*this, "step", operands[1], getLayout(*this, {}))))
    return failure();
  return Layouts{operands[0]};
}
FailureOr<Values> DropoutOp::partition(OpBuilder &builder, const Shards &in) {
  GroupAttr shards = in.parallel.getTokenGroup();
  auto local = builder.create<DropoutOp>(
      getLoc(), in.operands[0].getType(), in.operands[0], in.operands[1], getSeed(), shards.getSize(),
      shards.getStride(), isSplit(in.layouts[0]) ? in.parallel.getMp() : 1, 1, getJitter(), getP(), CutAttr());
  if (in.parallel.getCp() > 1) {
    int64_t sequences = getOwnSequences(in.tokens);
    local.setCutAttr(in.tokens.cut);
    local.setSequences(sequences);
    local.setLength(getTensorType(in.operands[0]).getDimSize(0) / sequences);
  }
  return Values{local};
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

SequenceUse PositionsOp::getSequenceUse() {
  int64_t rows = getTensorType(getResult()).getDimSize(0);
  return {rows / getPeriod(), {rows}};
}
FailureOr<Layouts> PositionsOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr>) {
  return Layouts{LayoutAttr::getRows(parallel, 1)};
}
/// Positions are the same on all ranks, but values that are looked up with them belong to tokens.
FailureOr<Values> PositionsOp::partition(OpBuilder &builder, const Shards &in) {
  auto type = getTensorType(getResult());
  FailureOr<OwnRows> own = getOwnRows(*this, in.parallel, in.tokens, type.getDimSize(0), getPeriod());
  if (failed(own))
    return failure();
  auto local = type.clone({getTokenShard(type.getDimSize(0), in.parallel)});
  Value positions = builder.create<PositionsOp>(getLoc(), local, builder.getI64IntegerAttr(own->length), own->cut);
  return Values{builder.create<ToVaryingOp>(getLoc(), positions, in.parallel.getTokenGroup())};
}

/// A table that is split over mp needs a sum over it. A table that mp does not divide, or a small one (learned
/// positions), is not split.
FailureOr<Layouts> EmbeddingOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  bool isVocabulary = getVocabulary() && getTensorType(getTable()).getDimSize(0) % parallel.getMp() == 0;
  if (!operands[1])
    operands[1] = getLayout(*this, {isVocabulary ? "mp" : "", ""});
  if (failed(require(*this, "ids", operands[0], LayoutAttr::getRows(parallel, 1))))
    return failure();
  LayoutAttr whole = getLayout(*this, {"", ""}), split = getLayout(*this, {"mp", ""});
  if (operands[1] != whole && operands[1] != split)
    return emitOpError() << "expected the table to have the layout " << whole << " or " << split << " but got "
                         << operands[1];
  return Layouts{LayoutAttr::getRows(parallel)};
}
FailureOr<Values> EmbeddingOp::partition(OpBuilder &builder, const Shards &in) {
  bool isOverMp = !in.layouts[1].getGroups(0).empty();
  auto table = getTensorType(in.operands[1]);
  auto type = table.clone({getTensorType(in.operands[0]).getDimSize(0), table.getDimSize(1)});
  Value found = builder.create<EmbeddingOp>(getLoc(), type, in.operands[0], in.operands[1], getVocabulary(),
                                            isOverMp ? in.parallel.getMp() : 1, 1, getPadding());
  if (isOverMp)
    found = builder.create<AllReduceOp>(getLoc(), type, found, Value(), in.parallel.getGroup("mp"));
  return Values{found};
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Whether a norm is over columns on several ranks.
static bool isOverRanks(ParallelAttr parallel, LayoutAttr x, int64_t block, int64_t columns) {
  return isSplit(x) && parallel.getMp() > 1 && columns / parallel.getMp() % block != 0;
}

FailureOr<Layouts> NormOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (failed(requireRows(*this, "x", parallel, operands[0])))
    return failure();
  int64_t columns = getTensorType(getX()).getDimSize(1), block = getTensorType(getGamma()).getDimSize(0);
  bool overRanks = isOverRanks(parallel, operands[0], block, columns);
  if (overRanks && (getKind() != Norm::rms || block != columns))
    return emitOpError() << "expected blocks of " << block
                         << " columns on one rank, or an RMS norm of whole rows, where " << columns
                         << " columns are over " << parallel.getMp() << " ranks of mp";
  for (LayoutAttr &operand : operands.drop_front())
    if (failed(require(*this, "gamma and beta", operand, getLayout(*this, {overRanks ? "mp" : ""}))))
      return failure();
  return Layouts{operands[0]};
}

/// Builds an RMS norm of rows whose columns are over mp. Their sum of squares is added up over mp.
static Value buildSplitNorm(NormOp norm, OpBuilder &builder, ParallelAttr parallel, Value x, Value gamma) {
  Location loc = norm.getLoc();
  auto type = getTensorType(x);
  Value squares = builder.create<RowDotOp>(loc, x, x);
  Type column = squares.getType();
  Value sum = builder.create<AllReduceOp>(loc, column, squares, Value(), parallel.getGroup("mp"));
  double columns = static_cast<double>(type.getDimSize(1) * parallel.getMp());
  Value root = builder.create<InverseRootOp>(loc, column, sum, builder.getF64FloatAttr(1 / columns), norm.getEpsAttr());
  Value scaled = builder.create<RowScaleOp>(loc, type, x, root);
  return builder.create<NormOp>(loc, type, scaled, gamma, Value(), Norm::none, APFloat(0.0));
}

FailureOr<Values> NormOp::partition(OpBuilder &builder, const Shards &in) {
  Value x = in.operands[0], gamma = in.operands[1], beta = in.operands.size() > 2 ? in.operands[2] : Value();
  bool overRanks = !in.layouts[1].getGroups(0).empty() && in.parallel.getMp() > 1;
  return Values{
      overRanks
          ? buildSplitNorm(*this, builder, in.parallel, x, gamma)
          : builder.create<NormOp>(getLoc(), x.getType(), x, gamma, beta, getKindAttr(), getEpsAttr()).getResult()};
}

//===----------------------------------------------------------------------===//
// Linear
//===----------------------------------------------------------------------===//

FailureOr<Layouts> LinearOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (failed(requireRows(*this, "x", parallel, operands[0])))
    return failure();
  int64_t unit = getColumn();
  bool rows = isSplit(operands[0]);
  bool columns = !rows && unit > 0 && getTensorType(getY()).getDimSize(1) / unit % parallel.getMp() == 0;
  StringRef inner = rows ? "mp" : "", outer = columns ? "mp" : "";
  LayoutAttr weights = getTransposeWeights() ? getLayout(*this, {outer, inner}) : getLayout(*this, {inner, outer});
  if (failed(require(*this, "weights", operands[1], weights)) ||
      (getBias() && failed(require(*this, "bias", operands[2], getLayout(*this, {outer})))))
    return failure();
  return Layouts{LayoutAttr::getRows(parallel, 2, outer)};
}
FailureOr<Values> LinearOp::partition(OpBuilder &builder, const Shards &in) {
  Value y = builder.create<MatmulOp>(getLoc(), in.operands[0], in.operands[1], false, getTransposeWeights());
  if (isSplit(in.layouts[0]))
    y = builder.create<AllReduceOp>(getLoc(), y.getType(), y, Value(), in.parallel.getGroup("mp"));
  if (getBias())
    y = builder.create<BiasAddOp>(getLoc(), y.getType(), y, in.operands[2], Value(), builder.getF64FloatAttr(1.0));
  return Values{y};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

SequenceUse RotaryOp::getSequenceUse() {
  int64_t rows = getTensorType(getResult()).getDimSize(0);
  return {rows / getPeriod(), {rows}};
}
FailureOr<Layouts> RotaryOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (failed(requireRows(*this, "x", parallel, operands[0])))
    return failure();
  return Layouts{operands[0]};
}
FailureOr<Values> RotaryOp::partition(OpBuilder &builder, const Shards &in) {
  FailureOr<OwnRows> own =
      getOwnRows(*this, in.parallel, in.tokens, getTensorType(getResult()).getDimSize(0), getPeriod());
  if (failed(own))
    return failure();
  IRMapping mapping;
  mapping.map(getX(), in.operands[0]);
  auto local = cast<RotaryOp>(builder.clone(*getOperation(), mapping));
  local.setPeriod(own->length);
  if (own->cut)
    local.setCutAttr(own->cut);
  local.getResult().setType(getTensorType(in.operands[0]));
  return Values{local};
}

/// Heads are over mp if x's columns are. The shared columns go with them to every member.
FailureOr<Layouts> AppendToHeadsOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  if (failed(requireRows(*this, "x", parallel, operands[0])) ||
      failed(require(*this, "the shared columns", operands[1], LayoutAttr::getRows(parallel))))
    return failure();
  auto getColumns = [](Value value) { return getTensorType(value).getDimSize(1); };
  int64_t heads = (getColumns(getResult()) - getColumns(getX())) / getColumns(getShared());
  if (isSplit(operands[0]) && heads % parallel.getMp() != 0)
    return emitOpError() << "expected whole heads on each rank of mp = " << parallel.getMp()
                         << " but got the columns of " << heads << " heads over it";
  return Layouts{operands[0]};
}
FailureOr<Values> AppendToHeadsOp::partition(OpBuilder &builder, const Shards &in) {
  auto x = getTensorType(in.operands[0]);
  int64_t columns = getTensorType(getResult()).getDimSize(1) / (isSplit(in.layouts[0]) ? in.parallel.getMp() : 1);
  auto type = x.clone({x.getDimSize(0), columns});
  return Values{builder.create<AppendToHeadsOp>(getLoc(), type, in.operands[0], in.operands[1])};
}

SequenceUse AttentionOp::getSequenceUse() {
  int64_t rows = getTensorType(getResult()).getDimSize(0), sequences = rows / getQLength();
  return {sequences, {rows, sequences * getKLength()}, getCausal()};
}
/// Heads are over mp if the queries' columns are. Keys and values go with them, or all are on every member.
FailureOr<Layouts> AttentionOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  auto segment = [&](unsigned index) -> LayoutAttr * {
    auto [start, length] = getODSOperandIndexAndLength(index);
    return length ? &operands[start] : nullptr;
  };
  for (auto [index, what] : {std::pair(0u, "q"), {1u, "k"}, {2u, "v"}})
    if (failed(requireRows(*this, what, parallel, *segment(index))))
      return failure();
  bool split = isSplit(*segment(0));
  if (*segment(1) != *segment(2) || (!split && isSplit(*segment(1))))
    return emitOpError() << "expected k and v of one layout, with columns over mp only where q's are, but got "
                         << *segment(0) << ", " << *segment(1) << " and " << *segment(2);
  StringRef heads = split ? "mp" : "";
  if ((segment(3) && failed(require(*this, "bias", *segment(3), getLayout(*this, {heads, "", ""})))) ||
      (segment(4) && failed(require(*this, "sinks", *segment(4), getLayout(*this, {heads})))) ||
      (segment(5) && failed(require(*this, "step", *segment(5), getLayout(*this, {})))))
    return failure();
  return Layouts{*segment(0), *segment(0)};
}
namespace {
/// Gathers keys and values of whole sequences from the rank's rows of them. If these are made of narrower values, such
/// as the compressed vectors of latent attention, the narrower ones may be gathered instead, and every rank makes all
/// keys.
class SequenceGather {
public:
  SequenceGather(OpBuilder &builder, Operation *attention, const TokenDivision &tokens)
      : builder(builder), attention(attention), tokens(tokens), cp(tokens.cut.getGroup()) {}

  void gather(OpOperand &k, OpOperand &v) {
    findSources(k.get());
    findSources(v.get());
    if (!isCheaper({k.get(), v.get()})) {
      sources.clear();
      sources.insert(k.get());
      sources.insert(v.get());
    }
    k.set(build(k.get()));
    v.set(build(v.get()));
  }

private:
  void findSources(Value rows);
  bool isCheaper(ArrayRef<Value> wide) const;
  Value build(Value rows);
  Value gatherRows(Value rows);

  OpBuilder &builder;
  Operation *attention;
  const TokenDivision &tokens;
  GroupAttr cp;
  /// Values that are gathered, and the operations on a row that make keys and values of them.
  llvm::SetVector<Value> sources;
  double flops = 0;
  llvm::DenseMap<Value, Value> built;
};
} // namespace

void SequenceGather::findSources(Value rows) {
  if (auto product = rows.getDefiningOp<MatmulOp>()) {
    int64_t inner = getTensorType(product.getA()).getDimSize(1), columns = getTensorType(rows).getDimSize(1);
    if (!product.getTransposeA() && inner < columns) {
      flops += 2 * static_cast<double>(inner) * static_cast<double>(columns);
      return findSources(product.getA());
    }
  }
  if (auto heads = rows.getDefiningOp<AppendToHeadsOp>()) {
    findSources(heads.getX());
    return findSources(heads.getShared());
  }
  sources.insert(rows);
}

/// The backward exchanges the same bytes and computes twice as much.
bool SequenceGather::isCheaper(ArrayRef<Value> wide) const {
  ClusterRates rates = getClusterRates(attention);
  ParallelAttr parallel = getParallel(attention);
  bool isInside = parallel && cp.isInsideNode(rates.nodeRanks, parallel.getWorld());
  auto getBytes = [](auto &&values) {
    double bytes = 0;
    for (Value value : values)
      bytes += static_cast<double>(getByteSize(value.getType()));
    return bytes;
  };
  double rows = static_cast<double>(getTensorType(wide.front()).getDimSize(0));
  double saved = 2 * (getBytes(wide) - getBytes(sources)) / (isInside ? rates.insideBytes : rates.outsideBytes);
  return saved > 3 * flops * rows / rates.flops;
}

Value SequenceGather::build(Value rows) {
  if (Value known = built.lookup(rows))
    return known;
  Location loc = attention->getLoc();
  Value whole;
  if (sources.contains(rows)) {
    whole = gatherRows(rows);
  } else if (auto product = rows.getDefiningOp<MatmulOp>()) {
    whole = builder.create<MatmulOp>(loc, build(product.getA()), product.getB(), false, product.getTransposeB());
  } else {
    auto heads = rows.getDefiningOp<AppendToHeadsOp>();
    Value x = build(heads.getX()), shared = build(heads.getShared());
    auto type = RankedTensorType::get({getTensorType(x).getDimSize(0), getTensorType(rows).getDimSize(1)},
                                      getTensorType(rows).getElementType());
    whole = builder.create<AppendToHeadsOp>(loc, type, x, shared);
  }
  return built[rows] = whole;
}

Value SequenceGather::gatherRows(Value rows) {
  Location loc = attention->getLoc();
  int64_t sequences = getOwnSequences(tokens), length = getTensorType(rows).getDimSize(0) / sequences;
  // The cast stands before the ops that put rows in order. So its adjoint meets the gather's, and both become one
  // reduce-scatter.
  Value all = builder.create<ToVaryingOp>(loc, builder.create<AllGatherOp>(loc, rows, cp, 0), cp);
  bool isInOrder = sequences == 1 && !tokens.cut.getZigzag();
  return isInOrder ? all : builder.create<JoinSequencesOp>(loc, all, tokens.cut, sequences, length, /*inverse=*/false);
}

/// Gives `local` the rank's part of the queries of each sequence, and the keys of whole sequences. `graph` is the op of
/// the model graph.
static LogicalResult divideSequences(AttentionOp graph, AttentionOp local, OpBuilder &builder,
                                     const TokenDivision &tokens) {
  int64_t pieces = graph.getSequenceUse().sequences / tokens.sequences, piece = graph.getQLength();
  int64_t parts = tokens.cut.getGroup().getSize();
  if (pieces > 1 && (graph.getBias() || graph.getStep() || graph.getKLength() != piece))
    return graph.emitOpError() << "expected no bias and no dropout where context parallelism divides sequences whose "
                                  "tokens see pieces of "
                               << piece << " tokens; leave out cp";
  if (pieces > 1 && piece * pieces / tokens.cut.getChunks() % piece == 0)
    return success();
  builder.setInsertionPoint(local);
  SequenceGather(builder, local, tokens).gather(local.getKMutable(), local.getVMutable());
  builder.setInsertionPointAfter(local);
  local.setQLength(piece * pieces / parts);
  local.setKLength(graph.getKLength() * pieces);
  local.setBlock(pieces > 1 ? piece : 0);
  local.setCutAttr(tokens.cut);
  return success();
}

FailureOr<Values> AttentionOp::partition(OpBuilder &builder, const Shards &in) {
  int64_t parts = isSplit(in.layouts[0]) ? in.parallel.getMp() : 1,
          keyParts = isSplit(in.layouts[1]) ? in.parallel.getMp() : 1;
  auto local = cast<AttentionOp>(builder.clone(*getOperation()));
  local->setOperands(in.operands);
  local.setHeads(getHeads() / parts);
  local.setParts(parts);
  local.setRowParts(in.parallel.getDp());
  local.setRowStride(in.parallel.getGroup("dp").getStride());
  auto q = getTensorType(in.operands[0]), v = getTensorType(in.operands[2]);
  int64_t heads = local.getHeads(), valueDim = v.getDimSize(1) * keyParts / getKHeads();
  local.getResult().setType(q.clone({q.getDimSize(0), heads * valueDim}));
  local.getLse().setType(getAccumulatorTensor(q, {q.getDimSize(0), heads}));
  if (in.parallel.getCp() > 1 && failed(divideSequences(*this, local, builder, in.tokens)))
    return failure();
  return Values(local->getResults());
}

FailureOr<Layouts> RelativeBiasOp::inferLayouts(ParallelAttr parallel, MutableArrayRef<LayoutAttr> operands) {
  StringRef heads = getTensorType(getTable()).getDimSize(1) % parallel.getMp() == 0 ? "mp" : "";
  if (failed(require(*this, "the table", operands[0], getLayout(*this, {"", heads}))))
    return failure();
  return Layouts{getLayout(*this, {heads, "", ""})};
}
FailureOr<Values> RelativeBiasOp::partition(OpBuilder &builder, const Shards &in) {
  auto type = getTensorType(getResult());
  auto local = RankedTensorType::get(
      {getTensorType(in.operands[0]).getDimSize(1), type.getDimSize(1), type.getDimSize(2)}, type.getElementType());
  return Values{
      builder.create<RelativeBiasOp>(getLoc(), local, in.operands[0], getBidirectionalAttr(), getMaxDistanceAttr())};
}
