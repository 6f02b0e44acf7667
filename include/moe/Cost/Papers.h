//===- Papers.h - the four papers' closed forms -----------------*- C++ -*-===//
//
// Parm, MPipeMoE, FasterMoE and PPMoE each state how long a schedule takes, or how much memory it saves, as formulas.
// They are here as printed, equation by equation, corrected where the print contradicts itself; schedules and policies
// that follow a paper use them, the cost model does not. Seconds, bytes, elements and FLOP/s as each function says.
// Arguments are positive and of matching sizes.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_PAPERS_H
#define MOE_COST_PAPERS_H

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <cstdint>
#include <functional>

/// FasterMoE (PPoPP '22). T_ij tokens go from worker i to worker j, B_w = sum_i T_iw; one expert a worker, of two
/// layers, hidden size alpha * H.
namespace mlir::moe::fastermoe {

struct Model {
  double embedding = 0;      ///< H
  double hiddenFactor = 0;   ///< alpha
  double elementBytes = 4;   ///< s
  double flopsPerSecond = 0; ///< P, of one worker
  double bytesPerSecond = 0; ///< W, of the network

  /// 4 alpha H^2: FLOPs of one token in one expert, forward. Backward takes twice as many.
  double getForwardFlops() const { return 4 * hiddenFactor * embedding * embedding; }
  /// 2 alpha H^2 s.
  double getExpertBytes() const { return 2 * hiddenFactor * embedding * embedding * elementBytes; }
};

/// Eq. 1: seconds of the forward computation, max_w 4 B_w alpha H^2 / P_w, with P_w by worker or `model.flopsPerSecond`
/// where `flopsPerSecond` is empty.
double getComputeSeconds(const Model &model, llvm::ArrayRef<double> tokens, llvm::ArrayRef<double> flopsPerSecond = {});
/// Eq. 2: max_l T_l / W_l of directed links with T_l bytes and W_l bytes/s.
double getLinkSeconds(llvm::ArrayRef<double> linkBytes, llvm::ArrayRef<double> linkBytesPerSecond);
/// Eq. 3: R_CC. For Eq. 5 and 6 to bound Eq. 4, pass what a whole iteration computes and communicates: 3 and 4 times
/// Eq. 1 and 2.
double getRatio(double computeSeconds, double linkSeconds);
/// The latency of synchronous expert parallelism: 3 Lat_comp + 4 Lat_comm.
double getSynchronousSeconds(double computeSeconds, double linkSeconds);
/// Eq. 4: mean FLOP/s of a worker, 12 alpha H^2 sum B_w / (N Lat_e2e).
double getMeanFlopsPerSecond(const Model &model, llvm::ArrayRef<double> tokens, double endToEndSeconds);
/// Eq. 5: P min(1, R_CC). Eq. 6: P R_CC / (R_CC + 1).
double getIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio);
double getSemiIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio);

/// Eq. 7: seconds of an iteration without shadows, max_w {12 B_w alpha H^2 / P + 4 B_w H s / W}.
double getImbalancedSeconds(const Model &model, llvm::ArrayRef<double> tokens);
/// Eq. 8: with `shadows` of them, max_w 12 B'_w alpha H^2 / P + 2 r (2 alpha H^2 s / W).
double getShadowedSeconds(const Model &model, int64_t shadows, llvm::ArrayRef<double> tokens);
/// Eq. 9, 10: B_max > r alpha H, or 3 (B_max - B'_max) alpha H / (r alpha H - B_max) > s P / W.
bool doesShadowingPay(const Model &model, int64_t shadows, double mostTokens, double mostTokensShadowed);

/// Algorithm 1, which chooses shadows by them, is moert_shadows_choose (moert/shadows.h).

} // namespace mlir::moe::fastermoe

/// PPMoE (2023). E experts, F FLOP/s of a device, B bytes/s between devices, h the embedding, T ranks of tensor
/// parallelism.
namespace mlir::moe::ppmoe {

/// Eq. 2: time of the all-to-all over that of the FFN, (E - 1) E F / (16 B h).
double getAllToAllRatio(double experts, double flopsPerSecond, double bytesPerSecond, double embedding);
/// The same where each device sends its part to each other one directly, (E - 1) F / (8 E B h): the two bytes of an
/// element times (E - 1) / E of the b s h elements of a device, against 16 b s h^2 / F. The print is E^2 / 2
/// times that.
double getDirectAllToAllRatio(double experts, double flopsPerSecond, double bytesPerSecond, double embedding);
/// Eq. 5: time of the all-reduce over that of the computation, (T - 1) T F / (4 B h).
double getAllReduceRatio(double ranks, double flopsPerSecond, double bytesPerSecond, double embedding);
/// The same over a ring, (T - 1) F / (4 B h): a device sends 2 (T - 1) / T of the value and not 2 (T - 1) times it.
double getRingAllReduceRatio(double ranks, double flopsPerSecond, double bytesPerSecond, double embedding);

} // namespace mlir::moe::ppmoe

