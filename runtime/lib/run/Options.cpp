//===- Options.cpp - the command line of moe-run --------------------------===//

#include "run/Options.h"
#include "core/ProgramOptions.h"
#include "moert/ByteSize.h"
#include "run/TokenData.h"
#include "run/checkpoint/CheckpointFolder.h"

namespace moert::run {

namespace {

std::string parseVerify(const std::string &value, Options &options) {
  options.gradients = value == "gradients";
  options.verify = !options.gradients;
  options.wide = value == "f64" || options.gradients ? MOERT_WIDE_F64
                 : value == "exact"                  ? MOERT_WIDE_FIELD
                                                     : MOERT_WIDE_NONE;
  return value == "true" || options.wide != MOERT_WIDE_NONE
             ? ""
             : "expected no value or one of f64, exact and gradients but got '" + value + "'";
}

std::string replaceBytes(std::string &text) {
  int64_t bytes = 0;
  if (std::string error = parseByteSize(text, bytes); !error.empty())
    return error;
  const std::string error = bytes > 0 ? "" : "expected at least 1 byte but got '" + text + "'";
  text = std::to_string(bytes);
  return error;
}

/// Adds an option whose value has the name `value` in the help.
template <class T>
CLI::Option *add(CLI::App &app, const char *name, T &target, const std::string &value, const char *help) {
  return app.add_option(name, target, help)->option_text(value);
}
void addCount(CLI::App &app, const char *name, int64_t &target, const char *help) {
  add(app, name, target, "=N", help)->transform(isPositive());
}

void addRunOptions(CLI::App &app, Options &o) {
  app.add_option("plan", o.plan);
  add(app, "--backend", o.backend, "=host|mpi|cuda|cuda-loopback",
      "where the ranks run (default: host): host is threads of this process, mpi is processes of mpirun, "
      "cuda is one GPU for each process, and cuda-loopback is one GPU for all ranks");
  add(app, "--digest", o.digest, "=SHA256",
      "run the plan only if its SHA-256 is this, in hexadecimal, as sha256sum prints it. The digest in a "
      "file PLAN.so.sha256 beside the plan must be right in any case");
  addCount(app, "--batch", o.batch,
           "sequences of a data-parallel rank. If a plan has several shapes, --batch and --seq choose one "
           "(default: the first)");
  addCount(app, "--seq", o.seq, "tokens of a sequence; see --batch");
  addCount(app, "--iters", o.iters, "steps to run (default: 1; for --verify=exact of a plan that trains, 2)");
  app.add_flag("--verify")
      ->description(
          "also run the reference, which is the model on one rank, and compare all outputs and gradients. They "
          "must not differ by more than rounding explains. =f64 runs both in f64, whatever types the plan has. "
          "This finds errors that rounding in f32 or 16 bits hides. =exact runs both in arithmetic without "
          "rounding, on random values. Their results must be equal. =gradients compares the plan's gradients "
          "with difference quotients of its own loss, in f64")
      ->option_text("[=f64|exact|gradients]")
      ->check([&o](const std::string &value) { return parseVerify(value, o); });
  app.add_flag("--reference", o.reference, "run only the reference, which is the model on one rank");
  add(app, "--seed", o.seed, "=N", "seed of the random values (default: 0)")
      ->transform(isNumber<uint64_t>("an integer that is not negative", 0));
  // A century is the longest that the clock can count.
  add(app, "--timeout", o.timeout, "=SECONDS",
      "stop with an error if a step takes longer than this. With several processes, each wait for another "
      "process has this limit, too (default: no limit)")
      ->transform(isNumber<double>("a positive number of seconds", std::numeric_limits<double>::min(), 3e9));
  add(app, "--workers", o.workers, "=N", "number of threads (default: one for each core)")
      ->transform(isNumber<int64_t>("an integer from 1 to 4096", 1, 4096));
  app.add_flag("--json", o.json, "print one JSON object instead of tables");
}

void addFileOptions(CLI::App &app, Options &o) {
  app.option_defaults()->group("Files");
  add(app, "--load", o.loads, "=PATH",
      "take arguments from a .safetensors file, from a Hugging Face checkpoint (a file, a "
      ".safetensors.index.json, or the folder of both), or from the folder of --checkpoint=DIR/. May be "
      "repeated. A file with some of the parameters must have all of them, and likewise for the "
      "optimizer's states. Arguments that no file has are random")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--allow-missing", o.allowMissing,
               "if the files of --load lack parameters or optimizer states, start these as without --load (default: "
               "stop with an error)");
  app.add_flag("--allow-nan", o.allowNan,
               "take values of --load that are NaN or infinite (default: stop with an error)");
  add(app, "--save", o.save, "=FILE", "write all results to a .safetensors file, each as one value of all ranks");
  add(app, "--save-checkpoint", o.saveCheckpoint, "=PATH",
      "write the final parameters to the folder or .safetensors file PATH, in the layout of the checkpoint "
      "of --load (without --load: files of at most --shard-bytes)");
  add(app, "--shard-bytes", o.shardBytes, "=BYTES",
      "the most bytes of a file of a checkpoint; also with a unit, such as 500MB or 2GiB (default: 5GB)")
      ->transform(CLI::Validator(replaceBytes, ""));
  add(app, "--routing", o.routing, "=FILE",
      "send tokens to the experts that FILE names, one iteration for each step (default: the gate chooses)");
  add(app, "--record-routing", o.recordRouting, "=FILE",
      "write the experts to which the tokens went, in the format of --routing");
  add(app, "--trace", o.trace, "=FILE", "write a Perfetto/Chrome trace of the last step");
}

void addHiddenOptions(CLI::App &app, Options &o) {
  app.option_defaults()->group(kHidden);
  add(app, "--emulate-links", o.emulateLinks, "=NAME",
      "make every transfer take as long as on the cluster NAME, for which the plan must have been compiled");
  app.add_flag("--no-cuda-graph", o.noGraph,
               "launch the calls of each step one by one. By default, backend cuda launches each step except the "
               "first and the last as one CUDA graph, unless the host must read values during a step");
  app.add_flag("--tf32", o.tf32,
               "on GPUs, round the inputs of f32 products to tf32 (10 bits of mantissa), which is faster. --verify "
               "then allows f32 results the error that it allows f16 results");
}

void addTrainOptions(CLI::App &app, TrainOptions &o) {
  const auto isRate = isNumber<double>("a number that is not negative", 0, std::numeric_limits<double>::max());
  app.option_defaults()->group("Training");
  app.add_flag("--train", o.enabled, "train on the tokens of --data");
  add(app, "--data", o.data, "=FILE",
      "the tokens: a text, in which each byte is a token; an array of token ids (see --data-type); or a "
      ".npy file, whose header says the type of its ids");
  add(app, "--data-type", o.dataType, "=" + tokenTypeNames("|"),
      "little-endian type of the token ids, if the file of --data has no header (default: bytes)");
  addCount(app, "--steps", o.steps,
           "train up to step N, counted from the very first step, also after a checkpoint (default: 100)");
  add(app, "--rate", o.rate, "=R", "learning rate after the warm-up (default: 1e-3)")->transform(isRate);
  addCount(app, "--warmup", o.warmup, "steps during which the learning rate rises (default: 0)");
  add(app, "--final-rate", o.finalRate, "=R",
      "learning rate of the last step, to which the rate falls along a cosine (default: it does not fall)")
      ->transform(isRate);
  add(app, "--checkpoint", o.checkpoint, "=PATH",
      "write a checkpoint every --checkpoint-every steps and at the end. Training continues from a "
      "checkpoint that is there. PATH is a file; or a folder, if it ends with / or is one: each process "
      "then writes files of its own, and no process needs memory for the whole");
  addCount(app, "--checkpoint-every", o.checkpointEvery, "steps between two checkpoints (default: 100)");
  addCount(app, "--keep", o.keep, "number of checkpoints to keep in the folder of --checkpoint=DIR/ (default: 2)");
  add(app, "--log", o.log, "=FILE", "write one line of JSON for each step to FILE");
}

/// Checks the options that --train needs and those that it excludes.
Status checkTraining(const Options &options) {
  const TrainOptions &train = options.train;
  if (!train.enabled)
    return train.data.empty() && train.dataType.empty() && train.checkpoint.empty() && train.log.empty()
               ? Status{}
               : invalid("expected --train with --data, --data-type, --checkpoint and --log");
  if (train.data.empty())
    return invalid("expected --data=FILE with --train");
  if (options.verifies() || !options.save.empty() || !options.trace.empty() || !options.routing.empty() ||
      !options.recordRouting.empty())
    return invalid("--train cannot be combined with --verify, --save, --trace, --routing or --record-routing");
  return {};
}

/// Checks the options that do not work with values in other types than the plan's.
Status checkWide(const Options &options) {
  if (options.wide != MOERT_WIDE_NONE && !options.saveCheckpoint.empty())
    return invalid("--save-checkpoint writes values in the plan's own types, so it cannot be combined with "
                   "--verify=f64, exact or gradients");
  if (options.wide != MOERT_WIDE_FIELD)
    return {};
  if (options.backend != "host")
    return invalid("--verify=exact runs on backend host, but the backend is '" + options.backend + "'");
  if (!options.loads.empty() || !options.save.empty())
    return invalid("--verify=exact computes with random elements of a field, which are no real numbers, so it cannot "
                   "be combined with --load or --save");
  return {};
}

/// Checks that options of checkpoint files come with such files.
Status checkCheckpoints(const Options &options) {
  bool isFolder = CheckpointFolder::isMeant(options.train.checkpoint);
  if (options.train.keep != TrainOptions().keep && !isFolder)
    return invalid("expected --keep with --checkpoint=DIR/, a folder whose name ends with '/'");
  if (options.shardBytes != Options().shardBytes && !isFolder && options.saveCheckpoint.empty())
    return invalid("expected --shard-bytes with --save-checkpoint or with --checkpoint=DIR/");
  return {};
}

} // namespace

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  CLI::App app("Runs a compiled plan on random or loaded values. Example: moe-run plan.so --verify", "moe-run");
  app.formatter(std::make_shared<HelpFormatter>("PLAN.so [options]"));
  app.footer("Exit status: 0 done; 1 a check failed, or a step hung or overflowed; 2 bad usage or input.");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  addRunOptions(app, options);
  addFileOptions(app, options);
  addTrainOptions(app, options.train);
  addHiddenOptions(app, options);
  app.option_defaults()->group("Help");
  MOERT_RETURN_IF_ERROR(parse(app, arguments, options.information));
  if (!options.information.empty())
    return {};
  options.givesIters = app.count("--iters") > 0;
  if (options.plan.empty())
    return invalid("expected a plan: moe-run PLAN.so; moe-run --help lists the options");
  if (options.reference && options.verifies())
    return invalid("--reference and --verify are mutually exclusive");
  MOERT_RETURN_IF_ERROR(checkWide(options));
  if (options.reference && !options.emulateLinks.empty())
    return invalid("--reference and --emulate-links are mutually exclusive: the reference has no transfers");
  if (options.tf32 && !options.backend.starts_with("cuda"))
    return invalid("--tf32 is for backends cuda and cuda-loopback, but the backend is '" + options.backend + "'");
  MOERT_RETURN_IF_ERROR(checkTraining(options));
  return checkCheckpoints(options);
}

} // namespace moert::run
