//===- ChunkExperts.cpp - moe-chunk-experts ------------------------------------===//
#include "ExpertPath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"

namespace mlir::moe {
#define GEN_PASS_DEF_MOECHUNKEXPERTS
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
} // namespace mlir::moe

using namespace mlir;
using namespace mlir::moe;

/// Limit of chunks. Programs with more take too long to compile.
static constexpr int64_t maxChunks = 1024;

/// The first op on the path that cannot be done for part of its rows, or null.
static Operation *findUnchunkable(const ExpertPath &path) {
  for (Operation *op : path.ops)
    if (!isa<MoeChunkableOpInterface>(op))
      return op;
  return nullptr;
}

static bool canChunk(const ExpertPath &path, RowChunk chunk) {
  return llvm::all_of(path.ops, [&](Operation *op) { return cast<MoeChunkableOpInterface>(op).canChunk(chunk); });
}

/// The least number of rows of a chunk that holds its choices and can be divided as the whole is on the path. None if
/// no number up to twice the whole can.
static std::optional<RowChunk> findChunk(ExpertPath &path, int64_t chunks) {
  RankedTensorType rows = path.dispatch.getResult().getType();
  int64_t whole = rows.getDimSize(getRowDim(rows));
  RankedTensorType slots = path.dispatch.getSlots().getType();
  int64_t tokens = slots.getDimSize(0), choices = slots.getDimSize(1);
  int64_t least = path.slots.isDropless() ? choices * static_cast<int64_t>(llvm::divideCeil(tokens, chunks))
                                          : static_cast<int64_t>(llvm::divideCeil(whole, chunks));
  for (int64_t part = std::max<int64_t>(1, least); part <= 2 * std::max<int64_t>(1, whole); ++part)
    if (canChunk(path, {part, whole}))
      return RowChunk{part, whole};
  return std::nullopt;
}

/// Whether a collective makes or takes the value, so that two streams share it.
static bool isExchanged(Value value) {
  Operation *op = value.getDefiningOp();
  return (op && isCollective(op)) || llvm::any_of(value.getUsers(), [](Operation *user) {
           return isCollective(user) || (isAlias(user) && llvm::any_of(user->getResults(), isExchanged));
         });
}

namespace {
/// Rewrites one layer.
class ChunkedLayer {
public:
  ChunkedLayer(ExpertPath path, int64_t chunks, RowChunk chunk, int64_t number)
      : path(path), chunks(chunks), chunk(chunk), number(number), loc(path.dispatch.getLoc()), builder(path.combine) {}

  /// Rewrites the layer. A depth of 0 means no ring.
  void rewrite(int64_t exchangedRing, int64_t hiddenRing);

private:
  Value dispatchInChunks();
  Value buildChunk(int64_t index, Value rows, Value counts);
  void setRings(int64_t exchangedRing, int64_t hiddenRing);

  ExpertPath path;
  int64_t chunks;
  RowChunk chunk;
  int64_t number;
  Location loc;
  OpBuilder builder;
};
} // namespace

/// Dispatches the rows, numbered chunk by chunk. There may be more of them, which take no choices.
Value ChunkedLayer::dispatchInChunks() {
  Value rows = builder.clone(*path.dispatch)->getResult(0);
  SmallVector<int64_t> shape(getTensorType(rows).getShape());
  if (path.slots.isDropless()) {
    shape[0] = chunks * chunk.part;
  } else {
    if (chunks * chunk.part != chunk.whole)
      path.slots->emitRemark() << "moe-chunk-experts: expected " << chunk.whole
                               << " rows of an expert to be divisible into " << chunks
                               << " chunks; the buffer is padded to " << chunks * chunk.part;
    shape[0] *= chunks;
    shape[1] = chunk.part;
  }
  path.slots.setChunked(chunks, chunk.part);
  rows.setType(RankedTensorType::get(shape, getTensorType(rows).getElementType()));
  return rows;
}

