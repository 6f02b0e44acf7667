//===- Import.cpp - a model config as an L0 graph -------------------------===//

#include "moe/Import/Import.h"

#include "GraphBuilder.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;
using llvm::Twine;

/// Tokens and the rows made of them are counted in 32 bits at run time.
static constexpr int64_t maxTokens = std::numeric_limits<int32_t>::max() / 8;
static constexpr int64_t maxLayers = 10000;

namespace {

/// `x + moe(x)` for each layer.
class StackBuilder : GraphBuilder {
public:
  using GraphBuilder::GraphBuilder;

  OwningOpRef<ModuleOp> build(int64_t layers) {
    Value x = addArgument("x", "input", tensor({tokens, layer.hidden}));
    for (int64_t i = 0; i < layers; ++i)
      x = builder.create<AddOp>(location, x, buildLayer(i, x));
    return finish({{"y", "output", x}, {"aux", "output", aux}});
  }
};

} // namespace

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "error: " + message);
}

/// The options that do not depend on the model.
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
  auto tooSmall = [](std::optional<double> value, double min) {
    return value && !(std::isfinite(*value) && *value >= min);
  };
  if (options.capacityFactor && options.dropless)
    return makeError("'capacity-factor' and 'dropless': expected one of them but got both");
  if (tooSmall(options.capacityFactor, std::numeric_limits<double>::min()))
    return makeError("'capacity-factor': expected a number greater than 0 but got " +
                     Twine(std::to_string(*options.capacityFactor)));
  if (tooSmall(options.maxLoad, 1.0))
    return makeError("'max-load': expected a number of at least 1 but got " + Twine(std::to_string(*options.maxLoad)));
  return llvm::Error::success();
}

/// What a whole model takes of the options.
static llvm::Error checkWhole(const ModelSpec &model, const ImportOptions &options) {
  auto blocks = static_cast<int64_t>(model.blocks.size());
  int64_t layers = options.layers.value_or(blocks);
  if (layers > blocks)
    return makeError("'layers': expected at most the model's " + Twine(blocks) + " but got " + Twine(layers));
  if (!model.decoder.empty() && layers > static_cast<int64_t>(model.decoder.size()))
    return makeError("'layers': expected at most the decoder's " + Twine(model.decoder.size()) + " but got " +
                     Twine(layers));
  if (model.learnedPositions > 0 && options.seq > model.learnedPositions)
    return makeError("'seq': expected at most the model's " + Twine(model.learnedPositions) + " positions but got " +
                     Twine(options.seq));
  return llvm::Error::success();
}

llvm::Expected<OwningOpRef<ModuleOp>> mlir::moe::importModel(MLIRContext &context, const ModelConfig &config,
                                                             const ImportOptions &options) {
  if (llvm::Error error = checkOptions(options))
    return error;
  int64_t tokens;
  if (llvm::MulOverflow(options.batch, options.seq, tokens) ||
      llvm::MulOverflow(tokens, options.dataParallel, tokens) || tokens > maxTokens)
    return makeError("'batch' x 'seq' x data parallel size: expected at most " + Twine(maxTokens) + " tokens but got " +
                     Twine(options.batch) + " x " + Twine(options.seq) + " x " + Twine(options.dataParallel));
  LayerSpec layer = config.layer;
  if (options.dropless)
    layer.capacityFactor.reset();
  if (options.capacityFactor)
    layer.capacityFactor = options.capacityFactor;
  if (layer.capacityFactor && options.maxLoad)
    return makeError("'max-load': expected a dropless model but got the capacity factor " +
                     Twine(std::to_string(*layer.capacityFactor)) + "; 'dropless' makes it one");

  if (options.whole)
    if (llvm::Error error = checkWhole(*config.model, options))
      return error;

  context.loadDialect<MoeDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module =
      options.whole ? buildWholeModel(context, config, layer, options, tokens)
                    : StackBuilder(context, config, layer, options, tokens).build(options.layers.value_or(1));
  std::string diagnostics;
  ScopedDiagnosticHandler handler(
      &context, [&](Diagnostic &diagnostic) { diagnostics += (diagnostics.empty() ? "" : "\n") + diagnostic.str(); });
  if (failed(verify(*module)))
    return llvm::createStringError(llvm::inconvertibleErrorCode(), Twine(config.fileName) + ":" + Twine(config.line) +
                                                                       ":" + Twine(config.column) +
                                                                       ": error: " + diagnostics);
  return module;
}
