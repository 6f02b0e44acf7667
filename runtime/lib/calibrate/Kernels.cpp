//===- Kernels.cpp - every kernel that is no product ----------------------===//

#include "calibrate/Calibrate.h"
#include "core/Attributes.h"
#include "core/Shapes.h"
#include "moert/KernelTable.h"
#include "moert/shadows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace moert::calibrate {
namespace {

constexpr int64_t kColumns = 512;
constexpr int64_t kExperts = 64, kChoices = 4;
constexpr int64_t kHeads = 8, kHeadDim = kColumns / kHeads, kBuckets = 32;

/// Size that is fixed, or grows with the rows of a case up to a limit.
struct Size {
  int64_t fixed, perRow, most;
  constexpr Size(int64_t fixed, int64_t perRow = 0, int64_t most = std::numeric_limits<int64_t>::max())
      : fixed(fixed), perRow(perRow), most(most) {}
  int64_t at(int64_t rows) const { return std::min(most, fixed + perRow * rows); }
};
constexpr Size kRows{0, 1};
/// Number of tokens whose routing values are as large as `rows` rows of kColumns.
constexpr Size kTokens{0, kColumns / kExperts};

/// Sets attributes, and the place in a group, for a number of rows.
using SetCall = std::function<void(Call &, int64_t rows)>;

/// A kernel, and the parts of its calls that are not in kernels.def.
struct KernelCase {
  Kind kind;
  std::map<std::string_view, Size> dims = {}; ///< by name in kernels.def; default: s is kRows, others are kColumns
  SetCall set = nullptr;
  std::map<std::string_view, std::vector<Size>> shapes = {}; ///< shapes of operands that kernels.def does not determine
  std::vector<int64_t> params = {};                          ///< leading integer parameters in the name of the entry
};

template <class Attributes> SetCall with(const Attributes &attributes, int64_t member = 0, int64_t members = 1) {
  return [=](Call &call, int64_t) {
    attributes.set(call);
    call.member = member;
    call.members = members;
  };
}

/// Whether plans with 16-bit values call the kernel with f32 accumulators.
bool hasWideAccumulators(Kind kind) {
  constexpr Kind kinds[] = {
      Kind::RowScale,           Kind::RowDot,         Kind::Combine,          Kind::SlotDot,
      Kind::Attention,          Kind::MergeAttention, Kind::AttentionGrad,    Kind::AttentionBiasGrad,
      Kind::AttentionSinksGrad, Kind::RowLogsumexp,   Kind::RowLogsumexpGrad, Kind::Pick,
      Kind::PickGrad,           Kind::RouterMeans,    Kind::RouterMeansGrad};
  return std::ranges::find(kinds, kind) != std::end(kinds);
}

/// Whether a call has the operand. Plans always give the optional operands of these kernels.
bool isPresent(const KernelCase &kernel, const KernelInfo::Operand &operand) {
  const bool isGiven =
      kernel.kind == Kind::Combine || kernel.kind == Kind::RouteGrad || kernel.kind == Kind::RouterMeansGrad;
  return !operand.isOptional || kernel.shapes.contains(operand.name) || (isGiven && operand.type != OperandType::I32);
}

std::vector<int64_t> shapeOf(const KernelCase &kernel, const KernelInfo::Operand &operand, int64_t rows) {
  std::vector<int64_t> dims;
  if (auto found = kernel.shapes.find(operand.name); found != kernel.shapes.end()) {
    std::ranges::transform(found->second, std::back_inserter(dims), [=](Size size) { return size.at(rows); });
    return dims;
  }
  const KernelInfo::Shape &shape = operand.shapes[0];
  if (operand.shapeCount == 0 || (shape.hasMore && shape.rank == 0))
    return {rows, kColumns};
  dims.assign(shape.hasMore, rows);
  for (int i = 0; i < shape.rank; ++i) {
    const char *name = shape.dims[i] < 0 ? "1" : infoOf(kernel.kind).dimensions[shape.dims[i]];
    auto found = kernel.dims.find(name);
    const Size usual = name == std::string_view("1") ? 1 : name == std::string_view("s") ? kRows : Size(kColumns);
    dims.push_back((found != kernel.dims.end() ? found->second : usual).at(rows));
  }
  return dims;
}

/// Makes a slot of its own for each choice, neighbours apart.
View makeSlots(Pool &pool, const std::vector<int64_t> &shape) {
  const int64_t choices = shape[0] * shape[1];
  // A step that has no divisor in common with the number of choices visits every slot.
  int64_t step = 617;
  while (std::gcd(step, choices) != 1)
    step += 2;
  return pool.integers(shape, [=](int64_t i) { return i * step % choices; });
}

/// Value at index `i` of an i32 input.
int64_t integerAt(Kind kind, std::string_view name, int64_t i, int64_t rows) {
  if (name == "experts" || name == "chosen")
    return i * 7 % kExperts;
  if (name == "shadows")
    return i % 4 == 0;
  if (name == "gathered")
    return (2 * kTokens.at(rows) + kExperts - 1 - i) / kExperts;
  if (name == "counts")
    return kind == Kind::ChooseShadows ? 1000 / (i % kExperts + 1) : kind == Kind::SliceCounts;
  if (name == "step")
    return 1;
  // Neighbouring ids and labels are apart.
  return i * 617 % (name == "labels" ? kExperts : name == "ids" ? rows : kColumns);
}

View makeOperand(Pool &pool, Kind kind, const KernelInfo::Operand &operand, const std::vector<int64_t> &shape,
                 int64_t rows) {
  const bool isOutput = operand.isOutput;
  if (operand.type == OperandType::I32 && isOutput)
    return pool.outputOf(MOERT_I32, shape);
  if (operand.type == OperandType::I32 && operand.name == std::string_view("slots"))
    return makeSlots(pool, shape);
  if (operand.type == OperandType::I32)
    return pool.integers(shape, [=](int64_t i) { return integerAt(kind, operand.name, i, rows); });
  if (operand.type == OperandType::Acc && hasWideAccumulators(kind))
    return isOutput ? pool.wideOutput(shape) : pool.wideInput(shape);
  if (operand.type == OperandType::Float && isOutput)
    return pool.outputOf(isNarrow(pool.type()) ? MOERT_F32 : MOERT_BF16, shape);
  return isOutput ? pool.output(shape) : pool.input(shape);
}

/// Makes a call of the kernel on fresh operands.
Call makeCall(Pool &pool, const KernelCase &kernel, int64_t rows) {
  const KernelInfo &info = infoOf(kernel.kind);
  pool.beginCall();
  Call call;
  call.kind = kernel.kind;
  call.viewCount = info.operandCount;
  if (kernel.set)
    kernel.set(call, rows);
  for (size_t i = 0; i < info.operandCount; ++i)
    if (const KernelInfo::Operand &operand = info.operands[i]; isPresent(kernel, operand))
      call.views[i] = makeOperand(pool, kernel.kind, operand, shapeOf(kernel, operand, rows), rows);
  return call;
}

using Cases = std::vector<KernelCase>;

void addElementwise(Cases &cases) {
  for (int64_t kind = MOERT_RELU; kind <= kLastActivation; ++kind) {
    const Size columns = isGated(kind) ? kColumns / 2 : kColumns;
    attributes::Activation form{.kind = kind, .alpha = 1.702, .limit = 7};
    attributes::ActivationGrad gradForm{.kind = kind, .alpha = 1.702, .limit = 7};
    cases.push_back({Kind::Activation, {{"m", columns}}, with(form), {}, {kind}});
    cases.push_back({Kind::ActivationGrad, {{"m", columns}}, with(gradForm), {}, {kind}});
  }
  cases.insert(
      cases.end(),
      {{Kind::Add},
       {Kind::Scale, {}, with(attributes::Scale{.factor = 0.5})},
       {Kind::Copy},
       {Kind::BiasAdd, {}, with(attributes::BiasAdd{.scale = 1}), {{"bias", {kColumns}}}},
       {Kind::BiasGrad, {}, with(attributes::BiasGrad{.scale = 1}), {{"out", {kColumns}}}},
       {Kind::RowScale},
       {Kind::RowDot},
       {Kind::Slice,
        {},
        with(attributes::Slice{.dim = 1}, 1, 2),
        {{"in", {kRows, 2, kColumns}}, {"out", {kRows, 1, kColumns}}}},
       {Kind::Dump, {}, with(attributes::Dump{.dim = 1, .blocks = 1}), {{"out", {kRows, 2 * kColumns}}}},
       {Kind::LocalReduce, {}, with(attributes::LocalReduce{.dim = 1, .blocks = 1}), {{"in", {kRows, 2 * kColumns}}}}});
}

void addTokens(Cases &cases) {
  const Size twice{0, 2};
  SetCall setSlice = [](Call &call, int64_t rows) {
    attributes::SliceCounts{.rows = rows * kExperts}.set(call);
    call.members = 2;
  };
  SetCall setLocal = [](Call &call, int64_t rows) {
    attributes::LocalSlots{.capacity = 2 * kTokens.at(rows) / kExperts, .copies = 1}.set(call);
    call.members = 2;
  };
  SetCall setWindow = [](Call &call, int64_t rows) {
    attributes::Window{.workers = 1, .rows = kTokens.at(rows), .phases = 1}.set(call);
  };
  cases.insert(cases.end(),
               {{Kind::Dispatch, {{"k", 2}, {"r", twice}}},
                {Kind::Combine, {{"k", 2}, {"r", twice}}},
                {Kind::SlotDot, {{"k", 2}, {"r", twice}}},
                {Kind::SliceCounts, {{"e", {0, kExperts}}}, setSlice},
                {Kind::LocalSlots, {{"s", kTokens}, {"k", 2}, {"e", kExperts}, {"n", kExperts / 2}}, setLocal},
                {Kind::Window, {{"s", kTokens}, {"k", 2}, {"sources", 1}, {"e", kExperts}, {"n", 1}}, setWindow}});
}

void addRouting(Cases &cases) {
  const std::map<std::string_view, Size> dims = {{"s", kTokens}, {"e", kExperts}, {"k", kChoices}, {"c", 1}};
  for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE}) {
    SetCall set = [=](Call &call, int64_t rows) {
      attributes::Route{.score = score,
                        .renormalize = 1,
                        .expertGroups = 1,
                        .topGroups = 1,
                        .groupScore = MOERT_GROUP_MAX,
                        .capacity = 2 * kTokens.at(rows) * kChoices / kExperts,
                        .groups = 1,
                        .chunks = 1,
                        .leave = -1,
                        .homes = 1,
                        .homeStride = 1,
                        .homeSpan = 1,
                        .routingScale = 1}
          .set(call);
    };
    attributes::RouteGrad grad{.score = score, .renormalize = 1, .groups = 1, .routingScale = 1};
    cases.push_back({Kind::Route, dims, set, {}, {score}});
    cases.push_back({Kind::RouteGrad, dims, with(grad), {}, {score}});
  }
}

