//===- Instrument.h - the seam for runs that verify -----------------------===//
//
// A run that verifies may have other types of values, another layout of memory, or a look at each call. The folder
// runtime/lib/verify implements this. A production run has no instrument.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_INSTRUMENT_H
#define MOERT_CORE_INSTRUMENT_H

#include "core/Call.h"
#include "moert/world.h"

#include <memory>
#include <span>

namespace moert {

class Device;
struct BackendOptions;
struct Group;
struct Value;
struct WorldPrograms;

/// Stands for the plan's own types in VerifyModes::wideType.
inline constexpr int32_t kPlanTypes = -1;

/// Moves computed values at random; see moert_world_config.
struct Perturbation {
  int64_t ulps = 0; ///< 0: not at all
  uint64_t seed = 0;
  /// Size of the smallest type that is moved. A value of a smaller type than any argument's is rounded more than the
  /// plan may round.
  size_t leastSize = 0;
};

/// Modes in which a world verifies; see moert_world_config.
struct VerifyModes {
  int32_t wideType = kPlanTypes; ///< type of all floating-point values, MOERT_F64 or kFieldType
  bool beginsAsNaN = false;      ///< memory begins full of NaN
  Perturbation perturbation = {};
  moert_observe observe = nullptr;
  void *observeContext = nullptr;
  moert_decide decide = nullptr;
  void *decideContext = nullptr;
};

class Instrument {
public:
  virtual ~Instrument() = default;

  /// Sets the options of the backend that the modes need.
  virtual void adjust(BackendOptions &options) = 0;
  /// Whether values have other types than in the plan.
  virtual bool changesTypes() const = 0;
  /// Bytes of one rank's part of a value.
  virtual int64_t bytesOf(const Value &value) const = 0;
  /// Bytes of the arenas of a rank that runs `program`; in floating point, because the sum may not fit 64 bits.
  virtual double arenaBytes(const Program &program) const = 0;

  /// Allocates the arenas and the values of a rank.
  virtual Status allocate(Device &device, moert_rank &rank) = 0;
  /// Sets the address and the type of `view`. In the plan it begins at byte `begin` of the arena or argument of
  /// `buffer`.
  virtual Status place(const moert_rank &rank, const moert_buffer &buffer, int64_t begin, View &view) const = 0;
  /// Fails if a step wrote where it must not.
  virtual Status checkMemory(Device &device) const = 0;

  /// Called before a call runs on the host.
  virtual void begin(const Call &call) = 0;
  /// Called after calls ran on the host: one call, or those of all members of an exchange.
  virtual void end(std::span<const Call *const> calls) = 0;
};

/// Reads the modes that the configuration of a world on `backend` asks for.
Status readModes(const moert_world_config &config, const std::string &backend, VerifyModes &modes);

/// Makes the instrument for the modes and for MOERT_GUARD; null if none is asked for. Programs and groups must outlive
/// it.
Status makeInstrument(const VerifyModes &modes, const WorldPrograms &programs, const std::vector<Group> &groups,
                      std::unique_ptr<Instrument> &instrument);

} // namespace moert

#endif // MOERT_CORE_INSTRUMENT_H
