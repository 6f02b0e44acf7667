//===- Papers.h - the papers' formulas that decide something ----*- C++ -*-===//
//
// FasterMoE, MPipeMoE and Parm state bounds and times of schedules as formulas. Reports and the policies that follow a
// paper use these formulas as printed, corrected where the print contradicts itself. The cost model does not use them.
// Arguments are positive.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_PAPERS_H
#define MOE_COST_PAPERS_H

/// FasterMoE (PPoPP '22). Algorithm 1, which chooses shadows, is moert_shadows_choose (moert/shadows.h).
namespace mlir::moe::fastermoe {

/// FLOP/s that a device with peak P can reach at the ratio R_CC of computation to communication. Eq. 5, P min(1, R_CC),
/// if both overlap, and Eq. 6, P R_CC / (R_CC + 1), if they do not.
double getIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio);
double getSemiIdealFlopsPerSecond(double peakFlopsPerSecond, double ratio);

} // namespace mlir::moe::fastermoe

/// MPipeMoE (IPDPS '23). M is the embedding, H the hidden size, b the tokens of a rank.
namespace mlir::moe::mpipemoe {

/// How T_DI and T_M get from the forward to the backward: kept, copied to the host, or computed again.
enum class Strategy { None, S1, S2, S3, S4 };

/// Rates of one device, each alone, and the fraction that is left of them when they are used together.
struct Rates {
  double computePerSecond = 0;       ///< W_comp, in units of b H M
  double communicationPerSecond = 0; ///< W_comm, in units of b M
  double copyPerSecond = 0;          ///< W_mem, in units of b M
  double compute = 1;                ///< sigma
  double communication = 1;          ///< mu_comp: beside computation
  double communicationAll = 1;       ///< mu_all: beside computation and copies
  double copyAll = 1;                ///< eta_all
};
struct Layer {
  double embedding = 0, hidden = 0, tokens = 0; ///< M, H, b
};
/// Eq. 7-10: seconds of forward and backward. Each is the largest of q1 b H M / (sigma W_comp), q2 b M / (mu W_comm)
/// and q3 b M / (eta W_mem). Table II has q1, q2 and q3, for H = 4M.
double getSeconds(const Layer &layer, Strategy strategy, const Rates &rates);

} // namespace mlir::moe::mpipemoe

/// Parm (2024). X = E T M N_ESP and y = X / N_MP elements.
namespace mlir::moe::parm {

struct Layer {
  double batch = 0, sequence = 0, embedding = 0, experts = 0, topK = 0, capacityFactor = 0; ///< B, L, M, E, k, f
  double mp = 1, esp = 1;                                                                   ///< N_MP, N_ESP

  /// T = k f B L / E: tokens of an expert.
  double getCapacity() const { return topK * capacityFactor * batch * sequence / experts; }
  /// y: elements that a rank sends in an all-to-all of S1 or S2.
  double getSplit() const { return experts * getCapacity() * embedding * esp / mp; }
};

/// Eq. 12: alpha + beta x seconds of x elements.
struct AlphaBeta {
  double alpha = 0, beta = 0;
  double operator()(double elements) const { return alpha + beta * elements; }
};
/// Seconds of communication. Eq. 13, 2 A2A(y) + AG_MP(B L M), and Eq. 14, A2A(y) + Overlap(y). `overlapped` is the
/// second all-to-all of S2 with its all-gather, measured as one collective of y elements.
double getS1Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp);
double getS2Seconds(const Layer &layer, AlphaBeta allToAll, AlphaBeta overlapped);

enum class Schedule { S1, S2 };
/// Algorithm 1: S1 unless Eq. 13 is longer than Eq. 14.
Schedule chooseSchedule(const Layer &layer, AlphaBeta allToAll, AlphaBeta allGatherMp, AlphaBeta overlapped);

} // namespace mlir::moe::parm

#endif // MOE_COST_PAPERS_H