/// Shadows are chosen for as many workers as there can be.
void addShadows(Cases &cases) {
  for (int64_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE}) {
    SetCall set = [=](Call &call, int64_t rows) {
      const int64_t workers = std::gcd(rows, kExperts);
      attributes::ChooseShadows{.policy = policy,
                                .workers = workers,
                                .nodeWorkers = std::gcd<int64_t>(workers, 8),
                                .most = kExperts / 4,
                                .phases = 1,
                                .rowComputeS = 1e-6,
                                .rowSendS = 1e-6,
                                .rowLocalS = 1e-6,
                                .rowNodeS = 1e-6,
                                .expertS = 1e-5,
                                .startS = 1e-5}
          .set(call);
    };
    cases.push_back({Kind::ChooseShadows, {{"sources", kRows}, {"e", kExperts}}, set, {}, {policy}});
  }
  const Size all{0, kTokens.perRow * kChoices}, some = kExperts / 4;
  cases.push_back({Kind::MergeChoices,
                   {{"s", kTokens}, {"k", kChoices}, {"h", some}, {"r", all}},
                   with(attributes::MergeChoices{.experts = kExperts, .copies = 1})});
  cases.push_back({Kind::DivideChoices,
                   {{"s", kTokens}, {"k", kChoices}, {"e", kExperts}, {"c", 1}, {"r", some}},
                   with(attributes::DivideChoices{.chunks = 1})});
}

