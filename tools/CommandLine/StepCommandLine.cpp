//===- StepCommandLine.cpp - a training step's options --------------------===//
#include "StepCommandLine.h"

#include "Parsers.h"

#include "moe/Support/Text.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

StepCommandLine::StepCommandLine(cl::OptionCategory &category)
    : optimizer("optimizer", cl::desc("Let the plan update its parameters by this. Default: none; in moe-plan adam"),
                cl::value_desc("sgd|adam"), cl::init(""), cl::cat(category)),
      momentum("momentum", cl::desc("Momentum of the sgd optimizer. Default: 0.9"), cl::init(0.9), cl::Hidden,
               cl::cat(category)),
      beta1("beta1", cl::desc("Decay rate of the first moment in the adam optimizer. Default: 0.9"), cl::init(0.9),
            cl::Hidden, cl::cat(category)),
      beta2("beta2", cl::desc("Decay rate of the second moment in the adam optimizer. Default: 0.95"), cl::init(0.95),
            cl::Hidden, cl::cat(category)),
      eps("eps", cl::desc("Epsilon of the adam optimizer. Default: 1e-8"), cl::init(1e-8), cl::Hidden,
          cl::cat(category)),
      weightDecay("weight-decay", cl::desc("Weight decay of parameters with two or more dimensions. Default: 0"),
                  cl::init(0), cl::Hidden, cl::cat(category)),
      clipNorm("clip-norm",
               cl::desc("Largest norm of all gradients together; larger gradients are scaled down.\n"
                        "   Default: 0, no limit"),
               cl::init(0), cl::Hidden, cl::cat(category)),
      bucketBytes("bucket-bytes",
                  cl::desc("Size at which a bucket of parameters is closed. A bucket's gradients are\n"
                           "   summed in one exchange, and its parameters are updated at once. 0 makes a\n"
                           "   bucket of each parameter. Example: 25MB. Default: auto, at least 64 MiB,\n"
                           "   and so large that start-ups take at most a tenth of an exchange"),
                  cl::value_desc("bytes"), cl::init("auto"), cl::Hidden, cl::cat(category)),
      zeroRanks("zero-ranks",
                cl::desc("Let --zero divide over blocks of this many neighbouring ranks, such as those of\n"
                         "   a node, and sum gradients over the blocks (HSDP). Default: 0, over all"),
                cl::value_desc("ranks"), cl::init(0), cl::Hidden, cl::cat(category)),
      unroll("unroll",
             cl::desc("Write out all micro-batches. Default: off; a loop stands for those that repeat\n"
                      "   others, so that the size of the plan does not grow with them"),
             cl::Hidden, cl::cat(category)),
      gradDtype("grad-dtype",
                cl::desc("Type in which the gradients of 16-bit parameters are summed, over\n"
                         "   micro-batches and ranks: model (the type of the parameters) or f32.\n"
                         "   Megatron takes f32 for bf16 by default. Default: model"),
                cl::value_desc("model|f32"), cl::init("model"), cl::Hidden, cl::cat(category)) {
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (info.help.empty())
      return;
    std::unique_ptr<cl::Option> option;
    if constexpr (std::is_same_v<decltype(member), bool StepChoice::*>)
      option = std::make_unique<cl::opt<bool>>(StringRef(info.option), cl::desc(info.help), cl::cat(category));
    else
      option = std::make_unique<cl::opt<std::string>>(StringRef(info.option), cl::desc(info.help),
                                                      cl::value_desc(info.value), cl::cat(category));
    if (!info.alone.empty())
      option->setValueExpectedFlag(cl::ValueOptional);
    if (info.isHidden)
      option->setHiddenFlag(cl::Hidden);
    choices.push_back(std::move(option));
  });
}

FailureOr<MoeOptimizeOptions> StepCommandLine::getOptimizer(MLIRContext &context) const {
  if (optimizer != "sgd" && optimizer != "adam")
    return reportUnknownName(context, optimizer, {"sgd", "adam"});
  struct {
    const cl::opt<double> &option;
    double below;
  } rates[] = {{momentum, 1}, {beta1, 1}, {beta2, 1}, {eps, HUGE_VAL}, {weightDecay, HUGE_VAL}, {clipNorm, HUGE_VAL}};
  for (const auto &rate : rates)
    if (!(rate.option >= 0 && rate.option < rate.below))
      return emitUsageError(context) << "expected --" << rate.option.ArgStr << " of at least 0"
                                     << (rate.below == 1 ? " and below 1" : "") << " but got " << double(rate.option);
  MoeOptimizeOptions result;
  result.kind = optimizer == "sgd" ? OptimizerKind::Sgd : OptimizerKind::Adam;
  result.momentum = momentum;
  result.beta1 = beta1;
  result.beta2 = beta2;
  result.eps = eps;
  result.decay = weightDecay;
  result.clipNorm = clipNorm;
  return result;
}

static LogicalResult checkPipeline(MLIRContext &context, const PlanOptions &options) {
  int64_t pp = options.parallel.getPp();
  if (options.interleave > 1 && pp == 1)
    return emitUsageError(context) << "--interleave=" << options.interleave
                                   << " needs a pipeline (pp of at least 2 in --parallel)";
  bool isForOne = options.pipelineOrder == PipelineOrder::OneForwardOneBackward ||
                  options.pipelineOrder == PipelineOrder::Overlapped1F1B;
  if (!isForOne && pp == 1)
    return emitUsageError(context) << "--pipeline=" << getName(options.pipelineOrder)
                                   << " needs a pipeline (pp of at least 2 in --parallel)";
  if (options.microBatches % options.sideBySide != 0)
    return emitUsageError(context) << "expected --side-by-side to divide the number of micro-batches, "
                                   << options.microBatches << ", but got " << options.sideBySide;
  if (options.sideBySide > 1 && !options.train)
    return emitUsageError(context) << "--side-by-side needs --mode=train";
  std::string mistake = options.getPipelineShape(options.train).check();
  return mistake.empty() ? success() : emitUsageError(context) << mistake;
}

