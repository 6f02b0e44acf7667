//===- BucketParameters.cpp - parameters side by side, and sharded --------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Moe/Transforms/SpmdAnalysis.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOEBUCKETPARAMETERS
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Alignment in elements of each piece and of each rank's part. Kernels read 16 bytes at a time.
static constexpr int64_t kAlignment = 64;

namespace {
/// A parameter, and the value that ops take for it, after casts that all of them share.
struct Piece {
  BlockArgument argument;
  Value value;
  /// First op that takes the value.
  Operation *user = nullptr;
  LayoutAttr layout;
};

/// Properties that all pieces of a bucket share: the element type, whether they decay, the stage, the axes over which
/// they vary, and those over which they are cast.
struct Kind {
  Type elementType;
  bool decays;
  Attribute stage;
  uint64_t varies, casts;

  auto getKey() const {
    return std::tuple(elementType.getAsOpaquePointer(), decays, stage.getAsOpaquePointer(), varies, casts);
  }
  bool operator==(const Kind &other) const { return getKey() == other.getKey(); }
};

struct Bucket {
  Kind kind;
  SmallVector<Piece> pieces;
  int64_t bytes = 0;
  /// Stage of ZeRO. Parameters that several stages of a pipeline use are gathered and summed once a step.
  int64_t zero = 0;
};

/// Place of a piece in its bucket, or of zeros, which are no piece.
struct Slot {
  RankedTensorType type;
  const Piece *piece;
  int64_t at;
};

class Bucketer {
public:
  Bucketer(func::FuncOp function, const MoeBucketParametersOptions &options, ParallelAttr parallel, SpmdAxes axes)
      : function(function), options(options), parallel(parallel), axes(std::move(axes)),
        builder(function.getContext()) {}

  LogicalResult run();

private:
  FailureOr<Kind> getKind(Piece &piece);
  LogicalResult collect();
  LogicalResult findShards();
  GroupAttr getShards(const Kind &kind);
  SmallVector<Slot> getSlots(const Bucket &bucket, int64_t parts);
  ArrayAttr describe(ArrayRef<Slot> slots);
  BlockArgument addArgument(const Bucket &bucket, GroupAttr shards, StringRef name, ArrayRef<Slot> slots);
  void write(const Bucket &bucket, StringRef name);
  Value gather(const Bucket &bucket, GroupAttr shards, Value value, Location loc);
  void mark(Operation *op, const Bucket &bucket);
  void eraseReplaced();

  func::FuncOp function;
  const MoeBucketParametersOptions &options;
  ParallelAttr parallel;
  SpmdAxes axes;
  OpBuilder builder;
  /// Groups over which buckets may be divided: that of dense parameters, and that of experts.
  SmallVector<GroupAttr> shards;
  SmallVector<Bucket> buckets;
};
} // namespace

/// Whether the adjoint of the op that takes `use` has a gradient for it.
static bool hasGradient(OpOperand &use) {
  Operation *op = use.getOwner();
  auto differentiable = dyn_cast<MoeDifferentiableOpInterface>(op);
  if (!differentiable)
    return false;
  // The adjoint tells it when it is built. A cotangent has the type of its value, and a null one is zero.
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Operation *next = op->getNextNode();
  SmallVector<Value> cotangents(op->getNumResults());
  cotangents.front() = op->getResult(0);
  SmallVector<Value> gradients = differentiable.buildAdjoint(builder, cotangents);
  bool has = use.getOperandNumber() < gradients.size() && gradients[use.getOperandNumber()];
  while (next->getPrevNode() != op)
    next->getPrevNode()->erase();
  return has;
}

/// Whether a gradient reaches a parameter, or values made of it alone. Parameters that only decide, such as a bias by
/// which a router selects, have none.
static bool hasGradient(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    Operation *op = use.getOwner();
    if (op->hasTrait<OpTrait::IsTerminator>())
      return false;
    return op->getNumOperands() == 1 ? llvm::any_of(op->getResults(), [](Value result) { return hasGradient(result); })
                                     : hasGradient(use);
  });
}

/// Follows the casts that all uses share.
FailureOr<Kind> Bucketer::getKind(Piece &piece) {
  unsigned number = piece.argument.getArgNumber();
  piece.layout = function.getArgAttrOfType<LayoutAttr>(number, kLayoutAttrName);
  auto type = getTensorType(piece.argument);
  if (!piece.layout)
    piece.layout = LayoutAttr::get(function.getContext(), type.getRank());
  FailureOr<AxisSet> varies = axes.getAxes(piece.layout);
  if (failed(varies))
    return function.emitError() << "expected the groups of " << piece.layout << " to be groups of " << parallel;
  AxisSet casts;
  piece.value = piece.argument;
  while (piece.value.hasOneUse())
    if (auto cast = dyn_cast<ToVaryingOp>(*piece.value.user_begin())) {
      casts = casts | *axes.getAxes(cast.getGroup());
      piece.value = cast.getResult();
    } else {
      break;
    }
  bool decays = type.getRank() >= 2 && !function.getArgAttr(number, kNoDecayAttrName);
  Kind kind{type.getElementType(), decays || !options.decays, Attribute(), varies->bits, casts.bits};
  for (Operation *user : piece.value.getUsers())
    if (!piece.user || user->isBeforeInBlock(piece.user))
      piece.user = user;
  kind.stage = piece.user->getAttr(kStageAttrName);
  return kind;
}

