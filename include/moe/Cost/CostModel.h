//===- CostModel.h - how long things take on a cluster ----------*- C++ -*-===//
//
// Two forms behind one interface. *Closed form*: each exchange takes alpha + beta * bytes, where both hold near its
// bytes, measured or derived from the links. *Link level*: an exchange is the flows of its algorithm on directed links,
// which share them max-min fairly and whose speeds are computed anew when one starts or ends. Neither invents a number:
// what the profile does not say is an error that names it.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_COSTMODEL_H
#define MOE_COST_COSTMODEL_H

#include "moe/Cost/ClusterProfile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>

namespace mlir::moe {

/// A launch that meets nobody.
struct Work {
  llvm::StringRef kernel;
  llvm::ArrayRef<int64_t> params;
  llvm::StringRef dtype;
  const OpCost *cost = nullptr;
  /// Of a ragged launch: rows of each expert; the figures of `cost` scale with their sum. Else empty.
  llvm::ArrayRef<int64_t> rows;
};

/// A meeting of the members of a group.
struct GroupExchange {
  Collective collective = Collective::None;
  llvm::StringRef dtype;
  int64_t payload = 0;
  int64_t root = 0;              ///< a member
  llvm::ArrayRef<int64_t> ranks; ///< by member
  /// Of a ragged one: bytes[from * members + to], of a phase those of that phase alone. Else empty.
  llvm::ArrayRef<int64_t> matrix;
  /// One phase of an all_to_all: block b sends to block b - phase alone. `payload` as in OpCost.
  int64_t phase = 0, phases = 1;

  /// What one phase is of all: its peers of all others. In closed form start-ups are paid for each peer, and so are
  /// bytes, so that this is its part of the time.
  double getPart() const;
  /// Of all phases.
  double getWholePayload() const { return static_cast<double>(payload) * static_cast<double>(phases); }
  /// The whole payload of an even exchange of which this one takes getPart(): of a ragged one, of one whose members
  /// send what the busiest one sends to or receives from others.
  double getEvenPayload() const;
  /// Goes from member to member along a chain that ends, or begins, at the root.
  bool isRooted() const { return collective == Collective::Broadcast || collective == Collective::Reduce; }
  /// Where no expert is a shadow nobody sends anything.
  bool isNothing() const { return isRooted() && payload == 0; }
};

/// Exchanges under way, in virtual time. Time never runs backwards between calls.
class Network {
public:
  struct Completion {
    uint32_t exchange, member;
  };
  virtual ~Network() = default;

  /// All members are there at `now`. Returns the exchange's number; numbers of finished ones are used again.
  virtual llvm::Expected<uint32_t> start(double now, const GroupExchange &exchange) = 0;
  /// From `now` on member `member` of an exchange goes at `speed` of its speed alone (interference). The closed form
  /// goes at the speed of the slowest member.
  virtual void setSpeed(double now, uint32_t exchange, uint32_t member, double speed) = 0;
  /// When the next member is done, if nothing changes; infinity where nothing is under way.
  virtual double getNextTime() = 0;
  /// Moves on to `now`, which is at most getNextTime(), and appends the members that are done by then.
  virtual void advance(double now, llvm::SmallVectorImpl<Completion> &done) = 0;
};

enum class CostForm { ClosedForm, LinkLevel };

/// How sure a predicted time is.
struct Confidence {
  std::optional<double> relativeError; ///< mean over the measurements behind it, where the profile states it
  bool isExtrapolated = false;         ///< no measurement brackets it
};

struct LinkFault {
  std::string from, to; ///< names of Topology
  double factor = 1;    ///< of the bandwidth, 0.5 for half
};

struct GroupTime;

/// How long. Not for use by several threads at once: it keeps what it has computed.
class CostModel {
public:
  virtual ~CostModel();
  /// What both forms share; lib/Cost/Forms.h.
  struct State;

  /// `ranks` devices of the profile, which must outlive the model. Fails where it has too few, where the link-level
  /// form finds no links, and where a fault names none; then the profile has to have links.
  static llvm::Expected<std::unique_ptr<CostModel>> create(const ClusterProfile &profile, int64_t ranks, CostForm form,
                                                           llvm::ArrayRef<LinkFault> faults = {});

