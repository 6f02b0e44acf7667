//===- Options.cpp - the command line of moe-run --------------------------===//

#include "run/Options.h"

#include <charconv>
#include <cmath>

namespace moert::run {

const char *const kHelpText =
    R"(usage: moe-run PLAN.so [options]

Runs a compiled plan on random or loaded values.

  --backend=NAME     host (default), mpi, cuda, cuda-loopback
  --digest=SHA256    run the plan only if this is its digest, in hexadecimal, as sha256sum prints it; where
                     there is a file PLAN.so.sha256, that has to say the same
  --ranks=N          must be what the plan was compiled for
  --batch=N          sequences of a data-parallel rank, and
  --seq=N            tokens of a sequence: which shape of a plan of several to run (default: its first)
  --iters=N          steps to run (default 1)
  --adaptive         choose how many chunks a step is cut into by the times of the steps before; the
                     steps' shapes are drawn at random (--seed) from the plan's
  --emulate-links=NAME
                     let every transfer take as long as on the cluster that the plan was compiled for
  --verify           run the one-rank reference too, and compare all outputs and gradients: they must not
                     differ by more than rounding explains, which further runs measure where need be
  --verify=f64       the same with all floating-point values of the same plan in f64, whatever its types: finds
                     what the rounding of f32 and of 16 bits hides
  --reference        run only the one-rank reference
  --seed=N           of the random values (default 0)
  --load=PATH        take arguments from a .safetensors file, or from a Hugging Face checkpoint: a file, a
                     .safetensors.index.json, or their folder; may be repeated; a file that has some of
                     the parameters, or of an optimizer's states, must have all of them; what no file has
                     is random
  --allow-missing    parameters and states that the files of --load lack begin as without --load
  --save=FILE        write all results, as global values, to a .safetensors file
  --save-checkpoint=PATH
                     write the parameters, at the end, in the layout of the checkpoint of --load to the
                     folder or .safetensors file PATH; without one, as one file
  --routing=FILE     let tokens go to the experts that FILE says, a step to each of its iterations
  --record-routing=FILE
                     write to which experts tokens went
  --train            train on --data, with what these say:
    --data=FILE      a text, of which the bytes are the tokens
    --steps=N        up to which step (default 100)
    --rate=R         learning rate (default 1e-3), reached after
    --warmup=N       steps (default 0), and falling, as a cosine, to
    --final-rate=R   at the last step (default: it does not fall)
    --checkpoint=FILE
                     written every --checkpoint-every=N steps (default 100) and at the end; where it is
                     there already, training goes on from it
    --log=FILE       a line of JSON for each step
  --trace=FILE       write a Perfetto/Chrome trace of the last step
  --timeout=SECONDS  give a step up after so long; in several processes also each wait for another one
  --no-cuda-graph    launch the calls of each step one by one; else, on backend cuda, all steps but the
                     first and the last as one graph, where the host need not look into a step
  --tf32             on GPUs, f32 products round what they take to tf32 (10 bits of mantissa), which is
                     faster; --verify then allows f32 results what it allows f16 ones
  --workers=N        threads (default: one for each core)
  --json             print one JSON object instead of tables
  --help             print this

Exit status: 0 done; 1 the check failed, or the step hung or overflowed; 2 bad usage or input.
)";