/// Adds kernels on each number of a value alone.
void addNumbers(Cases &cases) {
  attributes::Dropout dropout{.seed = 1,
                              .rowParts = 1,
                              .rowStride = 1,
                              .columnParts = 1,
                              .columnStride = 1,
                              .cutParts = 1,
                              .sequences = 1,
                              .length = 1,
                              .p = 0.1};
  attributes::Rotary rotary{.period = 4096,
                            .headDim = kHeadDim,
                            .rotaryDim = kHeadDim,
                            .direction = 1,
                            .cutParts = 1,
                            .cutStride = 1,
                            .base = 10000,
                            .factor = 1,
                            .high = 1,
                            .scale = 1};
  attributes::Positions positions{.period = kColumns, .cutParts = 1, .cutStride = 1};
  // Its eps is above all inputs, so that roots are of positive numbers.
  attributes::InverseRoot root{.scale = 1, .eps = 2};
  cases.insert(cases.end(), {{Kind::Positions, {{"s", {0, kColumns}}}, with(positions)},
                             {Kind::IndexAffine, {}, with(attributes::IndexAffine{.factor = 2, .offset = 1})},
                             {Kind::Fill, {}, with(attributes::Fill{.value = 0.5})},
                             {Kind::Cast},
                             {Kind::InverseRoot, {}, with(root)},
                             {Kind::InverseRootGrad, {}, with(attributes::InverseRootGrad{.scale = 1})},
                             {Kind::Clamp, {}, with(attributes::Clamp{.limit = 1})},
                             {Kind::ClampGrad, {}, with(attributes::ClampGrad{.limit = 1})},
                             {Kind::Dropout, {}, with(dropout)},
                             {Kind::Rotary, {}, with(rotary)}});
}

