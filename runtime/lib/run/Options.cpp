//===- Options.cpp - the command line of moe-run --------------------------===//

#include "run/Options.h"
#include "core/CommandLine.h"
#include "moert/ByteSize.h"
#include "run/TokenData.h"
#include "run/checkpoint/CheckpointFolder.h"

#include <charconv>

namespace moert::run {

namespace {

Status parseVerify(Options &options, const std::string &value) {
  options.gradients = value == "gradients";
  options.verify = !options.gradients;
  options.wide = value == "f64" || options.gradients ? MOERT_WIDE_F64
                 : value == "exact"                  ? MOERT_WIDE_FIELD
                                                     : MOERT_WIDE_NONE;
  return value.empty() || options.wide != MOERT_WIDE_NONE
             ? Status{}
             : invalid("expected --verify, or one of f64, exact and gradients behind it, but got '--verify=" + value +
                       "'");
}

Status parseTimeout(Options &options, const std::string &value) {
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.timeout);
  const bool isNumber = error == std::errc() && end == value.data() + value.size();
  // Up to a century, which the clock can still count.
  if (isNumber && options.timeout > 0 && options.timeout < 3e9)
    return {};
  return invalid("expected a positive number of seconds for --timeout but got '" + value + "'");
}

Status parseShardBytes(int64_t &bytes, const std::string &value) {
  std::string error = parseByteSize(value, bytes);
  if (error.empty() && bytes == 0)
    error = "expected at least 1 byte but got '" + value + "'";
  return error.empty() ? Status{} : invalid("--shard-bytes: " + error);
}

OptionSection runOptions(Options &o) {
  return {
      "Options",
      {{"--backend", "host|mpi|cuda|cuda-loopback", &o.backend,
        "where the ranks run (default: host): host is threads of this process, mpi is processes of mpirun, cuda is one "
        "GPU for each process, and cuda-loopback is one GPU for all ranks"},
       {"--digest", "SHA256", &o.digest,
        "run the plan only if its SHA-256 is this, in hexadecimal, as sha256sum prints it. The digest in a "
        "file PLAN.so.sha256 beside the plan must be right in any case"},
       {"--ranks", "N", &o.ranks, "stop unless the plan was compiled for N ranks (default: any number)"},
       {"--batch", "N", &o.batch,
        "sequences of a data-parallel rank. If a plan has several shapes, --batch and --seq choose one (default: the "
        "first)"},
       {"--seq", "N", &o.seq, "tokens of a sequence; see --batch"},
       {"--iters", "N", &o.iters, "steps to run (default: 1)"},
       {"--emulate-links", "NAME", &o.emulateLinks,
        "make every transfer take as long as on the cluster NAME, for which the plan must have been compiled"},
       {"--verify", "[=f64|exact|gradients]", [&o](const std::string &value) { return parseVerify(o, value); },
        "also run the reference, which is the model on one rank, and compare all outputs and gradients. They must not "
        "differ by more than rounding explains. =f64 runs both in f64, whatever types the plan has. This finds "
        "errors that rounding in f32 or 16 bits hides. =exact runs both in arithmetic without rounding, on random "
        "values. Their results must be equal. =gradients compares the plan's gradients with difference quotients "
        "of its own loss, in f64"},
       {"--reference", "", &o.reference, "run only the reference, which is the model on one rank"},
       {"--seed", "N", &o.seed, "seed of the random values (default: 0)"},
       {"--load", "PATH", &o.loads,
        "take arguments from a .safetensors file, from a Hugging Face checkpoint (a file, a .safetensors.index.json, "
        "or the folder of both), or from the folder of --checkpoint=DIR/. May be repeated. A file with some of the "
        "parameters must "
        "have all of them, and likewise for the optimizer's states. Arguments that no file has are random"},
       {"--allow-missing", "", &o.allowMissing,
        "if the files of --load lack parameters or optimizer states, start these as without --load (default: stop with "
        "an error)"},
       {"--save", "FILE", &o.save, "write all results to a .safetensors file, each as one value of all ranks"},
       {"--save-checkpoint", "PATH", &o.saveCheckpoint,
        "write the final parameters to the folder or .safetensors file PATH, in the layout of the checkpoint of --load "
        "(without --load: files of at most --shard-bytes)"},
       {"--shard-bytes", "BYTES", [&o](const std::string &value) { return parseShardBytes(o.shardBytes, value); },
        "the most bytes of a file of a checkpoint; also with a unit, such as 500MB or 2GiB (default: 5GB)"},
       {"--routing", "FILE", &o.routing,
        "send tokens to the experts that FILE names, one iteration for each step (default: the gate chooses)"},
       {"--record-routing", "FILE", &o.recordRouting,
        "write the experts to which the tokens went, in the format of --routing"},
       {"--trace", "FILE", &o.trace, "write a Perfetto/Chrome trace of the last step"},
       {"--timeout", "SECONDS", [&o](const std::string &value) { return parseTimeout(o, value); },
        "stop with an error if a step takes longer than this. With several processes, each wait for another "
        "process has this limit, too (default: no limit)"},
       {"--no-cuda-graph", "", &o.noGraph,
        "launch the calls of each step one by one. By default, backend cuda launches each step except the first and "
        "the last as one CUDA graph, unless the host must read values during a step"},
       {"--tf32", "", &o.tf32,
        "on GPUs, round the inputs of f32 products to tf32 (10 bits of mantissa), which is faster. --verify then "
        "allows f32 results the error that it allows f16 results"},
       {"--workers", "N", &o.workers, "number of threads (default: one for each core)"},
       {"--json", "", &o.json, "print one JSON object instead of tables"},
       {"--help", "", &o.help, "print this help"},
       {"--version", "", &o.version, "print the version"}}};
}

OptionSection trainOptions(Options &options) {
  TrainOptions &o = options.train;
  return {
      "Training",
      {{"--train", "", &o.enabled, "train on the tokens of --data"},
       {"--data", "FILE", &o.data,
        "the tokens: a text, in which each byte is a token; an array of token ids (see --data-type); or a .npy file, "
        "whose header says the type of its ids"},
       {"--data-type", tokenTypeNames("|"), &o.dataType,
        "little-endian type of the token ids, if the file of --data has no header (default: bytes)"},
       {"--steps", "N", &o.steps,
        "train up to step N, counted from the very first step, also after a checkpoint (default: 100)"},
       {"--rate", "R", &o.rate, "learning rate after the warm-up (default: 1e-3)"},
       {"--warmup", "N", &o.warmup, "steps during which the learning rate rises (default: 0)"},
       {"--final-rate", "R", &o.finalRate,
        "learning rate of the last step, to which the rate falls along a cosine (default: it does not fall)"},
       {"--checkpoint", "PATH", &o.checkpoint,
        "write a checkpoint every --checkpoint-every steps and at the end. Training continues from a checkpoint that "
        "is there. PATH is a file; or a folder, if it ends with / or is one: each process then writes files of its "
        "own, and no process needs memory for the whole"},
       {"--checkpoint-every", "N", &o.checkpointEvery, "steps between two checkpoints (default: 100)"},
       {"--keep", "N", &o.keep, "number of checkpoints to keep in the folder of --checkpoint=DIR/ (default: 2)"},
       {"--log", "FILE", &o.log, "write one line of JSON for each step to FILE"}}};
}

/// The options, which are set in `options`.
CommandLine commandLine(Options &options) {
  return {"moe-run",
          "PLAN.so [options]",
          "Runs a compiled plan on random or loaded values. Example: moe-run plan.so --verify",
          {runOptions(options), trainOptions(options)},
          "Exit status: 0 done; 1 a check failed, or a step hung or overflowed; 2 bad usage or input."};
}

/// --train and what goes with it, and what does not.
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
    return invalid("expected none of --verify, --save, --trace, --routing and --record-routing with --train");
  return {};
}

