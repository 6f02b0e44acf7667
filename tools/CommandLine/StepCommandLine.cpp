//===- StepCommandLine.cpp - a training step's options --------------------===//
#include "StepCommandLine.h"

#include "Parsers.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSwitch.h"

#include "moe/Support/ByteSize.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

StepCommandLine::StepCommandLine(cl::OptionCategory &category)
    : optimizer("optimizer",
                cl::desc("sgd or adam (AdamW). The plan then covers a whole step and updates its\n"
                         "   parameters. Default: no optimizer; in moe-plan adam"),
                cl::init(""), cl::cat(category)),
      momentum("momentum", cl::desc("Momentum of the sgd optimizer. Default: 0.9"), cl::init(0.9), cl::cat(category)),
      beta1("beta1", cl::desc("Decay rate of the first moment in the adam optimizer. Default: 0.9"), cl::init(0.9),
            cl::cat(category)),
      beta2("beta2", cl::desc("Decay rate of the second moment in the adam optimizer. Default: 0.95"), cl::init(0.95),
            cl::cat(category)),
      eps("eps", cl::desc("Epsilon of the adam optimizer. Default: 1e-8"), cl::init(1e-8), cl::cat(category)),
      weightDecay("weight-decay", cl::desc("Weight decay of parameters with two or more dimensions. Default: 0"),
                  cl::init(0), cl::cat(category)),
      clipNorm("clip-norm",
               cl::desc("Largest norm of all gradients together; larger gradients are scaled down.\n"
                        "   Default: 0, no limit"),
               cl::init(0), cl::cat(category)),
      zero("zero",
           cl::desc("What is divided over data-parallel ranks (ZeRO): 1, the states of the\n"
                    "   optimizer; 2, also the sums of gradients, reduced for each micro-batch; 3,\n"
                    "   also the parameters, gathered for each use (FSDP). --zero alone means 1.\n"
                    "   Default: 0, nothing"),
           cl::value_desc("0|1|2|3"), cl::ValueOptional, cl::init("0"), cl::cat(category)),
      bucketBytes("bucket-bytes",
                  cl::desc("Bytes from which on a bucket takes no more parameters. A bucket's gradients\n"
                           "   are summed in one exchange, and its parameters are updated at once. 0 makes\n"
                           "   a bucket of each parameter. Example: 25MB. Default: auto, at least 64 MiB,\n"
                           "   and such that start-ups take at most a tenth of an exchange"),
                  cl::value_desc("bytes"), cl::init("auto"), cl::cat(category)),
      zeroRanks("zero-ranks",
                cl::desc("Let --zero divide over blocks of so many neighbouring ranks, such as those of a\n"
                         "   node, and sum gradients over the blocks (HSDP). Default: 0, over all"),
                cl::init(0), cl::cat(category)),
      microBatches("micro-batches",
                   cl::desc("Micro-batches of --batch sequences in one step, whose gradients are added up\n"
                            "   (gradient accumulation). Default: 1; in moe-plan from --global-batch"),
                   cl::init(1), cl::cat(category)),
      interleave("interleave",
                 cl::desc("Pipeline stages on each device (VPP). With 1f1b, more than 1 needs\n"
                          "   micro-batches that are a multiple of pp. Default: 1; 2 with zb-v and\n"
                          "   dualpipe-v"),
                 cl::init(1), cl::cat(category)),
      pipeline("pipeline",
               cl::desc("Order of a pipeline's forwards and backwards: 1f1b, 1f1b-overlap, zb-h1,\n"
                        "   zb-v, dualpipe-v or search, the fastest that is found. With --parallel=auto\n"
                        "   that is the fastest of compiled plans, else the fastest by the times of ops.\n"
                        "   1f1b-overlap runs forwards beside backwards, also without a pipeline. All but\n"
                        "   1f1b put gradients of weights off, to where a device would wait.\n"
                        "   Default: 1f1b"),
               cl::value_desc("order"), cl::init("1f1b"), cl::cat(category)),
      sideBySide("side-by-side",
                 cl::desc("Neighbouring micro-batches whose forwards a device orders together, and whose\n"
                          "   backwards too. So exchanges of one run beside attention and experts of\n"
                          "   another, as if a larger micro-batch were cut into chunks of sequences.\n"
                          "   Default: 1"),
                 cl::init(1), cl::cat(category)),
      unroll("unroll",
             cl::desc("Write out all micro-batches. Default: off; a loop stands for those that repeat\n"
                      "   others, so that the size of the plan does not grow with them"),
             cl::cat(category)),
      stageBoundaries("stage-boundaries",
                      cl::desc("Where the stages of a pipeline begin, counted in parts of the model, and\n"
                               "   then the number of all parts. moe-plan prints such a list. Example for two\n"
                               "   stages of 8 parts: 0,4,8. Default: stages of about equal time on the cluster"),
                      cl::CommaSeparated, cl::cat(category)),
      recompute("recompute",
                cl::desc("What the backward computes again instead of keeping it: none, light, selective,\n"
                         "   cheap-4, cheap-6, cheap-8, cheap or block. With selective these are norms,\n"
                         "   activation functions and other ops that only move memory; with light those of\n"
                         "   them that save the most bytes for their time. With cheap it is all of a block\n"
                         "   that takes less than 12 times as long to compute as to write; with cheap-8,\n"
                         "   -6 and -4 less than 8, 6 and 4 times. With block it is all of a block.\n"
                         "   --recompute alone means block. Default: none"),
                cl::value_desc("level"), cl::ValueOptional, cl::init("none"), cl::cat(category)),
      ringAttention("ring-attention",
                    cl::desc("Where cp divides sequences, let keys and values go round its ranks instead\n"
                             "   of gathering them. This needs less memory. Default: off"),
                    cl::init(false), cl::cat(category)),
      sequenceParallel("sequence-parallel",
                       cl::desc("Divide the tokens over the ranks of mp in norms, dropout and residual sums.\n"
                                "   Default: off"),
                       cl::init(false), cl::cat(category)),
      gradDtype("grad-dtype",
                cl::desc("Type in which the gradients of 16-bit parameters are summed, over\n"
                         "   micro-batches and ranks: model (the type of the parameters) or f32.\n"
                         "   Megatron takes f32 for bf16 by default. Default: model"),
                cl::value_desc("model|f32"), cl::init("model"), cl::cat(category)) {}