/// Tables of embeddings have as many rows as are gathered, so that the sum of their gradients grows with them.
void addNorms(Cases &cases) {
  attributes::EmbeddingGrad grad{.parts = 1, .stride = 1, .padding = -1};
  cases.insert(cases.end(), {{Kind::Norm, {}, with(attributes::Norm{.kind = MOERT_RMS_NORM, .eps = 1e-6})},
                             {Kind::NormGrad, {}, with(attributes::NormGrad{.kind = MOERT_RMS_NORM, .eps = 1e-6})},
                             {Kind::NormWgrad, {}, with(attributes::NormWgrad{.kind = MOERT_RMS_NORM, .eps = 1e-6})},
                             {Kind::Embedding, {{"v", kRows}}, with(attributes::Embedding{.parts = 1, .stride = 1})},
                             {Kind::EmbeddingGrad, {{"v", kRows}}, with(grad)}});
}

/// Causal attention is in sequences of at most 64 tokens, so that times grow with the tokens. Heads are of 64 columns,
/// or of 128 on devices: today's models have these, and devices have other kernels for them.
void addAttention(Cases &cases, const Settings &settings) {
  const int64_t heads = settings.isDevice() ? kColumns / 128 : kHeads;
  const Size length{0, 1, 64};
  SetCall set = [=](Call &call, int64_t rows) { setCausal(call, length.at(rows), heads, kColumns / heads); };
  SetCall join = [](Call &call, int64_t rows) {
    const int64_t parts = std::gcd<int64_t>(rows, 2);
    attributes::JoinSequences{.parts = parts, .sequences = 1, .length = rows / parts}.set(call);
  };
  const std::map<std::string_view, Size> apart = {{"c", kColumns / 2}, {"r", kColumns / heads / 2}};
  const std::map<std::string_view, Size> dims = {{"n", kRows}, {"o", kRows}, {"p", kRows}, {"h", heads}};
  cases.insert(
      cases.end(),
      {{Kind::AppendToHeads, apart},
       {Kind::AppendToHeadsGrad, apart},
       {Kind::Attention, dims, set},
       {Kind::AttentionGrad, dims, set},
       {Kind::AttentionBiasGrad, dims, set, {{"bias", {heads, length, length}}, {"out", {heads, length, length}}}},
       {Kind::AttentionSinksGrad, {{"h", heads}}},
       {Kind::JoinSequences, {}, join},
       {Kind::MergeAttention, {{"n", kRows}, {"h", heads}}}});
}

/// Adds kernels whose rows are queries, of kHeadDim keys.
void addRelativeBias(Cases &cases) {
  const std::map<std::string_view, Size> dims = {{"b", kBuckets}, {"h", kHeads}, {"l", kRows}, {"lk", kHeadDim}};
  attributes::RelativeBias bias{.bidirectional = 1, .maxDistance = 128};
  attributes::RelativeBiasGrad grad{.bidirectional = 1, .maxDistance = 128};
  cases.push_back({Kind::RelativeBias, dims, with(bias)});
  cases.push_back({Kind::RelativeBiasGrad, dims, with(grad)});
}

