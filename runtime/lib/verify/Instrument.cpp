//===- Instrument.cpp - the modes in which a world verifies ---------------===//

#include "core/Instrument.h"
#include "core/Device.h"
#include "core/Field.h"
#include "verify/Jumps.h"
#include "verify/Memory.h"
#include "verify/Perturb.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace moert {
namespace {

/// Whether an input of the call lies in the memory of an output.
bool isInput(const Call &call, const View &out) {
  for (int i = 0; i < call.viewCount; ++i)
    if (const View &in = call.views[i]; in && !infoOf(call.kind).operands[i].isOutput)
      if (in.as<const char>() < out.as<const char>() + out.bytes() &&
          out.as<const char>() < in.as<const char>() + in.bytes())
        return true;
  return false;
}

/// Overwrites a call's outputs before it runs. Rows that a ragged call does not use would keep values of an earlier
/// call, and the observer would take them for results.
void forgetOutputs(const Call &call) {
  for (int i = 0; i < call.viewCount; ++i)
    if (const View &out = call.views[i];
        out && out.dtype == kFieldType && infoOf(call.kind).operands[i].isOutput && !isInput(call, out))
      std::fill_n(out.as<Field>(), out.elements(), -std::numeric_limits<Field>::infinity());
}

/// Size of the smallest floating-point type among the arguments of `programs`; 0 if they have none.
size_t leastSizeOf(std::span<const Program> programs) {
  size_t least = 0;
  for (const Value &value : argumentsOf(programs))
    if (isFloating(value.dtype) && (least == 0 || dtypeSize(value.dtype) < least))
      least = dtypeSize(value.dtype);
  return least;
}

class VerifyInstrument final : public Instrument {
public:
  VerifyInstrument(const VerifyModes &modes, const WorldPrograms &programs, const std::vector<Group> &groups,
                   std::optional<int64_t> guard)
      : modes(modes), memory(programs, groups, modes, guard) {
    perturbation.leastSize = leastSizeOf(programs.programs);
  }

  Status listUses() { return memory.listUses(); }

  void adjust(BackendOptions &options) override {
    options.instrument = this;
    if (modes.wideType != kFieldType)
      return;
    // Times of exact arithmetic mean nothing. Because it is slow, one rank issues for all, and one thread moves a whole
    // exchange.
    options.times = false;
    options.issuesOnce = true;
    options.wholeBytes = INT64_MAX;
  }
  bool changesTypes() const override { return memory.isWide(); }
  int64_t bytesOf(const Value &value) const override { return memory.bytesOf(value); }
  double arenaBytes(const Program &program) const override { return memory.arenaBytes(program); }
  Status allocate(Device &device, moert_rank &rank) override { return memory.allocate(device, rank); }
  Status place(const moert_rank &rank, const moert_buffer &buffer, int64_t begin, View &view) const override {
    return memory.place(rank, buffer, begin, view);
  }
  Status checkMemory(Device &device) const override { return memory.checkFences(device); }

  void begin(const Call &call) override {
    if (modes.observe)
      forgetOutputs(call);
    if (modes.decide) {
      std::lock_guard lock(mutex);
      verify::decideJumps(call, calls[{call.rank, call.op}]++, modes);
    }
  }
  void end(std::span<const Call *const> calls) override {
    for (const Call *call : calls)
      verify::perturbOutputs(*call, perturbation);
    if (modes.observe)
      tell(calls);
  }

private:
  /// See moert_observe.
  void tell(std::span<const Call *const> calls);

  const VerifyModes modes;
  Perturbation perturbation = modes.perturbation;
  verify::Memory memory;
  std::mutex mutex;                                     ///< held while a function of the caller runs
  std::map<std::pair<int64_t, int64_t>, int64_t> calls; ///< number of calls, by rank and op
};

void VerifyInstrument::tell(std::span<const Call *const> calls) {
  std::vector<moert_operand> operands;
  std::vector<moert_ran> ran;
  for (const Call *call : calls) {
    const size_t first = operands.size();
    for (int i = 0; i < call->viewCount; ++i)
      if (const View &view = call->views[i])
        operands.push_back({view.data, view.bytes(), view.dtype, infoOf(call->kind).operands[i].isOutput});
    ran.push_back({call->rank, call->op, static_cast<int64_t>(operands.size() - first), nullptr});
  }
  const moert_operand *next = operands.data();
  for (moert_ran &call : ran) {
    call.operands = next;
    next += call.operand_count;
  }
  std::lock_guard lock(mutex);
  modes.observe(modes.observeContext, ran.data(), std::ssize(ran));
}

} // namespace

Status readModes(const moert_world_config &config, const std::string &backend, VerifyModes &modes) {
  if (config.wide < MOERT_WIDE_NONE || config.wide > MOERT_WIDE_FIELD)
    return invalid("expected wide to be a moert_wide but got ", config.wide);
  if (config.wide == MOERT_WIDE_FIELD && backend != "host")
    return invalid("expected backend 'host' for wide = MOERT_WIDE_FIELD but got '", backend, "'");
  if (config.perturb_ulps < 0 || (config.perturb_ulps > 0 && backend != "host"))
    return invalid("expected perturb_ulps of 0 or more, and of 0 but on backend 'host'; got ", config.perturb_ulps,
                   " on '", backend, "'");
  if (config.observe && config.wide != MOERT_WIDE_FIELD)
    return invalid("expected wide = MOERT_WIDE_FIELD where calls are observed");
  if (config.decide && backend != "host")
    return invalid("expected backend 'host' for decide but got '", backend, "'");
  constexpr int32_t kWideTypes[] = {kPlanTypes, MOERT_F64, kFieldType};
  modes = {kWideTypes[config.wide], config.verify != 0,     {config.perturb_ulps, config.perturb_seed},
           config.observe,          config.observe_context, config.decide,
           config.decide_context};
  return {};
}

Status makeInstrument(const VerifyModes &modes, const WorldPrograms &programs, const std::vector<Group> &groups,
                      std::unique_ptr<Instrument> &instrument) {
  std::optional<int64_t> guard;
  MOERT_RETURN_IF_ERROR(verify::readGuard(guard));
  if (!guard && modes.wideType == kPlanTypes && !modes.beginsAsNaN && modes.perturbation.ulps == 0 && !modes.decide)
    return {};
  auto made = std::make_unique<VerifyInstrument>(modes, programs, groups, guard);
  MOERT_RETURN_IF_ERROR(made->listUses());
  instrument = std::move(made);
  return {};
}

} // namespace moert
