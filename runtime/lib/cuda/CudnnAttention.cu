//===- CudnnAttention.cu - attention by cuDNN -----------------------------===//

#include "cuda/CudnnAttention.h"

#include "core/Checks.h"
#include "cuda/Map.cuh"

#include <climits>
#include <cstdlib>
#include <iostream>

namespace moert::cuda {

// --- Graphs ------------------------------------------------------------------

Status CudnnGraphs::build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph) {
#if MOERT_HAS_CUDNN
  if (!cudnn)
    MOERT_RETURN_IF_ERROR(Cudnn::open(cudnn));
  MOERT_RETURN_IF_ERROR(cudnn->build(shape, graph));
  const int64_t bytes = graph->workspaceBytes();
  if (bytes <= kMostCudnnBytes)
    return {};
  graph.reset();
  return Status::error(MOERT_ERROR_UNSUPPORTED, "cuDNN: expected a workspace of at most ", kMostCudnnBytes,
                       " bytes but got ", bytes);
#else
  static_cast<void>(shape);
  static_cast<void>(graph);
  return Status::error(MOERT_ERROR_UNSUPPORTED, "this build has no cuDNN");
#endif
}

static std::string describe(const CudnnShape &shape) {
  auto number = [](int64_t value) { return std::to_string(value); };
  return number(shape.sequences) + " sequences of " + number(shape.queries) + " queries and " + number(shape.keys) +
         " keys, " + number(shape.heads) + " heads and " + number(shape.keyHeads) + " key heads of " +
         number(shape.width) + " and " + number(shape.valueWidth) + " columns, window " + number(shape.window) +
         (shape.hasSinks ? ", with sinks" : "") + (shape.isDeterministic ? ", deterministic" : "");
}

/// Bytes of the graph's workspace, aligned as cudaMalloc aligns memory.
static int64_t workspaceOf(const CudnnGraph &graph) { return divideUp(graph.workspaceBytes(), 256) * 256; }

static int64_t bytesOf(const CudnnParts &parts, const CudnnGraph &graph) {
  const CudnnShape &shape = parts.shape;
  const int64_t stats = parts.sequences * shape.sequences * parts.heads * shape.heads * shape.queries;
  auto bytesOfFloats = [](int64_t count) { return divideUp(count * static_cast<int64_t>(sizeof(float)), 16) * 16; };
  return workspaceOf(graph) + bytesOfFloats(stats) + bytesOfFloats(shape.hasSinks ? shape.heads : 0);
}

Status CudnnGraphs::find(const Target &target, const CudnnParts &parts, CudnnGraph *&graph) {
  const CudnnShape &shape = parts.shape;
  const std::lock_guard<std::mutex> lock(*mutex);
  auto found = graphs.find(shape);
  if (found == graphs.end()) {
    // Other kernels would make the steps of the graph differ from the first step.
    if (target.stream.isCapturing)
      return Status::error(MOERT_ERROR_UNSUPPORTED, "cuDNN's graph of '", kindName(target.kind),
                           "' must be built, which a CUDA graph cannot wait for");
    found = graphs.emplace(shape, nullptr).first;
    if (Status status = build(shape, found->second); !status.ok())
      std::cerr << std::string("moert: warning: '") + kindName(target.kind) + "' of " + describe(shape) +
                       ": MoePlan's kernels compute it, because cuDNN cannot: " + status.message + "\n";
  }
  graph = found->second.get();
  if (graph)
    most = std::max(most, bytesOf(parts, *graph));
  return {};
}

int64_t CudnnGraphs::mostBytes() const {
  const std::lock_guard<std::mutex> lock(*mutex);
  return most;
}

// --- Choice ------------------------------------------------------------------

/// Bound for the memory of a backward. The parts of a call are as small as this bound demands. If a part of one head
/// exceeds the workspace, other kernels compute the call.
static constexpr int64_t kBackwardBytes = int64_t(256) << 20;

/// Bytes that a backward keeps: the gradients of the queries in f32, to which blocks add in any order. Deterministic,
/// it keeps a 16-bit matrix of the gradients of probabilities for each head instead, and sums these in a fixed order.
static int64_t backwardBytes(const CudnnShape &shape) {
  auto padded = [](int64_t rows) { return divideUp(rows, 128) * 128; };
  const int64_t perRow = shape.isDeterministic ? padded(shape.keys) * 2 : shape.width * int64_t(sizeof(float));
  return shape.sequences * shape.heads * padded(shape.queries) * perRow;
}

/// Least divisor of `count` that is at least `needed`, or `count`.
static int64_t divisorOf(int64_t count, int64_t needed) {
  int64_t divisor = std::clamp<int64_t>(needed, 1, count);
  while (count % divisor != 0)
    ++divisor;
  return divisor;
}