  const ClusterProfile &getProfile() const { return profile; }
  int64_t getNumRanks() const { return ranks; }

  /// Seconds on the device alone, the launch itself not included.
  ///   matrix: for each group, FLOPs over peak * efficiency(rows, columns, depth), or the bytes of its three matrices
  ///   over
  ///     memory bandwidth if longer; docs/CostModel.md says what holds outside the efficiency's grid; all that over
  ///     what is sustained of it;
  ///   memory: the kernel's measured latency and rate where the profile has them, else bytes over memory bandwidth;
  ///   host link: its latency and bytes over its bandwidth.
  /// Never less than the profile's kernelSeconds; 0 for Resource::None.
  /// Fails for a dtype without a rate, a profile without a host link, and for exchanges.
  llvm::Expected<double> getSeconds(const Work &work) const;
  /// What is known of getSeconds(work): the error of the fit or the curve that it takes, and whether the sizes are
  /// outside the curve's grid.
  Confidence getConfidence(const Work &work) const;
  /// Seconds of an exchange alone, from its last member's arrival to the last member's end. Of a ragged one, alpha +
  /// beta * the most bytes that a member sends to or receives from others * members / (members - 1) in closed form. Of
  /// a phase, peers / (members - 1) of what the whole exchange takes in closed form, and nothing where it has no peers;
  /// of a ragged one, that part of alpha alone, as its bytes are its own.
  virtual llvm::Expected<double> getSeconds(const GroupExchange &exchange) const = 0;
  /// What is known of getSeconds(exchange). Exchanges whose times come from links, in whole or in part, are
  /// extrapolated.
  Confidence getConfidence(const GroupExchange &exchange) const;
  /// Where devices share processors: seconds that one member's share of an exchange takes on a processor, by the
  /// profile's fit. The payload of a ragged one is what the member receives, its own part included. A phase
  /// takes its part, as above, and a ragged phase that of alpha.
  llvm::Expected<double> getShareSeconds(const GroupExchange &exchange, unsigned member) const;
  /// alpha and beta of an exchange's collective and group near some payload: t = alpha + beta * payload.
  struct AlphaBeta {
    double alpha = 0, beta = 0;
    bool measured = false; ///< a fit or a curve of the profile, in whole or in part; else from its links
    /// Mean over the measurements of the whole, where the profile states it.
    std::optional<double> relativeError;
  };
  /// Where neither a fit nor links tell, the error names the collective, the group's shape and the cluster.
  llvm::Expected<AlphaBeta> getAlphaBeta(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype,
                                         int64_t payload) const;

  /// Speed of a kind of work, by Resource, where the set `busy` (bit 1 << r for Resource r) is at work on its device.
  llvm::Expected<double> getSpeed(Resource resource, unsigned busy) const;

  virtual std::unique_ptr<Network> createNetwork() const = 0;
  /// Whether an exchange's time depends on what else is on the links; then all ranks have to be simulated.
  virtual bool hasContention() const = 0;

  /// Seconds that every link needs for `matrix` bytes between all ranks [from * ranks + to], the longest of them: the
  /// lower bound of FasterMoE's Eq. 2. Where the profile has no links, what the processors need, or else the largest
  /// bytes sent or received by a rank, at the least beta of the profile's all_to_all fits.
  llvm::Expected<double> getLinkBound(llvm::ArrayRef<double> matrix) const;

protected:
  explicit CostModel(std::unique_ptr<State> state);

  /// getAlphaBeta(), and what flows need; lib/Cost/Forms.h.
  llvm::Expected<GroupTime> getGroupTime(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype,
                                         double payload) const;
  /// That there are members, and that root, phases and matrix fit them.
  llvm::Error check(const GroupExchange &exchange) const;

  const ClusterProfile &profile;
  int64_t ranks;
  std::unique_ptr<State> state;
};

} // namespace mlir::moe

#endif // MOE_COST_COSTMODEL_H