void addLosses(Cases &cases) {
  const Size each{0, kColumns};
  const std::map<std::string_view, Size> router = {{"s", kTokens}, {"e", kExperts}, {"g", 1}};
  cases.insert(
      cases.end(),
      {{Kind::RowLogsumexp},
       {Kind::RowLogsumexpGrad},
       {Kind::Pick, {{"s", kTokens}, {"v", kExperts}}, with(attributes::Pick{.parts = 1, .stride = 1})},
       {Kind::PickGrad, {{"s", kTokens}, {"v", kExperts}}, with(attributes::PickGrad{.parts = 1, .stride = 1})},
       {Kind::LabelSum, {{"s", each}}},
       {Kind::LabelCount},
       {Kind::LabelSumGrad, {{"s", each}}},
       {Kind::Divide},
       {Kind::RouterMeans, router, with(attributes::RouterMeans{.topK = kChoices})},
       {Kind::RouterMeansGrad, router}});
}

/// Adds optimizers. Kernels on one number have one size only.
void addOptimizers(Cases &cases) {
  attributes::Adam adam{.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01};
  cases.insert(cases.end(), {{Kind::SumSquares},
                             {Kind::ClipFactor, {}, with(attributes::ClipFactor{.most = 1})},
                             {Kind::SquareRoot},
                             {Kind::Sgd, {}, with(attributes::Sgd{.momentum = 0.9, .decay = 0.01})},
                             {Kind::Adam, {}, with(adam)}});
}

std::vector<KernelCase> allCases(const Settings &settings) {
  Cases cases;
  for (auto add : {addElementwise, addTokens, addRouting, addShadows, addNumbers, addNorms})
    add(cases);
  addAttention(cases, settings);
  for (auto add : {addRelativeBias, addLosses, addOptimizers})
    add(cases);
  return cases;
}

/// Numbers of rows of kColumns to measure.
std::vector<int64_t> rowsOf(const Settings &settings) {
  if (!settings.isDevice())
    return settings.quick ? std::vector<int64_t>{1, 32, 1024} : std::vector<int64_t>{1, 4, 16, 64, 256, 1024, 4096};
  std::vector<int64_t> sizes;
  const int64_t middle = std::lround(std::sqrt(settings.device.kernelRows));
  for (int64_t rows = 1; rows <= settings.device.kernelRows; rows *= settings.quick ? middle : 4)
    sizes.push_back(rows);
  return sizes;
}

/// Counts bytes as the compiler does: all operands, but only the part that is read of a slice, a table or a row to pick
/// from.
double countBytes(const Call &call) {
  if (call.kind == Kind::Slice)
    return 2 * static_cast<double>(call.views[operands::Slice::out].bytes());
  auto readByIndex = [&](size_t index, size_t out) {
    return static_cast<double>(call.views[index].bytes() + 2 * call.views[out].bytes());
  };
  if (call.kind == Kind::Embedding)
    return readByIndex(operands::Embedding::ids, operands::Embedding::out);
  if (call.kind == Kind::Pick)
    return readByIndex(operands::Pick::labels, operands::Pick::out);
  double bytes = 0;
  for (int i = 0; i < call.viewCount; ++i)
    if (call.views[static_cast<size_t>(i)])
      bytes += static_cast<double>(call.views[static_cast<size_t>(i)].bytes());
  return bytes;
}

} // namespace

Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits) {
  pool.setReach(pool.bench().reach.recent);
  const std::vector<KernelCase> cases = allCases(settings);
  const std::vector<int64_t> sizes = rowsOf(settings);
  std::vector<MakeCall> calls;
  for (const KernelCase &one : cases)
    for (int64_t rows : sizes)
      calls.push_back([&pool, &one, rows] { return makeCall(pool, one, rows); });
  std::vector<double> seconds;
  const std::string dtype = dtypeName(pool.type());
  MOERT_RETURN_IF_ERROR(
      measureKernels(pool.bench(), calls, settings.quick ? 3 : 7, seconds, settings.progress, "kernels of " + dtype));
  for (size_t c = 0; c < cases.size(); ++c) {
    KernelFit &fit = fits.emplace_back();
    fit.calls = {kindName(cases[c].kind), cases[c].params};
    fit.dtype = dtype;
    for (size_t s = 0; s < sizes.size(); ++s)
      fit.samples.push_back({countBytes(calls[c * sizes.size() + s]()), seconds[c * sizes.size() + s]});
    fit.fit = fitLine(fit.samples);
    // A device may be too wide for these sizes to make a difference.
    if (fit.fit.perByte <= 0 && !settings.isDevice())
      return Status::error(MOERT_ERROR_INTERNAL, "the times of '" + fit.calls.kernel +
                                                     "' do not grow with its size: too much else runs on this machine");
  }
  return {};
}

} // namespace moert::calibrate