/// Cuts gradients into parts. Returns false if the smallest parts are too large.
static bool cut(CudnnParts &parts) {
  CudnnShape &shape = parts.shape;
  if (!shape.isGradient)
    return true;
  parts.sequences = divisorOf(shape.sequences, divideUp(backwardBytes(shape), kBackwardBytes));
  shape.sequences /= parts.sequences;
  parts.heads = divisorOf(shape.keyHeads, divideUp(backwardBytes(shape), kBackwardBytes));
  shape.keyHeads /= parts.heads;
  shape.heads /= parts.heads;
  return backwardBytes(shape) <= kMostCudnnBytes;
}

/// Finds the key heads that the rank's query heads use. cuDNN needs the same number of query heads for each.
static bool findKeyHeads(const AttentionShape &all, CudnnParts &parts) {
  const int64_t heads = all.hasOwnKeys ? all.heads : all.modelHeads;
  if (heads % all.keyHeads != 0)
    return false;
  const int64_t group = heads / all.keyHeads;
  // In all other cases some ranks have parts of groups.
  if (all.heads % group != 0 && group % all.heads != 0)
    return false;
  parts.firstKeyHead = all.keyHead(0);
  parts.shape.keyHeads = all.keyHead(all.heads - 1) - parts.firstKeyHead + 1;
  return true;
}

/// Whether some version of cuDNN has heads of these columns on some device. cudnn-frontend knows which.
static bool areWidthsForCudnn(int64_t width, int64_t valueWidth) {
  return std::min(width, valueWidth) > 0 && width % 8 == 0 && valueWidth % 8 == 0 && std::max(width, valueWidth) <= 256;
}

/// Whether cuDNN can compute the mask. Each query must see a key, and windows must be causal. The queries of a part of
/// a sequence must all see the same keys.
static bool isMaskForCudnn(const AttentionShape &all) {
  const bool hasWindow = all.window > 0 && all.window < all.keys;
  if (all.block > 0 || all.allKeys > all.keys || (all.allQueries > all.queries && (all.causal || hasWindow)))
    return false;
  return all.queries > 1 && all.keys > 1 && (all.causal ? all.queries <= all.keys : !hasWindow);
}

bool isCudnnFor(const DeviceContext &device) {
#if MOERT_HAS_CUDNN
  return device.capability == 90 || device.capability / 10 == 10;
#else
  static_cast<void>(device);
  return false;
#endif
}

bool canUseCudnn(const Target &target, const AttentionInputs &inputs, const AttentionOptions &options, bool isGradient,
                 CudnnParts &parts) {
  if (!isCudnnFor(target.device) || !isNarrow(inputs.q.dtype) || inputs.bias || options.dropout > 0)
    return false;
  const AttentionShape all(inputs, options);
  if (all.sequences == 0 || !areWidthsForCudnn(all.width, all.valueWidth) || !isMaskForCudnn(all))
    return false;
  // cuDNN counts in 32 bits.
  const int64_t columns = std::max(all.width, all.valueWidth) * std::max(all.heads, all.keyHeads);
  if (all.sequences * std::max(all.queries, all.keys) > INT_MAX / columns)
    return false;
  CudnnShape &shape = parts.shape;
  shape.dtype = inputs.q.dtype;
  shape.isGradient = isGradient;
  shape.sequences = all.sequences;
  shape.queries = all.queries;
  shape.keys = all.keys;
  shape.heads = all.heads;
  shape.width = all.width;
  shape.valueWidth = all.valueWidth;
  shape.queryStride = all.heads * all.width;
  shape.keyStride = all.keyHeads * all.width;
  shape.valueStride = all.keyHeads * all.valueWidth;
  shape.resultStride = all.heads * all.valueWidth;
  shape.causal = all.causal;
  shape.window = all.window < all.keys ? all.window : 0;
  shape.scale = options.scale;
  shape.hasSinks = inputs.sinks && !isGradient;
  shape.isDeterministic = isGradient && target.device.isDeterministic;
  return findKeyHeads(all, parts) && cut(parts);
}

// --- Statistics --------------------------------------------------------------