Value ChunkedLayer::buildChunk(int64_t index, Value rows, Value counts) {
  IRMapping mapping;
  mapping.map(path.dispatch.getResult(), rows);
  mapping.map(path.slots.getCounts(), counts);
  auto attribute = ChunkAttr::get(builder.getContext(), index, chunks);
  for (Operation *op : path.ops)
    cast<MoeChunkableOpInterface>(op).buildOnChunk(builder, mapping, chunk)->setAttr(kChunkAttrName, attribute);
  return mapping.lookup(path.combine.getRows());
}

/// Sets rings before the ops are repeated, so that those of all chunks are in one ring.
void ChunkedLayer::setRings(int64_t exchangedRing, int64_t hiddenRing) {
  auto layer = dyn_cast<NameLoc>(loc);
  std::string prefix = (layer ? layer.getName().str() : "") + "." + std::to_string(number) + ".";
  for (auto [index, op] : llvm::enumerate(path.ops)) {
    int64_t depth = llvm::any_of(op->getResults(), isExchanged) ? exchangedRing : hiddenRing;
    if (depth > 0 && isa<FloatType>(getTensorType(op->getResult(0)).getElementType()))
      op->setAttr(kRingAttrName, RingAttr::get(builder.getContext(), prefix + std::to_string(index), depth));
  }
}

void ChunkedLayer::rewrite(int64_t exchangedRing, int64_t hiddenRing) {
  setRings(exchangedRing, hiddenRing);
  auto rows = builder.create<SplitOp>(loc, dispatchInChunks(), chunks);
  auto counts = builder.create<SplitOp>(loc, path.slots.getCounts(), chunks);
  SmallVector<Value> returned;
  for (int64_t index = 0; index < chunks; ++index)
    returned.push_back(buildChunk(index, rows.getParts()[index], counts.getParts()[index]));
  path.combine.getRowsMutable().assign(builder.create<ConcatOp>(loc, returned));
  for (Operation *op : llvm::reverse(path.ops))
    op->erase();
  path.dispatch.erase();
  if (counts->use_empty())
    counts.erase();
}

namespace {
struct MoeChunkExperts : moe::impl::MoeChunkExpertsBase<MoeChunkExperts> {
  using Base::Base;

  void runOnOperation() override {
    if (chunks < 1 || chunks > maxChunks || exchangedRing < 0 || hiddenRing < 0) {
      getOperation().emitError() << "expected chunks from 1 to " << maxChunks << " and rings of at least 0 but got "
                                 << chunks.getValue() << ", " << exchangedRing.getValue() << " and "
                                 << hiddenRing.getValue();
      return signalPassFailure();
    }
    if (chunks == 1)
      return;
    // Layers with chunks were divided by another pass.
    for (auto [number, dispatch] : llvm::enumerate(ExpertPath::getDispatches(getOperation())))
      if (!dispatch->hasAttr(kChunkAttrName))
        rewrite(dispatch, static_cast<int64_t>(number));
  }

  void rewrite(DispatchOp dispatch, int64_t number) {
    auto leave = [&](const Twine &reason) { leaveLayer(dispatch, "moe-chunk-experts", reason); };
    std::string reason;
    FailureOr<ExpertPath> path = ExpertPath::find(dispatch, reason);
    if (failed(path))
      return leave(reason);
    if (Operation *op = findUnchunkable(*path))
      return leave("'" + op->getName().getStringRef() + "' cannot be computed for a part of its rows");
    if (path->slots.getChunks() != 1)
      return leave("it is already in chunks");
    if (!path->slots.canChunk())
      return leave("'" + path->slots->getName().getStringRef() + "' cannot number its rows in chunks");
    std::optional<RowChunk> chunk = findChunk(*path, chunks);
    if (!chunk)
      return leave("its rows cannot be divided into " + Twine(chunks.getValue()) + " chunks");
    ChunkedLayer(*path, chunks, *chunk, number).rewrite(exchangedRing, hiddenRing);
  }
};
} // namespace
