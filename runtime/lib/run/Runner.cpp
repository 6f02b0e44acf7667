//===- Runner.cpp - running the programs of a plan on global values -------===//

#include "run/Runner.h"
#include "run/checkpoint/Sharding.h"

#include <algorithm>
#include <numeric>

namespace moert::run {

/// Backend of a run. The reference needs no other process. Under --verify, the host computes the reference of a device.
static const char *backendOf(bool reference, const Options &options) {
  if (!reference || (options.backend == "cuda-loopback" && !options.verify))
    return options.backend.c_str();
  return options.backend == "cuda" && !options.verify ? "cuda-loopback" : "host";
}

static moert_world_config makeConfig(const Plan &plan, bool reference, const Options &options) {
  moert_world_config config{};
  config.size = sizeof config;
  config.version = MOERT_WORLD_CONFIG_VERSION;
  config.program = reference ? MOERT_PROGRAM_REFERENCE : MOERT_PROGRAM_RANK;
  config.backend = backendOf(reference, options);
  config.workers = options.workers;
  config.timeout_s = options.timeout;
  config.agreement = options.agreement.c_str();
  config.variant = plan.variant;
  config.emulate = !reference && !options.emulateLinks.empty();
  config.graphs = !options.noGraph;
  config.tf32 = options.tf32;
  config.wide = plan.wide;
  return config;
}

Status Runner::create() {
  moert_world_config config = makeConfig(plan, reference, options);
  config.verify = options.verify ? (routing && routing->avoidsShadows() ? 2 : 1) : 0;
  config.perturb_ulps = extras.perturbation.ulps;
  config.perturb_seed = extras.perturbation.seed;
  if (extras.observe) {
    config.observe = [](void *context, const moert_ran *calls, int64_t count) {
      static_cast<const RunExtras *>(context)->observe({calls, static_cast<size_t>(count)});
    };
    config.observe_context = &extras;
  }
  if (extras.decide) {
    config.decide = [](void *context, const moert_near *near) -> int32_t {
      return static_cast<const RunExtras *>(context)->decide(*near);
    };
    config.decide_context = &extras;
  }
  moert_world_t handle = nullptr;
  MOERT_RETURN_IF_ERROR(checked(moert_world_create(plan.handle.get(), &config, &handle)));
  world.reset(handle, moert_world_destroy);
  const int64_t *first;
  int64_t count;
  Status status = checked(moert_world_ranks(handle, &result.ranks, &first, &count));
  ranks = {first, static_cast<size_t>(count)};
  if (isSlowedByTimes())
    status = checked(moert_world_time_ops(handle, 0));
  everyone.resize(static_cast<size_t>(result.ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  return status.ok() ? writeZeros() : status;
}

Status Runner::write(const std::string &name, const Tensor &tensor) {
  bool found = false;
  for (size_t i = 0; i < programs.size(); ++i) {
    const Program::Found argument = programs[i].findArgument(name);
    if (!argument.value)
      continue;
    found = true;
    for (int64_t rank : ranks) {
      if (programIndex(programs, rank) != i)
        continue;
      const PartBytes place = partOf(*argument.value, groups, rank);
      std::vector<char> part(static_cast<size_t>(place.count));
      cutPart(tensor, *argument.value, groups, rank, part.data());
      MOERT_RETURN_IF_ERROR(
          checked(moert_world_write_range(world.get(), rank, argument.index, place.begin, part.data(), place.count)));
    }
  }
  return found ? Status{} : invalid("the program has no argument '" + name + "'");
}

/// Writes zeros between the pieces of buckets and after them.
Status Runner::writeZeros() {
  for (int64_t rank : ranks) {
    const Program &program = programs[programIndex(programs, rank)];
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      const Value &value = program.arguments[i];
      std::vector<char> zeros(value.pieces.empty() ? 0 : static_cast<size_t>(value.localBytes()));
      if (!zeros.empty())
        MOERT_RETURN_IF_ERROR(
            checked(moert_world_write(world.get(), rank, static_cast<int64_t>(i), zeros.data(), value.localBytes())));
    }
  }
  return {};
}

Status Runner::meet(const Status &own) {
  return checked(moert_world_meet(world.get(), own.code, own.ok() ? nullptr : own.message.c_str()));
}

Status Runner::writeInputs(const Tensors &inputs) {
  for (const Value &value : argumentsOf(programs))
    MOERT_RETURN_IF_ERROR(write(value.name, inputs.at(value.name)));
  return {};
}

Status Runner::addRankTimes(int64_t rank, double &flops) {
  size_t index = programIndex(programs, rank), first = firstOp(programs, index);
  const std::vector<Op> &ops = programs[index].ops;
  std::vector<moert_op_time> times(ops.size());
  int64_t count = 0;
  do {
    times.resize(std::max(times.size(), static_cast<size_t>(count)));
    MOERT_RETURN_IF_ERROR(
        checked(moert_world_timeline(world.get(), rank, times.data(), static_cast<int64_t>(times.size()), &count)));
  } while (count > static_cast<int64_t>(times.size()));
  times.resize(static_cast<size_t>(count));
  for (const moert_op_time &time : times) {
    const Op &op = ops[static_cast<size_t>(time.op)];
    bool ragged = op.rows > 0 && time.rows >= 0;
    double scale = ragged ? static_cast<double>(time.rows) / static_cast<double>(op.rows) : 1;
    OpTotals &totals = result.ops[first + static_cast<size_t>(time.op)];
    totals.seconds += time.end_s - time.begin_s;
    totals.flops += op.flops * scale;
    flops += op.flops * scale;
    totals.bytes += op.bytes * scale;
    totals.bytesSent += op.bytesSent * scale;
    if (time.bytes_received >= 0) {
      totals.collectives += 1;
      totals.bytesReceived += static_cast<double>(time.bytes_received);
    }
    result.lastStep.push_back({rank, time});
  }
  return {};
}

Status Runner::runStep() {
  int64_t step = nextStep++;
  double seconds = 0;
  if (routing)
    MOERT_RETURN_IF_ERROR(routing->beginStep(world.get(), ranks, reference, step));
  MOERT_RETURN_IF_ERROR(checked(moert_world_run(world.get(), &seconds)));
  result.stepSeconds.push_back(seconds);
  return routing ? routing->endStep(world.get(), reference, step) : Status{};
}

Status Runner::runSteps(int64_t steps, std::ostream *progress) {
  result.ops.assign(firstOp(programs, programs.size()), {});
  result.rankFlops.assign(everyone.size(), 0);
  int64_t timed = 0;
  for (int64_t step = 0; step < steps; ++step) {
    bool isTimed = (!isSlowedByTimes() || step + 1 == steps) && !isExact();
    MOERT_RETURN_IF_ERROR(checked(moert_world_time_ops(world.get(), isTimed)));
    MOERT_RETURN_IF_ERROR(runStep());
    if (isTimed)
      result.lastStep.clear();
    for (int64_t rank : isTimed ? std::span<const int64_t>(everyone) : std::span<const int64_t>())
      MOERT_RETURN_IF_ERROR(addRankTimes(rank, result.rankFlops[static_cast<size_t>(rank)]));
    timed += isTimed;
    if (progress)
      *progress << "\rstep " << step + 1 << "/" << steps << (step + 1 == steps ? "\n" : "") << std::flush;
  }
  for (OpTotals &totals : result.ops)
    for (double *figure :
         {&totals.seconds, &totals.flops, &totals.bytes, &totals.bytesSent, &totals.collectives, &totals.bytesReceived})
      *figure /= static_cast<double>(std::max<int64_t>(timed, 1));
  for (double &flops : result.rankFlops)
    flops /= static_cast<double>(std::max<int64_t>(timed, 1));
  return addMemory();
}

Status Runner::addMemory() {
  for (int32_t space : {MOERT_SPACE_DEVICE, MOERT_SPACE_HOST_PINNED})
    for (int64_t rank : everyone) {
      ArenaUse use, &most = result.arenas[space];
      MOERT_RETURN_IF_ERROR(checked(moert_world_memory(world.get(), rank, space, &use.planned, &use.measured)));
      most = {std::max(most.planned, use.planned), std::max(most.measured, use.measured)};
    }
  for (int64_t rank : everyone) {
    int64_t bytes;
    MOERT_RETURN_IF_ERROR(checked(moert_world_other_memory(world.get(), rank, &bytes)));
    result.otherBytes = std::max(result.otherBytes, bytes);
  }
  return {};
}

Status Runner::read(const Value &value, Find find, Tensor &tensor, double &disagreement) {
  MOERT_RETURN_IF_ERROR(Tensor::allocate(value, tensor));
  Assembler assembler(value, groups, tensor);
  std::vector<char> part;
  std::map<int64_t, std::vector<char>> parts;
  for (size_t i = 0; i < programs.size(); ++i) {
    const Program::Found found = (programs[i].*find)(value.name);
    for (int64_t rank : everyone) {
      if (!found.value || programIndex(programs, rank) != i)
        continue;
      const PartBytes place = partOf(*found.value, groups, rank);
      part.resize(static_cast<size_t>(place.count));
      MOERT_RETURN_IF_ERROR(
          checked(moert_world_read_at(world.get(), rank, found.index, place.begin, part.data(), place.count)));
      assembler.add(rank, part.data());
      if (isExact())
        parts[rank] = part;
    }
  }
  if (!assembler.complete())
    return Status::error(MOERT_ERROR_INTERNAL, "the ranks of this process do not hold all of '" + value.name + "'");
  disagreement = assembler.disagreement();
  if (disagreement > 0)
    result.unlike[value.name] = std::move(parts);
  return {};
}

Status Runner::read(const std::string &name, Tensor &tensor) {
  double disagreement;
  for (Find find : {&Program::findArgument, &Program::findResult})
    for (const Program &program : programs)
      if (const Program::Found found = (program.*find)(name); found.value)
        return read(*found.value, find, tensor, disagreement);
  return invalid("the program has no argument or result '" + name + "'");
}

/// Reads the results. Arguments that a step changes count as results.
Status Runner::readResults() {
  auto readResult = [&](const Value &value, Find find) {
    return read(value, find, result.results[value.name], result.replicaGap[value.name]);
  };
  for (const Value &value : argumentsOf(programs))
    if (value.updated)
      MOERT_RETURN_IF_ERROR(readResult(value, &Program::findArgument));
  for (const Value &value : resultsOf(programs))
    MOERT_RETURN_IF_ERROR(readResult(value, &Program::findResult));
  return {};
}

size_t firstOp(std::span<const Program> programs, size_t index) {
  size_t count = 0;
  for (const Program &program : programs.first(index))
    count += program.ops.size();
  return count;
}

Status checkMemory(const Plan &plan, bool reference, const Options &options, int64_t results) {
  moert_world_config config = makeConfig(plan, reference, options);
  config.workers = 1;
  for (const Value &value : argumentsOf(plan.programs(reference)))
    config.other_bytes += (1 + (value.updated ? results : 0)) * value.bytes();
  for (const Value &value : resultsOf(plan.programs(reference)))
    config.other_bytes += results * value.bytes();
  return checked(moert_world_check(plan.handle.get(), &config));
}

Status runPrograms(const Plan &plan, bool reference, const Options &options, const Tensors &inputs, Routing *routing,
                   std::ostream *progress, RunResult &result, const RunExtras &extras) {
  Runner runner(plan, reference, options, result);
  runner.extras = extras;
  // All steps start from the same arguments, but may be routed differently, so the results are those of the last step.
  // Only steps that change their arguments depend on each other.
  int64_t steps = reference && options.verify && !changesArguments(runner.programs) ? 1 : options.iters;
  runner.routing = routing;
  runner.nextStep = options.iters - steps;
  MOERT_RETURN_IF_ERROR(runner.create());
  MOERT_RETURN_IF_ERROR(runner.writeInputs(inputs));
  MOERT_RETURN_IF_ERROR(runner.runSteps(steps, progress));
  return runner.readResults();
}

} // namespace moert::run