/// Collects parameters in the order of their first uses. Parameters that several stages use, or ops that each stage
/// has, are in a bucket of their own.
LogicalResult Bucketer::collect() {
  bool hasStages = llvm::any_of(function.front(), [](Operation &op) { return op.hasAttr(kStageAttrName); });
  SmallVector<std::pair<Kind, Piece>> all;
  for (BlockArgument argument : function.getArguments()) {
    Piece piece{argument, {}, nullptr, {}};
    if (getRole(argument) != kParameterRole || !isa<FloatType>(getElementTypeOrSelf(argument.getType())) ||
        !hasGradient(argument))
      continue;
    FailureOr<Kind> kind = getKind(piece);
    if (failed(kind))
      return failure();
    all.push_back({*kind, piece});
  }
  llvm::stable_sort(all, [](const auto &a, const auto &b) { return a.second.user->isBeforeInBlock(b.second.user); });
  for (auto &[kind, piece] : all) {
    bool isShared = llvm::any_of(piece.value.getUsers(), [&, stage = kind.stage](Operation *user) {
      return user->getAttr(kStageAttrName) != stage || (hasStages && !stage);
    });
    auto counted = function.getArgAttrOfType<IntegerAttr>(piece.argument.getArgNumber(), kCountedBytesAttrName);
    int64_t bytes = counted ? counted.getInt() : getByteSize(piece.argument.getType());
    auto open = llvm::find_if(buckets, [&, kind = kind](const Bucket &bucket) {
      return bucket.kind == kind && bucket.bytes < options.bytes;
    });
    if (isShared)
      kind.stage = UnitAttr::get(function.getContext());
    int64_t zero = isShared ? std::min<int64_t>(options.zero, 1) : options.zero;
    if (isShared || open == buckets.end())
      buckets.push_back({kind, {piece}, bytes, zero});
    else {
      open->pieces.push_back(piece);
      open->bytes += bytes;
    }
  }
  return success();
}

/// Members of `group` among `ranks` neighbouring ranks, or all if that is 0.
static GroupAttr getNeighbours(ParallelAttr parallel, StringRef name, int64_t ranks) {
  GroupAttr group = parallel.getGroup(name);
  int64_t members = ranks / group.getStride();
  if (ranks == 0 || members >= group.getSize())
    return group;
  return parallel.getGroup((name + "_" + Twine(std::max<int64_t>(members, 1))).str());
}

/// Finds the groups first, since they may divide axes.
LogicalResult Bucketer::findShards() {
  for (StringRef name : {parallel.getTokenGroup().getName(), StringRef("edp")}) {
    GroupAttr group = getNeighbours(parallel, name, options.ranks);
    if (!group || failed(axes.refine(group)))
      return function.emitError() << "expected blocks of " << options.ranks << " ranks that divide '" << name << "' of "
                                  << parallel;
    shards.push_back(group);
  }
  return success();
}

/// Group of the ranks that have the same parameters and other tokens, or null if there is one rank or parameters stay
/// whole.
GroupAttr Bucketer::getShards(const Kind &kind) {
  for (GroupAttr group : shards)
    if (options.zero > 0 && group.getSize() > 1 && (*axes.getAxes(group) & AxisSet{kind.varies}).empty())
      return group;
  return {};
}

/// Places the pieces of a bucket. Zeros follow a piece if the next one would not be aligned, and the last one if the
/// group would not divide the bucket.
SmallVector<Slot> Bucketer::getSlots(const Bucket &bucket, int64_t parts) {
  SmallVector<Slot> slots;
  int64_t end = 0;
  auto add = [&](RankedTensorType type, const Piece *piece) {
    slots.push_back({type, piece, end});
    end += type.getNumElements();
  };
  for (const Piece &piece : bucket.pieces) {
    add(getTensorType(piece.argument), &piece);
    int64_t multiple = &piece != &bucket.pieces.back() ? kAlignment : parts > 1 ? kAlignment * parts : 1;
    if (int64_t rest = llvm::alignTo(end, multiple) - end; rest > 0)
      add(RankedTensorType::get({rest}, bucket.kind.elementType), nullptr);
  }
  return slots;
}

/// Builds `moe.pieces`.
ArrayAttr Bucketer::describe(ArrayRef<Slot> slots) {
  SmallVector<Attribute> pieces;
  for (const Slot &slot : slots) {
    if (!slot.piece)
      continue;
    NamedAttrList piece(function.getArgAttrDict(slot.piece->argument.getArgNumber()));
    piece.set(kLayoutAttrName, slot.piece->layout);
    piece.set("at", builder.getI64IntegerAttr(slot.at));
    piece.set("type", TypeAttr::get(slot.type));
    pieces.push_back(piece.getDictionary(function.getContext()));
  }
  return builder.getArrayAttr(pieces);
}