/// What a plan that is not run in its own types cannot do.
Status checkWide(const Options &options) {
  if (options.wide != MOERT_WIDE_NONE && !options.saveCheckpoint.empty())
    return invalid("--verify=f64, exact and gradients do not run the plan in its own types: expected no "
                   "--save-checkpoint, which writes these");
  if (options.wide != MOERT_WIDE_FIELD)
    return {};
  if (options.backend != "host")
    return invalid("--verify=exact runs on backend host, but the backend is '" + options.backend + "'");
  if (!options.loads.empty() || !options.save.empty())
    return invalid("--verify=exact computes with random elements of a field, which are no real numbers: expected "
                   "neither --load nor --save");
  return {};
}

/// Whether there are files that --shard-bytes and --keep are about.
Status checkCheckpoints(const Options &options) {
  bool isFolder = CheckpointFolder::isMeant(options.train.checkpoint);
  if (options.train.keep != TrainOptions().keep && !isFolder)
    return invalid("expected --keep with --checkpoint=DIR/, a folder whose name ends with '/'");
  if (options.shardBytes != Options().shardBytes && !isFolder && options.saveCheckpoint.empty())
    return invalid("expected --shard-bytes with --save-checkpoint or with --checkpoint=DIR/");
  return {};
}

} // namespace

std::string helpText() {
  Options options;
  return commandLine(options).helpText();
}

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  const CommandLine line = commandLine(options);
  for (const std::string &argument : arguments) {
    if (argument.size() > 1 && argument[0] == '-') {
      MOERT_RETURN_IF_ERROR(line.parse(argument));
    } else if (options.plan.empty()) {
      options.plan = argument;
    } else {
      return invalid("expected one plan but got '" + options.plan + "' and '" + argument + "'");
    }
  }
  if (options.help || options.version)
    return {};
  if (options.plan.empty())
    return invalid("expected a plan: moe-run PLAN.so; moe-run --help lists the options");
  if (options.workers > 4096)
    return invalid("expected at most 4096 for --workers but got " + std::to_string(options.workers));
  if (options.reference && options.verify)
    return invalid("--reference runs only the reference, so that --verify has nothing to compare");
  if (options.gradients && options.reference)
    return invalid("--verify=gradients and --reference are mutually exclusive");
  MOERT_RETURN_IF_ERROR(checkWide(options));
  if (options.reference && !options.emulateLinks.empty())
    return invalid("--reference runs on one rank, so that --emulate-links has no transfers to emulate");
  if (options.tf32 && !options.backend.starts_with("cuda"))
    return invalid("--tf32 is for backends cuda and cuda-loopback, but the backend is '" + options.backend + "'");
  MOERT_RETURN_IF_ERROR(checkTraining(options));
  return checkCheckpoints(options);
}

} // namespace moert::run
