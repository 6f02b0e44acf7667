//===- Import.cpp - a model config as an L0 graph -------------------------===//

#include "moe/Import/Import.h"

#include "GraphBuilder.h"

#include "moe/Dialect/Moe/IR/LoadBound.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

/// Run time counts tokens and their choices in 32 bits.
static constexpr int64_t maxChoices = std::numeric_limits<int32_t>::max();
static constexpr int64_t maxTokens = maxChoices / 8;
static constexpr int64_t maxLayers = 10000;
/// Largest multiple of a mean; a larger one bounds nothing.
static constexpr double maxFactor = 1e6;

namespace {

/// Builds `x + moe(x)`, or `moe(x)`, for each layer.
class StackBuilder : GraphBuilder {
public:
  using GraphBuilder::GraphBuilder;

  OwningOpRef<ModuleOp> build(int64_t layers) {
    Value x = addArgument("x", "input", tensor({tokens, layer.hidden}));
    for (int64_t i = 0; i < layers; ++i) {
      Value y = buildLayer(i, x);
      x = options.residual ? builder.create<AddOp>(location, x, y).getResult() : y;
    }
    return finish({{"y", "output", x}, {"aux", "output", aux}});
  }
};

} // namespace

static llvm::Error makeError(const Twine &message) { return llvm::createStringError("error: " + message); }

/// Checks the options that do not depend on the model.
static llvm::Error checkOptions(const ImportOptions &options) {
  struct {
    StringRef name;
    int64_t value, max;
  } counts[] = {{"batch", options.batch, maxTokens},
                {"seq", options.seq, maxTokens},
                {"layers", options.layers.value_or(1), maxLayers},
                {"data parallel size", options.dataParallel, maxTokens}};
  for (const auto &count : counts)
    if (count.value < 1 || count.value > count.max)
      return makeError("'" + count.name + "': expected an integer from 1 to " + Twine(count.max) + " but got " +
                       Twine(count.value));
  auto isOutside = [](std::optional<double> value, double min) {
    return value && !(*value >= min && *value <= maxFactor);
  };
  if (options.capacityFactor && options.dropless)
    return makeError("'capacity-factor' and 'dropless': expected one of them but got both");
  if (isOutside(options.capacityFactor, std::numeric_limits<double>::min()))
    return makeError(
        llvm::formatv("'capacity-factor': expected a number greater than 0 and at most {0:E1} but got {1:E1}",
                      maxFactor, *options.capacityFactor));
  if (isOutside(options.maxLoad, 1.0))
    return makeError(
        llvm::formatv("'max-load': expected a number from 1 to {0:E1} but got {1:E1}", maxFactor, *options.maxLoad));
  return llvm::Error::success();
}

/// Checks the options for a whole model.
static llvm::Error checkWhole(const ModelSpec &model, const ImportOptions &options) {
  auto blocks = static_cast<int64_t>(model.blocks.size());
  int64_t most = std::max(blocks, static_cast<int64_t>(model.decoder.size()));
  if (options.layers && *options.layers > most)
    return makeError("'layers': expected at most the model's " + Twine(most) + " but got " + Twine(*options.layers));
  if (model.learnedPositions > 0 && options.seq > model.learnedPositions)
    return makeError("'seq': expected at most the model's " + Twine(model.learnedPositions) + " positions but got " +
                     Twine(options.seq));
  for (const BlockSpec &block : model.blocks)
    if (block.chunk > 0 && options.seq > block.chunk && options.seq % block.chunk != 0)
      return makeError("'seq': expected at most " + Twine(block.chunk) +
                       ", the tokens that attention sees at once, or a multiple of them, but got " +
                       Twine(options.seq));
  return llvm::Error::success();
}

/// Applies the options for capacities.
static void replaceTokenForm(LayerSpec &layer, const ImportOptions &options) {
  if (options.dropless || options.capacityFactor) {
    layer.capacityFactor = options.capacityFactor;
    layer.expertCapacity.reset();
  }
  // Groups other than sequences get a factor that gives the same capacity on average.
  if (options.groups && layer.sequenceGroups && layer.expertCapacity) {
    auto taken = static_cast<double>(std::min(*layer.expertCapacity, options.seq));
    layer.capacityFactor = taken * static_cast<double>(layer.experts) / static_cast<double>(layer.topK * options.seq);
    layer.expertCapacity.reset();
  }
}

llvm::Expected<OwningOpRef<ModuleOp>> mlir::moe::importModel(MLIRContext &context, const ModelConfig &config,
                                                             const ImportOptions &given) {
  if (llvm::Error error = checkOptions(given))
    return error;
  ImportOptions options = given;
  const int64_t most = std::min(maxTokens, maxChoices / std::max<int64_t>(1, config.layer.topK));
  int64_t tokens;
  if (llvm::MulOverflow(options.batch, options.seq, tokens) ||
      llvm::MulOverflow(tokens, options.dataParallel, tokens) || tokens > most)
    return makeError("'batch' x 'seq' x data parallel size: expected at most " + Twine(most) + " tokens but got " +
                     Twine(options.batch) + " x " + Twine(options.seq) + " x " + Twine(options.dataParallel));
  LayerSpec layer = config.layer;
  replaceTokenForm(layer, options);
  if ((layer.capacityFactor || layer.expertCapacity) && options.maxLoad)
    return makeError("'max-load': expected a dropless model but got the " +
                     (layer.capacityFactor ? "capacity factor " + std::to_string(*layer.capacityFactor)
                                           : "expert capacity " + std::to_string(*layer.expertCapacity)) +
                     "; 'dropless' makes the model dropless");
  bool isDefaultLoad = !options.maxLoad && options.defaultMaxLoad && !layer.capacityFactor && !layer.expertCapacity;
  if (isDefaultLoad)
    options.maxLoad = options.defaultMaxLoad;

  if (options.whole && !options.residual)
    return makeError("'residual': expected true with a whole model: its blocks have residual connections");
  if (options.whole)
    if (llvm::Error error = checkWhole(*config.model, options))
      return error;

  context.loadDialect<MoeDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module =
      options.whole ? buildWholeModel(context, config, layer, options, tokens)
                    : StackBuilder(context, config, layer, options, tokens).build(options.layers.value_or(1));
  bool hasLayer = module->walk([](LayerOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (isDefaultLoad && hasLayer)
    (*module)->setAttr(kDefaultMaxLoadAttrName, Builder(&context).getF64FloatAttr(*options.maxLoad));
  std::string diagnostics;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { diagnostics += (diagnostics.empty() ? "" : "\n") + diagnostic.str(); });
  if (failed(verify(*module)))
    return makeErrorAt(config.fileName, config.layerPlace, diagnostics);
  return module;
}