namespace {

/// Copies lse [B L, H] to statistics [B, H, L], or back.
template <class To, class From, bool IsBack> struct TurnStats {
  const From *from;
  To *to;
  int64_t heads, queries;

  template <int> __device__ void run(int64_t at) const {
    const int64_t row = at / heads, h = at - row * heads, b = row / queries, i = row - b * queries;
    const int64_t turned = (b * heads + h) * queries + i;
    to[IsBack ? at : turned] = convert<To>(from[IsBack ? turned : at]);
  }
};

template <bool IsBack> Status turnStats(const Target &target, View lse, float *stats, int64_t queries) {
  const int64_t heads = lse.dims[1];
  return withFloating(lse.dtype, [&]<class L>(Type<L>) {
    if constexpr (IsBack)
      return forElements<1>(target, {lse.elements()}, false,
                            TurnStats<L, float, true>{stats, lse.as<L>(), heads, queries});
    else
      return forElements<1>(target, {lse.elements()}, false,
                            TurnStats<float, L, false>{lse.as<const L>(), stats, heads, queries});
  });
}

/// Copies sinks of 16 bits to f32.
template <class T> struct WidenSinks {
  const T *from;
  float *to;

  template <int> __device__ void run(int64_t at) const { to[at] = convert<float>(from[at]); }
};

Status widenSinks(const Target &target, View sinks, float *to) {
  if (!sinks)
    return {};
  return withFloating(sinks.dtype, [&]<class T>(Type<T>) {
    return forElements<1>(target, {sinks.elements()}, false, WidenSinks<T>{sinks.as<const T>(), to});
  });
}

// --- Parts -------------------------------------------------------------------

template <class T> T *after(T *data, int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  constexpr int64_t kSize = 2;
  return data ? reinterpret_cast<T *>(reinterpret_cast<Byte *>(data) + kSize * elements) : nullptr;
}

/// Operands of a part, from the operands of the whole call.
CudnnOperands operandsOf(const CudnnOperands &all, const CudnnParts &parts, int64_t sequencePart, int64_t headPart) {
  const CudnnShape &shape = parts.shape;
  const int64_t query = sequencePart * shape.sequences * shape.queries;
  const int64_t key = sequencePart * shape.sequences * shape.keys;
  const int64_t head = headPart * shape.heads, keyHead = parts.firstKeyHead + headPart * shape.keyHeads;
  const int64_t atQ = query * shape.queryStride + head * shape.width;
  const int64_t atK = key * shape.keyStride + keyHead * shape.width;
  const int64_t atV = key * shape.valueStride + keyHead * shape.valueWidth;
  const int64_t atResult = query * shape.resultStride + head * shape.valueWidth;
  // The statistics of head parts follow each other, because heads are cut only if each sequence is a part.
  const int64_t atStats = query * shape.heads * parts.heads + head * shape.queries;
  return {after(all.q, atQ),     after(all.k, atK),
          after(all.v, atV),     after(all.result, atResult),
          all.stats + atStats,   after(all.grads, atResult),
          after(all.gradQ, atQ), after(all.gradK, atK),
          after(all.gradV, atV), all.sinks};
}

Status runParts(const Target &target, CudnnGraph &graph, const CudnnParts &parts, const CudnnOperands &all,
                void *workspace) {
  for (int64_t sequence = 0; sequence < parts.sequences; ++sequence)
    for (int64_t head = 0; head < parts.heads; ++head)
      MOERT_RETURN_IF_ERROR(graph.run(target.stream.stream, operandsOf(all, parts, sequence, head), workspace));
  return {};
}

/// Reserves memory for all statistics, for sinks and for a graph. The first call reserves the largest amount that any
/// call needs, because growing memory keeps its smaller blocks.
Status reserve(const Target &target, const CudnnGraph &graph, int64_t stats, int64_t sinks, float *&statsMemory,
               float *&sinksMemory, void *&workspace) {
  MOERT_RETURN_IF_ERROR(target.stream.workspace.reserve(target.device.cudnn.mostBytes(), workspace));
  return reservePieces(target.stream.workspace, [&](Regions &pieces) {
    workspace = pieces.take<char>(workspaceOf(graph));
    statsMemory = pieces.take<float>(stats);
    sinksMemory = pieces.take<float>(sinks);
  });
}

/// Clears the gradients of key heads that no query of the rank uses.
Status clearUntaken(const Target &target, const CudnnParts &parts, View gradK, View gradV) {
  if (parts.shape.keyHeads * parts.heads * parts.shape.width == parts.shape.keyStride)
    return {};
  for (const View &gradient : {gradK, gradV})
    MOERT_RETURN_IF_ERROR(clearBytes(target.stream.stream, gradient.data, gradient.bytes(), "cannot clear gradients"));
  return {};
}

/// Use of cuDNN that MOERT_CUDNN demands. Measurements compare cuDNN with the kernels of this library.
Status readDemand(std::string &demand) {
  const char *text = std::getenv("MOERT_CUDNN");
  demand = text ? text : "";
  return demand.empty() || demand == "always" || demand == "never"
             ? Status()
             : invalid("MOERT_CUDNN: expected always or never but got '", demand, "'");
}

/// Finds the graph of a call. Null if the kernels of this library compute the call.
Status findGraph(const Target &target, const AttentionInputs &inputs, const AttentionOptions &options, bool isGradient,
                 CudnnParts &parts, CudnnGraph *&graph) {
  graph = nullptr;
  std::string demand;
  MOERT_RETURN_IF_ERROR(readDemand(demand));
  if (demand != "never" && canUseCudnn(target, inputs, options, isGradient, parts))
    MOERT_RETURN_IF_ERROR(target.device.cudnn.find(target, parts, graph));
  if (!graph && demand == "always" && isNarrow(inputs.q.dtype))
    return Status::error(MOERT_ERROR_UNSUPPORTED, "cuDNN cannot compute '", kindName(target.kind),
                         "', but MOERT_CUDNN=always demands it");
  return {};
}

bool areAllAligned(std::initializer_list<View> operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const View &view) { return areAligned(static_cast<const char *>(view.data)); });
}