static InFlightDiagnostic emitUsageError(MLIRContext &context) { return emitError(UnknownLoc::get(&context)); }

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
  if (options.interleave < 1 || (options.interleave > 1 && pp == 1))
    return emitUsageError(context)
           << "expected --interleave of at least 1, and of 1 without a pipeline (pp = 1), but got "
           << options.interleave;
  bool isForOne = options.pipelineOrder == PipelineOrder::OneForwardOneBackward ||
                  options.pipelineOrder == PipelineOrder::Overlapped1F1B;
  if (!isForOne && pp == 1)
    return emitUsageError(context) << "expected a pipeline (pp of at least 2 in --parallel) for --pipeline="
                                   << getName(options.pipelineOrder);
  if (options.sideBySide < 1 || options.microBatches % options.sideBySide != 0)
    return emitUsageError(context) << "expected --side-by-side to divide the number of micro-batches, "
                                   << options.microBatches << ", but got " << options.sideBySide;
  if (options.sideBySide > 1 && !options.train)
    return emitUsageError(context) << "expected --mode=train for --side-by-side";
  std::string mistake = describeMistake(options.getPipelineShape());
  return mistake.empty() ? success() : emitUsageError(context) << mistake;
}

/// The order, and as many stages on a device as it needs.
LogicalResult StepCommandLine::setPipeline(MLIRContext &context, PlanOptions &options) const {
  std::optional<PipelineOrder> order = parsePipelineOrder(pipeline);
  if (!order)
    return reportUnknownName(context, pipeline, {"1f1b", "1f1b-overlap", "zb-h1", "zb-v", "dualpipe-v", "search"});
  options.pipelineOrder = *order;
  options.interleave = interleave;
  options.sideBySide = sideBySide;
  if (std::optional<int64_t> needed = getStagesPerDevice(*order); needed && !interleave.getNumOccurrences())
    options.interleave = *needed;
  return success();
}

