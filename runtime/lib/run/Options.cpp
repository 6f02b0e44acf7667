//===- Options.cpp - the command line of moe-run --------------------------===//

#include "run/Options.h"
#include "core/CommandLine.h"
#include "run/TokenData.h"

#include <charconv>

namespace moert::run {

namespace {

Status invalid(const std::string &message) { return Status::error(MOERT_ERROR_INVALID_ARGUMENT, message); }

Status parseVerify(Options &options, const std::string &value) {
  options.verify = true;
  options.verifyWide = !value.empty();
  return value.empty() || value == "f64"
             ? Status{}
             : invalid("expected --verify or --verify=f64 but got '--verify=" + value + "'");
}

Status parseTimeout(Options &options, const std::string &value) {
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.timeout);
  const bool isNumber = error == std::errc() && end == value.data() + value.size();
  // Up to a century, which the clock can still count.
  if (isNumber && options.timeout > 0 && options.timeout < 3e9)
    return {};
  return invalid("expected a positive number of seconds for --timeout but got '" + value + "'");
}

OptionSection runOptions(Options &o) {
  return {"Options",
          {{"--backend", "host|mpi|cuda|cuda-loopback", &o.backend, "where the plan runs (default: host)"},
           {"--digest", "SHA256", &o.digest,
            "run the plan only if this is its digest, in hexadecimal, as sha256sum prints it; where there is a file "
            "PLAN.so.sha256, that has to say the same"},
           {"--ranks", "N", &o.ranks, "must be the number of ranks that the plan was compiled for"},
           {"--batch", "N", &o.batch,
            "sequences of a data-parallel rank. With --seq it chooses one of the shapes of a plan that has several "
            "(default: the first)"},
           {"--seq", "N", &o.seq, "tokens of a sequence, see --batch"},
           {"--iters", "N", &o.iters, "steps to run (default 1)"},
           {"--adaptive", "", &o.adaptive,
            "choose the number of chunks of each step by the times of the steps before it; the shapes of the steps are "
            "drawn at random (--seed) from those of the plan"},
           {"--emulate-links", "NAME", &o.emulateLinks,
            "let every transfer take as long as on the cluster NAME, for which the plan was compiled"},
           {"--verify", "[=f64]", [&o](const std::string &value) { return parseVerify(o, value); },
            "also run the reference, which is the model on one rank, and compare all outputs and gradients: they must "
            "not differ by more than rounding explains. With =f64 all floating-point values of both are f64, whatever "
            "types the plan has: this finds errors that the rounding of f32 and of 16 bits hides"},
           {"--reference", "", &o.reference, "run only the reference"},
           {"--seed", "N", &o.seed, "seed of the random values (default 0)"},
           {"--load", "PATH", &o.loads,
            "take arguments from a .safetensors file or from a Hugging Face checkpoint (a file, a "
            ".safetensors.index.json, or the folder of both); may be repeated. A file that has some of the parameters, "
            "or some of the states of an optimizer, must have all of them. Arguments that no file has are random"},
           {"--allow-missing", "", &o.allowMissing,
            "parameters and states that the files of --load lack begin as without --load"},
           {"--save", "FILE", &o.save, "write all results, as global values, to a .safetensors file"},
           {"--save-checkpoint", "PATH", &o.saveCheckpoint,
            "write the parameters at the end to the folder or .safetensors file PATH, in the layout of the checkpoint "
            "of --load; without one, to one file"},
           {"--routing", "FILE", &o.routing, "send tokens to the experts that FILE says, one iteration for each step"},
           {"--record-routing", "FILE", &o.recordRouting, "write the experts to which tokens were sent"},
           {"--trace", "FILE", &o.trace, "write a Perfetto/Chrome trace of the last step"},
           {"--timeout", "SECONDS", [&o](const std::string &value) { return parseTimeout(o, value); },
            "end a step that takes longer than this; with several processes, also end each wait for another one"},
           {"--no-cuda-graph", "", &o.noGraph,
            "launch the calls of each step one by one. Without it, backend cuda launches all steps but the first and "
            "the last as one graph, where the host need not look into a step"},
           {"--tf32", "", &o.tf32,
            "on GPUs, round the inputs of f32 products to tf32 (10 bits of mantissa), which is faster; --verify then "
            "allows for f32 results the error that it allows for f16"},
           {"--workers", "N", &o.workers, "threads (default: one for each core)"},
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
        "the tokens: a text, of which each byte is a token; an array of token ids, see --data-type; or a .npy file, "
        "whose header says the type of its ids"},
       {"--data-type", tokenTypeNames("|"), &o.dataType,
        "type of the ids in a file of --data without a header, little-endian"},
       {"--steps", "N", &o.steps, "train up to this step, counted from the first step of all (default 100)"},
       {"--rate", "R", &o.rate, "the learning rate after the warm-up (default 1e-3)"},
       {"--warmup", "N", &o.warmup, "steps over which the learning rate rises (default 0)"},
       {"--final-rate", "R", &o.finalRate,
        "the learning rate of the last step, to which it falls as a cosine (default: it does not fall)"},
       {"--checkpoint", "FILE", &o.checkpoint,
        "write a checkpoint every --checkpoint-every steps and at the end. If FILE is there, training goes on from "
        "it"},
       {"--checkpoint-every", "N", &o.checkpointEvery, "steps from one checkpoint to the next (default 100)"},
       {"--log", "FILE", &o.log, "write a line of JSON for each step"}}};
}

/// The options, which are set in `options`.
CommandLine commandLine(Options &options) {
  return {"moe-run",
          "PLAN.so [options]",
          "Runs a compiled plan on random or loaded values.",
          {runOptions(options), trainOptions(options)},
          "Exit status: 0 done; 1 the check failed, or the step hung or overflowed; 2 bad usage or input."};
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
  if (options.verify || options.adaptive || !options.save.empty() || !options.trace.empty() ||
      !options.routing.empty() || !options.recordRouting.empty())
    return invalid(
        "expected none of --verify, --adaptive, --save, --trace, --routing and --record-routing with --train");
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
      if (Status status = line.parse(argument); !status.ok())
        return status;
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
  if (options.verifyWide && !options.saveCheckpoint.empty())
    return invalid("--verify=f64 runs the plan in f64: expected no --save-checkpoint, which writes the plan's types");
  if (options.reference && !options.emulateLinks.empty())
    return invalid("--reference runs on one rank, so that --emulate-links has no transfers to emulate");
  if (options.tf32 && !options.backend.starts_with("cuda"))
    return invalid("--tf32 is for backends cuda and cuda-loopback, but the backend is '" + options.backend + "'");
  bool isForOne = options.reference || !options.loads.empty() || !options.save.empty() ||
                  !options.saveCheckpoint.empty() || !options.trace.empty() || !options.routing.empty() ||
                  !options.recordRouting.empty();
  if (Status status = checkTraining(options); !status.ok())
    return status;
  if (options.adaptive && isForOne)
    return invalid("--adaptive runs several variants of the plan: expected none of --reference, --load, --save, "
                   "--save-checkpoint, --trace, --routing and --record-routing with it");
  return {};
}

} // namespace moert::run