/// MPipeMoE (IPDPS '23). M embedding, H hidden, B tokens of a rank, E experts, n partitions.
namespace mlir::moe::mpipemoe {

struct Model {
  double embedding = 0, hidden = 0, tokens = 0, experts = 0;
};

/// Elements. Eq. 1: 4 (E M + 2 H M). Eq. 2: 4 B M + B H. Eq. 3: B M + B H. Eq. 4: 4 B M + B H, of the activations and
/// of the buffers alike. Eq. 5: what the rings save in each of them, B (2 M (n - 2) / n + H (n - 1) / n).
double getModelStates(const Model &model);
double getActivations(const Model &model);
double getBuffers(const Model &model);
double getPipelined(const Model &model);
double getSaved(const Model &model, int64_t partitions);
/// Eq. 6: both savings over all that a pipeline without reuse takes.
double getSavedFraction(const Model &model, int64_t partitions);

/// What happens to T_DI and T_M between forward and backward.
enum class Strategy { None, S1, S2, S3, S4 };
/// Table II, at H = 4M: passes over computation, communication and memory copies.
struct Passes {
  double compute = 0, communication = 0, copy = 0;
};
Passes getForwardPasses(Strategy strategy);
Passes getBackwardPasses(Strategy strategy);
/// Whether the strategy copies to the host: then mu and eta are those of all three at once.
bool doesOffload(Strategy strategy);

/// Rates of one device, each alone, and the fraction that is left of them where they are used together.
struct Rates {
  double computePerSecond = 0;       ///< W_comp, in units of b H M
  double communicationPerSecond = 0; ///< W_comm, in units of b M
  double copyPerSecond = 0;          ///< W_mem, in units of b M
  double compute = 1;                ///< sigma
  double communication = 1;          ///< mu_comp: beside computation
  double communicationAll = 1;       ///< mu_all: beside computation and copies
  double copyAll = 1;                ///< eta_all
};
/// Eq. 7-10: seconds of forward and backward of b tokens, each the largest of q1 b H M / (sigma W_comp), q2 b M / (mu
/// W_comm), q3 b M / (eta W_mem).
double getSeconds(const Model &model, double tokens, Strategy strategy, const Rates &rates);

} // namespace mlir::moe::mpipemoe

/// Parm (2024). X = E T M N_ESP and y = X / N_MP elements. A group's collectives are functions from elements to
/// seconds: all-to-all of one rank's send buffer, all-gather of the gathered output, all-reduce of the full input.
namespace mlir::moe::parm {

struct Layer {
  double batch = 0, sequence = 0, embedding = 0, experts = 0, topK = 0, capacityFactor = 0; ///< B, L, M, E, k, f
  double mp = 1, esp = 1;                                                                   ///< N_MP, N_ESP

  /// T = k f B L / E, tokens of an expert.
  double getCapacity() const { return topK * capacityFactor * batch * sequence / experts; }
  /// X.
  double getDispatched() const { return experts * getCapacity() * embedding * esp; }
  /// y.
  double getSplit() const { return getDispatched() / mp; }
};

using Seconds = std::function<double(double elements)>;

/// Eq. 1: communication of the baseline's forward, AG_ESP(X) + 2 A2A_EP(X) + AR_ESP(X).
double getBaselineSeconds(const Layer &layer, const Seconds &allGatherEsp, const Seconds &allToAllEp,
                          const Seconds &allReduceEsp);
/// Eq. 2: S1 and S2 without MP, 2 A2A_EP&ESP(X).
double getSecondsWithoutMp(const Layer &layer, const Seconds &allToAll);
/// Eq. 7: S2, A2A_EP&ESP(y) + Overlap(A2A_EP&ESP(y), AG_MP(E T M)).
double getS2Seconds(const Layer &layer, const Seconds &allToAll,
                    const std::function<double(double allToAllElements, double allGatherElements)> &overlapped);
/// Eq. 11: S1, 2 A2A_EP&ESP(y) + AG_MP(B L M).
double getS1Seconds(const Layer &layer, const Seconds &allToAll, const Seconds &allGatherMp);

/// Eq. 12: alpha + beta x seconds of x elements.
struct AlphaBeta {
  double alpha = 0, beta = 0;
  double operator()(double elements) const { return alpha + beta * elements; }
};
/// Eq. 13 and 14; `overlapped` is the second all-to-all of S2 with its all-gather, measured as one collective of y
/// elements.
double getS1Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp);
double getS2Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta overlapped);

enum class Schedule { S1, S2 };
/// Algorithm 1: S1 where Eq. 13 is not longer than Eq. 14.
Schedule chooseSchedule(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp, AlphaBeta overlapped);

} // namespace mlir::moe::parm

#endif // MOE_COST_PAPERS_H