/// Finds the graphs of calls without running them.
class Preparation final : public Kernels {
public:
  explicit Preparation(const Target &target) : target(target) {}

  Status attention(const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) override {
    MOERT_RETURN_IF_ERROR(checkAttention(inputs, out, lse, options));
    return find(inputs, options, false);
  }
  Status attentionGrad(const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ, View gradK,
                       View gradV, const AttentionOptions &options) override {
    MOERT_RETURN_IF_ERROR(checkAttentionGrad(inputs, attended, lse, grads, gradQ, gradK, gradV, options));
    return find(inputs, options, true);
  }
  Status forcedChoices(RoutingPage &, View, View &) override { return {}; }
  Status recordChoices(View, RoutingPage &) override { return {}; }

private:
  Status find(const AttentionInputs &inputs, const AttentionOptions &options, bool isGradient) const {
    CudnnParts parts;
    CudnnGraph *graph = nullptr;
    return findGraph(target, inputs, options, isGradient, parts, graph);
  }

  Target target;
};

} // namespace

// --- Calls -------------------------------------------------------------------

Status prepareAttention(const Target &target, const Call &call) {
  if (call.kind != Kind::Attention && call.kind != Kind::AttentionGrad)
    return {};
  Preparation preparation(target);
  return launchKernel(preparation, call);
}

Status attentionByCudnn(const Target &target, const AttentionInputs &inputs, View out, View lse,
                        const AttentionOptions &options, bool &isDone) {
  CudnnParts parts;
  CudnnGraph *graph = nullptr;
  if (areAllAligned({inputs.q, inputs.k, inputs.v, out}))
    MOERT_RETURN_IF_ERROR(findGraph(target, inputs, options, false, parts, graph));
  isDone = graph;
  if (!isDone)
    return {};
  CudnnOperands operands{inputs.q.data, inputs.k.data, inputs.v.data, out.data};
  void *workspace = nullptr;
  float *sinks = nullptr;
  MOERT_RETURN_IF_ERROR(reserve(target, *graph, lse.elements(), inputs.sinks ? inputs.sinks.elements() : 0,
                                operands.stats, sinks, workspace));
  operands.sinks = sinks;
  MOERT_RETURN_IF_ERROR(widenSinks(target, inputs.sinks, sinks));
  MOERT_RETURN_IF_ERROR(runParts(target, *graph, parts, operands, workspace));
  return turnStats<true>(target, lse, operands.stats, parts.shape.queries);
}

Status attentionGradByCudnn(const Target &target, const AttentionInputs &inputs, View attended, View lse, View grads,
                            View gradQ, View gradK, View gradV, const AttentionOptions &options, bool &isDone) {
  CudnnParts parts;
  CudnnGraph *graph = nullptr;
  if (areAllAligned({inputs.q, inputs.k, inputs.v, attended, grads, gradQ, gradK, gradV}))
    MOERT_RETURN_IF_ERROR(findGraph(target, inputs, options, true, parts, graph));
  isDone = graph;
  if (!isDone)
    return {};
  CudnnOperands operands{inputs.q.data, inputs.k.data, inputs.v.data, attended.data, nullptr,
                         grads.data,    gradQ.data,    gradK.data,    gradV.data};
  void *workspace = nullptr;
  float *none = nullptr;
  MOERT_RETURN_IF_ERROR(reserve(target, *graph, lse.elements(), 0, operands.stats, none, workspace));
  MOERT_RETURN_IF_ERROR(turnStats<false>(target, lse, operands.stats, parts.shape.queries));
  MOERT_RETURN_IF_ERROR(clearUntaken(target, parts, gradK, gradV));
  return runParts(target, *graph, parts, operands, workspace);
}

} // namespace moert::cuda