namespace {

Status invalid(const std::string &message) { return Status::error(MOERT_ERROR_INVALID_ARGUMENT, message); }

template <class T> bool parseNumber(const std::string &text, T &number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

Status parsePositive(const std::string &name, const std::string &text, int64_t &number) {
  if (parseNumber(text, number) && number > 0)
    return {};
  return invalid("expected a positive integer for " + name + " but got '" + text + "'");
}

/// Options without a value; null where `name` is not one.
bool *findFlag(Options &options, const std::string &name) {
  if (name == "--verify")
    return &options.verify;
  if (name == "--reference")
    return &options.reference;
  if (name == "--json")
    return &options.json;
  if (name == "--adaptive")
    return &options.adaptive;
  if (name == "--no-cuda-graph")
    return &options.noGraph;
  if (name == "--tf32")
    return &options.tf32;
  if (name == "--allow-missing")
    return &options.allowMissing;
  if (name == "--train")
    return &options.train.enabled;
  return name == "--help" || name == "-h" ? &options.help : nullptr;
}

std::string *findText(Options &options, const std::string &name) {
  if (name == "--backend")
    return &options.backend;
  if (name == "--save")
    return &options.save;
  if (name == "--save-checkpoint")
    return &options.saveCheckpoint;
  if (name == "--digest")
    return &options.digest;
  if (name == "--emulate-links")
    return &options.emulateLinks;
  if (name == "--data")
    return &options.train.data;
  if (name == "--checkpoint")
    return &options.train.checkpoint;
  if (name == "--log")
    return &options.train.log;
  if (name == "--routing")
    return &options.routing;
  if (name == "--record-routing")
    return &options.recordRouting;
  return name == "--trace" ? &options.trace : nullptr;
}

int64_t *findCount(Options &options, const std::string &name) {
  if (name == "--ranks")
    return &options.ranks;
  if (name == "--batch")
    return &options.batch;
  if (name == "--seq")
    return &options.seq;
  if (name == "--iters")
    return &options.iters;
  if (name == "--steps")
    return &options.train.steps;
  if (name == "--warmup")
    return &options.train.warmup;
  if (name == "--checkpoint-every")
    return &options.train.checkpointEvery;
  return name == "--workers" ? &options.workers : nullptr;
}

double *findRate(Options &options, const std::string &name) {
  if (name == "--rate")
    return &options.train.rate;
  return name == "--final-rate" ? &options.train.finalRate : nullptr;
}

/// --train and what goes with it, and what does not.
Status checkTraining(const Options &options) {
  const TrainOptions &train = options.train;
  if (!train.enabled)
    return train.data.empty() && train.checkpoint.empty() && train.log.empty()
               ? Status{}
               : invalid("expected --train with --data, --checkpoint and --log");
  if (train.data.empty())
    return invalid("expected --data=FILE with --train");
  if (options.verify || options.adaptive || !options.save.empty() || !options.trace.empty() ||
      !options.routing.empty() || !options.recordRouting.empty())
    return invalid(
        "expected none of --verify, --adaptive, --save, --trace, --routing and --record-routing with --train");
  return {};
}

Status parseOption(const std::string &argument, Options &options) {
  size_t equals = argument.find('=');
  std::string name = argument.substr(0, equals);
  bool hasValue = equals != std::string::npos;
  std::string value = hasValue ? argument.substr(equals + 1) : "";
  if (name == "--verify" && hasValue) {
    options.verify = options.verifyWide = true;
    return value == "f64" ? Status{} : invalid("expected --verify or --verify=f64 but got '" + argument + "'");
  }
  if (bool *flag = findFlag(options, name)) {
    *flag = true;
    return hasValue ? invalid(name + " takes no value") : Status{};
  }
  bool known = findText(options, name) || findCount(options, name) || findRate(options, name) || name == "--load" ||
               name == "--seed" || name == "--timeout";
  if (!known)
    return invalid("unknown option '" + name + "'; moe-run --help lists them");
  if (value.empty())
    return invalid("expected a value: " + name + "=...");
  if (name == "--load") {
    options.loads.push_back(value);
    return {};
  }
  if (std::string *text = findText(options, name)) {
    *text = value;
    return {};
  }
  if (int64_t *count = findCount(options, name))
    return parsePositive(name, value, *count);
  if (double *rate = findRate(options, name))
    return parseNumber(value, *rate) && *rate >= 0 && std::isfinite(*rate)
               ? Status{}
               : invalid("expected a number that is not negative for " + name + " but got '" + value + "'");
  if (name == "--seed")
    return parseNumber(value, options.seed)
               ? Status{}
               : invalid("expected an integer that is not negative for --seed but got '" + value + "'");
  // Up to a century, which the clock can still count.
  if (parseNumber(value, options.timeout) && options.timeout > 0 && options.timeout < 3e9)
    return {};
  return invalid("expected a positive number of seconds for --timeout but got '" + value + "'");
}

} // namespace

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  for (const std::string &argument : arguments) {
    if (argument.size() > 1 && argument[0] == '-') {
      if (Status status = parseOption(argument, options); !status.ok())
        return status;
    } else if (options.plan.empty()) {
      options.plan = argument;
    } else {
      return invalid("expected one plan but got '" + options.plan + "' and '" + argument + "'");
    }
  }
  if (options.help)
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
