//===- CostModel.h - times of work and exchanges on a cluster ---*- C++ -*-===//
//
// Two forms behind one interface. *Closed form*: an exchange takes alpha + beta * bytes, both measured near its bytes
// or derived from the links. *Link level*: an exchange is the flows of its algorithm on directed links. Flows share
// links max-min fairly, and their speeds change when one starts or ends. Neither form invents a number: if the profile
// lacks one, the error names it.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_COSTMODEL_H
#define MOE_COST_COSTMODEL_H

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>

namespace mlir::moe {

/// A launch that does not meet other ranks.
struct Work {
  llvm::StringRef kernel;
  llvm::ArrayRef<int64_t> params;
  llvm::StringRef dtype;
  const OpCost *cost = nullptr;
  /// Rows of each expert in a ragged launch; empty for other launches. The figures of `cost` scale with their sum.
  llvm::ArrayRef<int64_t> rows;
};

/// A meeting of the members of a group.
struct GroupExchange {
  Collective collective = Collective::None;
  llvm::StringRef dtype;
  int64_t payload = 0;
  int64_t root = 0;              ///< root member
  llvm::ArrayRef<int64_t> ranks; ///< by member
  /// Bytes of a ragged exchange, bytes[from * members + to]; empty for other exchanges. A phase has only its own bytes.
  llvm::ArrayRef<int64_t> matrix = {};
  /// One phase of an all_to_all, in which block b sends only to block b - phase. `payload` is as in OpCost.
  int64_t phase = 0, phases = 1;
  /// Bytes of a row of tokens; 0 if the exchange has none.
  int64_t rowBytes = 0;

  /// Share of one phase in the whole exchange: the number of its peers over all peers. In closed form, start-ups and
  /// bytes are proportional to peers, so this is also its share of the time.
  double getPart() const;
  /// Payload of all phases.
  double getWholePayload() const { return static_cast<double>(payload) * static_cast<double>(phases); }
  /// Whole payload of the even exchange that takes the same bytes. In a ragged exchange, each member counts as the one
  /// that sends or receives the most.
  double getEvenPayload() const;
  /// Whether data goes from member to member along a chain that begins or ends at the root.
  bool isRooted() const { return collective == Collective::Broadcast || collective == Collective::Reduce; }
  /// Whether nobody sends anything, because no expert is a shadow.
  bool isNothing() const { return isRooted() && payload == 0; }
};

/// Exchanges that run in virtual time. Time must not decrease between calls.
class Network {
public:
  struct Completion {
    uint32_t exchange, member;
  };
  virtual ~Network() = default;

  /// Starts an exchange whose members are all there at `now`. Returns its number. Numbers of ended exchanges are used
  /// again.
  virtual llvm::Expected<uint32_t> start(double now, const GroupExchange &exchange) = 0;
  /// Slows a member by interference: from `now` on it has `speed` times its speed alone. In closed form, the slowest
  /// member sets the speed of the exchange.
  virtual void setSpeed(double now, uint32_t exchange, uint32_t member, double speed) = 0;
  /// Time at which the next member is done if nothing changes. Infinity if no exchange runs.
  virtual double getNextTime() = 0;
  /// Moves on to `now`, which is at most getNextTime(), and appends the members that are done.
  virtual void advance(double now, llvm::SmallVectorImpl<Completion> &done) = 0;
};

enum class CostForm { ClosedForm, LinkLevel };

/// Confidence in a predicted time.
struct Confidence {
  std::optional<double> relativeError; ///< mean error of the measurements behind it, if the profile states it
  bool isExtrapolated = false;         ///< whether no measurement brackets it
};

struct LinkFault {
  std::string from, to; ///< vertices of Topology
  double factor = 1;    ///< factor of the bandwidth, as 0.5 for half
};

struct GroupTime;

/// Predicts times. It caches results, so several threads must not use it at the same time.
class CostModel {
public:
  virtual ~CostModel();
  /// State that both forms share; lib/Cost/Forms.h.
  struct State;

  /// Makes a model of `ranks` devices of the profile, which must outlive the model. Fails if the profile has too few,
  /// if the link-level form finds no links, or if a fault does not name a link.
  static llvm::Expected<std::unique_ptr<CostModel>> create(const ClusterProfile &profile, int64_t ranks, CostForm form,
                                                           llvm::ArrayRef<LinkFault> faults = {});

  const ClusterProfile &getProfile() const { return profile; }
  int64_t getNumRanks() const { return ranks; }

  /// Seconds on the device alone, without the launch itself (docs/CostModel.md). At least the profile's kernelSeconds,
  /// but 0 for Resource::None. Fails for a dtype without a rate, for a profile without a host link, and for exchanges.
  llvm::Expected<double> getSeconds(const Work &work) const;
  /// Confidence in getSeconds(work): the error of its fit or curve, and whether the sizes are outside the grid of the
  /// curve.
  Confidence getConfidence(const Work &work) const;
  /// Seconds of an exchange alone, from the arrival of its last member until all members are done. docs/CostModel.md
  /// describes phases and ragged exchanges in the closed form.
  virtual llvm::Expected<double> getSeconds(const GroupExchange &exchange) const = 0;
  /// Confidence in getSeconds(exchange). A time that comes from links, in whole or in part, is extrapolated.
  Confidence getConfidence(const GroupExchange &exchange) const;
  /// Seconds of one member's share of an exchange on a processor, by the profile's fit, if devices share processors.
  llvm::Expected<double> getShareSeconds(const GroupExchange &exchange, unsigned member) const;
  /// alpha and beta of a collective and group near some payload: t = alpha + beta * payload.
  struct AlphaBeta {
    double alpha = 0, beta = 0;
    bool measured = false; ///< whether a fit or a curve of the profile was used, and not only its links
    /// Mean error of the measurements, if the profile states it for all of them.
    std::optional<double> relativeError;
  };
  /// If neither a fit nor links give the time, the error names the collective, the shape of the group and the cluster.
  llvm::Expected<AlphaBeta> getAlphaBeta(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype,
                                         int64_t payload) const;

  /// Speed of a kind of work while the set `busy` of kinds (bit 1 << r for Resource r) runs on its device.
  llvm::Expected<double> getSpeed(Resource resource, unsigned busy) const;

  virtual std::unique_ptr<Network> createNetwork() const = 0;
  /// Whether an exchange's time depends on other traffic. Then all ranks have to be simulated.
  virtual bool hasContention() const = 0;

  /// Lower bound of FasterMoE's Eq. 2 for `matrix` bytes between all ranks, [from * ranks + to]: the most seconds that
  /// any link needs. Without links, the seconds of the processors, or the most bytes that a rank sends or receives at
  /// the least beta of the profile's all_to_all fits.
  llvm::Expected<double> getLinkBound(llvm::ArrayRef<double> matrix) const;

protected:
  explicit CostModel(std::unique_ptr<State> state);

  /// getAlphaBeta() with facts that flows need; lib/Cost/Forms.h.
  llvm::Expected<GroupTime> getGroupTime(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype,
                                         double payload) const;
  /// Checks that there are members, and that root, phases and matrix fit them.
  llvm::Error check(const GroupExchange &exchange) const;

  const ClusterProfile &profile;
  int64_t ranks;
  std::unique_ptr<State> state;
};

} // namespace mlir::moe

#endif // MOE_COST_COSTMODEL_H