/// Reads the text of an option; an error names its values.
template <class T>
static LogicalResult read(MLIRContext &context, const cl::opt<std::string> &option, const ChoiceInfo &info, T &value) {
  StringRef text = option;
  // Options that need no value are flags, too.
  if (!info.alone.empty() && text == "false")
    return success();
  if (!info.alone.empty() && (text.empty() || text == "true"))
    text = info.alone;
  SmallVector<StringRef> values;
  info.values.split(values, '|', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (!values.empty() && !llvm::is_contained(values, text))
    return reportUnknownName(context, option, values);
  if (parseText(text, value))
    return success();
  return emitUsageError(context) << "expected --" << info.option << " to be a " << info.value << " but got '" << text
                                 << "'";
}

LogicalResult StepCommandLine::setChoices(MLIRContext &context, PlanOptions &options) const {
  LogicalResult result = success();
  size_t next = 0;
  visitChoices([&](auto member, const ChoiceInfo &info) {
    using Value = std::remove_reference_t<decltype(options.*member)>;
    if (info.help.empty())
      return;
    const cl::Option &option = *choices[next++];
    if (!option.getNumOccurrences())
      return;
    if constexpr (std::is_same_v<Value, bool>)
      options.*member = static_cast<const cl::opt<bool> &>(option);
    else if constexpr (requires { parseText(StringRef(), options.*member); })
      if (failed(read(context, static_cast<const cl::opt<std::string> &>(option), info, options.*member)))
        result = failure();
  });
  if (std::optional<int64_t> needed = getStagesPerDevice(options.pipelineOrder); needed && !isGiven("interleave"))
    options.interleave = *needed;
  return result;
}

/// Sets the number of micro-batches from `globalBatch`.
static LogicalResult setMicroBatches(MLIRContext &context, GlobalBatch globalBatch, PlanOptions &options) {
  int64_t sequences = globalBatch.batch * options.parallel.getDp();
  options.microBatches = globalBatch.sequences / sequences;
  if (options.microBatches < 1 || globalBatch.sequences % sequences != 0)
    return emitUsageError(context) << "expected --global-batch to be a multiple of dp x --batch = " << sequences
                                   << " but got " << globalBatch.sequences;
  return success();
}

LogicalResult StepCommandLine::setOptions(MLIRContext &context, PlanOptions &options,
                                          std::optional<GlobalBatch> globalBatch, bool isOpen) const {
  if (globalBatch && isGiven("micro-batches"))
    return emitUsageError(context) << "--global-batch and --micro-batches are mutually exclusive";
  if (failed(setChoices(context, options)) ||
      (globalBatch && !isOpen && failed(setMicroBatches(context, *globalBatch, options))))
    return failure();
  if (options.interleave < 1 || options.sideBySide < 1)
    return emitUsageError(context) << "expected --interleave and --side-by-side of at least 1";
  if (options.microBatches < 1 || options.microBatches > kMaxMicroBatches)
    return emitUsageError(context) << "expected --micro-batches from 1 to " << kMaxMicroBatches << " but got "
                                   << options.microBatches;
  options.hasLoop = !unroll;
  if (!isOpen && failed(checkPipeline(context, options)))
    return failure();
  if (failed(setSharding(context, options)))
    return failure();
  if (options.ringAttention && !isOpen && options.parallel.getCp() == 1)
    return emitUsageError(context) << "--ring-attention needs context parallelism (cp of at least 2 in --parallel)";
  if (gradDtype != "model" && gradDtype != "f32")
    return reportUnknownName(context, gradDtype, {"model", "f32"});
  options.wideGradients = gradDtype == "f32";
  if (options.wideGradients && !options.train)
    return emitUsageError(context) << "--grad-dtype=f32 needs --mode=train";
  if (optimizer.empty() && options.zero > 0)
    return emitUsageError(context) << "--zero=" << options.zero
                                   << " needs --optimizer: without it a plan has no states, and its gradients are "
                                      "results";
  if (optimizer.empty())
    return success();
  if (!options.train)
    return emitUsageError(context) << "--optimizer needs --mode=train";
  FailureOr<MoeOptimizeOptions> step = getOptimizer(context);
  if (failed(step))
    return failure();
  options.optimizer = *step;
  return success();
}

/// --zero-ranks and --bucket-bytes.
LogicalResult StepCommandLine::setSharding(MLIRContext &context, PlanOptions &options) const {
  options.zeroRanks = zeroRanks;
  if (zeroRanks < 0)
    return emitUsageError(context) << "expected --zero-ranks of at least 0 but got " << zeroRanks;
  if (zeroRanks > 0 && options.zero == 0)
    return emitUsageError(context) << "--zero-ranks needs --zero=1, 2 or 3";
  if (bucketBytes == "auto")
    return success();
  llvm::Expected<int64_t> bytes = parseByteSize(bucketBytes);
  if (!bytes)
    return emitUsageError(context) << "expected --bucket-bytes to be auto or a number of bytes: "
                                   << llvm::toString(bytes.takeError());
  options.bucketBytes = *bytes;
  return success();
}