LogicalResult StepCommandLine::setOptions(MLIRContext &context, PlanOptions &options,
                                          std::optional<GlobalBatch> globalBatch, bool isOpen) const {
  int64_t count = microBatches;
  if (globalBatch && microBatches.getNumOccurrences())
    return emitUsageError(context)
           << "expected --global-batch or --micro-batches, not both: the first gives the second";
  if (globalBatch && !isOpen) {
    int64_t sequences = globalBatch->batch * options.parallel.getDp();
    count = globalBatch->sequences / sequences;
    if (count < 1 || globalBatch->sequences % sequences != 0)
      return emitUsageError(context) << "expected --global-batch to be a multiple of dp x --batch = " << sequences
                                     << " but got " << globalBatch->sequences;
  }
  if (count < 1 || count > kMaxMicroBatches)
    return emitUsageError(context) << "expected --micro-batches from 1 to " << kMaxMicroBatches << " but got " << count;
  options.microBatches = count;
  if (failed(setPipeline(context, options)))
    return failure();
  options.hasLoop = !unroll;
  options.stageBoundaries.assign(stageBoundaries.begin(), stageBoundaries.end());
  if (!isOpen && failed(checkPipeline(context, options)))
    return failure();
  if (recompute.getNumOccurrences()) {
    std::optional<Recompute> parsed = recompute.empty() ? Recompute::Block : parseRecompute(recompute);
    if (!parsed)
      return emitUsageError(context) << "expected --recompute to be none, light, selective, cheap-4, cheap-6, cheap-8, "
                                        "cheap or block but got '"
                                     << recompute << "'";
    options.recompute = *parsed;
  }
  if (failed(setSharding(context, options)))
    return failure();
  options.sequenceParallel = sequenceParallel;
  options.ringAttention = ringAttention;
  if (ringAttention && !isOpen && options.parallel.getCp() == 1)
    return emitUsageError(context) << "expected context parallelism (cp of at least 2 in --parallel) for "
                                      "--ring-attention";
  if (gradDtype != "model" && gradDtype != "f32")
    return reportUnknownName(context, gradDtype, {"model", "f32"});
  options.wideGradients = gradDtype == "f32";
  if (options.wideGradients && !options.train)
    return emitUsageError(context) << "expected --mode=train for --grad-dtype=f32";
  if (optimizer.empty() && options.zero > 0)
    return emitUsageError(context) << "expected --optimizer for --zero=" << options.zero
                                   << ": without it a plan has no states, and its gradients are results";
  if (optimizer.empty())
    return success();
  if (!options.train)
    return emitUsageError(context) << "expected --mode=train for --optimizer";
  FailureOr<MoeOptimizeOptions> step = getOptimizer(context);
  if (failed(step))
    return failure();
  options.optimizer = *step;
  return success();
}

/// --zero and --bucket-bytes.
LogicalResult StepCommandLine::setSharding(MLIRContext &context, PlanOptions &options) const {
  // As an option that is on or off it meant stage 1.
  std::optional<int64_t> stage = llvm::StringSwitch<std::optional<int64_t>>(zero)
                                     .Cases("0", "false", 0)
                                     .Cases("1", "", "true", 1)
                                     .Case("2", 2)
                                     .Case("3", 3)
                                     .Default(std::nullopt);
  if (!stage)
    return emitUsageError(context) << "expected --zero to be 0, 1, 2 or 3 but got '" << zero << "'";
  options.zero = *stage;
  options.zeroRanks = zeroRanks;
  if (zeroRanks < 0 || (zeroRanks > 0 && options.zero == 0))
    return emitUsageError(context)
           << "expected --zero-ranks of at least 0, and together with --zero=1, 2 or 3, but got " << zeroRanks;
  if (bucketBytes == "auto")
    return success();
  llvm::Expected<int64_t> bytes = parseByteSize(bucketBytes);
  if (!bytes)
    return emitUsageError(context) << "expected --bucket-bytes to be auto or a number of bytes: "
                                   << llvm::toString(bytes.takeError());
  options.bucketBytes = *bytes;
  return success();
}

void StepCommandLine::setSpace(StepSpace &space, const PlanOptions &options,
                               function_ref<bool(StringRef)> isFree) const {
  auto isOpen = [&](const cl::Option &option) { return !option.getNumOccurrences() && isFree(option.ArgStr); };
  space.interleaves = {options.interleave};
  space.pipelineOrders = {options.pipelineOrder};
  if (options.pipelineOrder == PipelineOrder::Search)
    space.pipelineOrders = {PipelineOrder::OneForwardOneBackward,
                            PipelineOrder::Overlapped1F1B,
                            PipelineOrder::ZbH1,
                            PipelineOrder::ZbV,
                            PipelineOrder::DualPipeV,
                            PipelineOrder::Search};
  space.recomputes = {options.recompute};
  space.zeros = {options.zero};
  space.sequenceParallels = {options.sequenceParallel};
  if (isOpen(sequenceParallel))
    space.sequenceParallels = {false, true};
  space.ringAttentions = {options.ringAttention};
  if (isOpen(ringAttention))
    space.ringAttentions = {false, true};
  if (!options.train)
    return;
  if (isOpen(pipeline))
    space.pipelineOrders = {PipelineOrder::OneForwardOneBackward, PipelineOrder::Overlapped1F1B,
                            PipelineOrder::DualPipeV};
  space.mayBeSideBySide = isOpen(pipeline) && !sideBySide.getNumOccurrences();
  if (isOpen(interleave) && !getStagesPerDevice(options.pipelineOrder))
    space.interleaves = {1, 2, 4, 8};
  if (isOpen(recompute))
    space.recomputes = {Recompute::None, Recompute::Selective, Recompute::Block};
  if (isOpen(zero) && options.optimizer)
    space.zeros = {1, 0, 2, 3};
}