BlockArgument Bucketer::addArgument(const Bucket &bucket, GroupAttr shards, StringRef name, ArrayRef<Slot> slots) {
  // Pieces may be divided along different dimensions, but over the same ranks.
  SmallVector<Attribute> names;
  for (ArrayAttr dim : bucket.pieces.front().layout.getDims())
    llvm::append_range(names, dim);
  if (shards)
    names.push_back(builder.getStringAttr(shards.getName()));
  auto layout = LayoutAttr::get(function.getContext(), {builder.getArrayAttr(names)});
  NamedAttrList attributes(
      describeValue(builder.getStringAttr(name), kParameterRole, layout, /*updates=*/"", describe(slots)));
  if (!bucket.kind.decays)
    attributes.set(kNoDecayAttrName, builder.getUnitAttr());
  BlockArgument first = bucket.pieces.front().argument;
  unsigned position = first.getArgNumber();
  int64_t elements = slots.back().at + slots.back().type.getNumElements();
  auto type = RankedTensorType::get({elements / (shards ? shards.getSize() : 1)}, bucket.kind.elementType);
  function.insertArgument(position, type, attributes.getDictionary(function.getContext()), first.getLoc());
  return function.getArgument(position);
}

/// Marks an op that each micro-batch does on its own, in the stage of the pieces' users.
void Bucketer::mark(Operation *op, const Bucket &bucket) {
  op->setAttr(kEachMicroBatchAttrName, builder.getUnitAttr());
  if (bucket.kind.stage)
    op->setAttr(kStageAttrName, bucket.kind.stage);
}

/// Gathers the whole bucket from the ranks' shards, in the state that its pieces need. The sum over ranks that share no
/// shards comes last in the backward, of a shard alone.
Value Bucketer::gather(const Bucket &bucket, GroupAttr shards, Value value, Location loc) {
  AxisSet casts{bucket.kind.casts};
  AxisSet over = shards ? *axes.getAxes(shards) : AxisSet();
  for (GroupAttr group : axes.getGroups(casts - over))
    value = builder.create<ToVaryingOp>(loc, value, group);
  if (!shards)
    return value;
  auto whole = builder.create<AllGatherOp>(loc, value, shards, /*dim=*/0);
  value = whole;
  if (bucket.zero >= 3) {
    mark(whole, bucket);
    whole->setAttr(kResidualAttrName, ResidualAttr::get(function.getContext(), Residual::recommunicate));
  }
  for (GroupAttr group : axes.getGroups(casts & over)) {
    value = builder.create<ToVaryingOp>(loc, value, group);
    if (bucket.zero >= 2)
      mark(value.getDefiningOp(), bucket);
  }
  return value;
}

void Bucketer::write(const Bucket &bucket, StringRef name) {
  GroupAttr over = getShards(bucket.kind);
  SmallVector<Slot> slots = getSlots(bucket, over ? over.getSize() : 1);
  BlockArgument argument = addArgument(bucket, over, name, slots);
  Operation *user = bucket.pieces.front().user;
  builder.setInsertionPoint(user);
  Value whole = gather(bucket, over, argument, user->getLoc());
  SmallVector<Attribute> layouts;
  for (const Slot &slot : slots)
    layouts.push_back(slot.piece ? slot.piece->layout : LayoutAttr::get(function.getContext(), 1));
  auto types = llvm::map_to_vector(slots, [](const Slot &slot) { return Type(slot.type); });
  auto unpack = builder.create<UnpackOp>(user->getLoc(), types, whole, builder.getArrayAttr(layouts));
  if (over && bucket.zero >= 2)
    mark(unpack, bucket);
  for (auto [slot, value] : llvm::zip_equal(slots, unpack.getPieces()))
    if (slot.piece)
      Value(slot.piece->value).replaceAllUsesWith(value);
}

/// Erases the former arguments, and the casts between them and their users.
void Bucketer::eraseReplaced() {
  llvm::BitVector replaced(function.getNumArguments());
  for (const Bucket &bucket : buckets)
    for (const Piece &piece : bucket.pieces) {
      replaced.set(piece.argument.getArgNumber());
      for (Value value = piece.value; value != piece.argument;) {
        Operation *cast = value.getDefiningOp();
        value = cast->getOperand(0);
        cast->erase();
      }
    }
  function.eraseArguments(replaced);
}

LogicalResult Bucketer::run() {
  if (failed(findShards()) || failed(collect()))
    return failure();
  for (auto [number, bucket] : llvm::enumerate(buckets))
    write(bucket, "bucket" + std::to_string(number));
  eraseReplaced();
  return success();
}

namespace {
struct MoeBucketParameters : moe::impl::MoeBucketParametersBase<MoeBucketParameters> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    ParallelAttr parallel = getParallel(function);
    if (!parallel || !function.getBody().hasOneBlock())
      return signalPassFailure();
    FailureOr<SpmdAnalysis> analysis = SpmdAnalysis::compute(function);
    if (failed(analysis))
      return signalPassFailure();
    MoeBucketParametersOptions options{bytes, zero, ranks, decays};
    if (failed(Bucketer(function, options, parallel, analysis->getAxes()).run()))
      signalPassFailure();
  }
};
} // namespace
