//===- Call.cpp - one call of a plan, resolved ----------------------------===//

#include "core/Call.h"

#include "core/Metadata.h"

namespace moert {

const char *kindName(Kind kind) {
  static constexpr const char *kNames[] = {"matmul",
                                           "add",
                                           "scale",
                                           "copy",
                                           "row_scale",
                                           "row_dot",
                                           "slice",
                                           "dump",
                                           "local_reduce",
                                           "grouped_matmul",
                                           "grouped_matmul_wgrad",
                                           "bias_add",
                                           "bias_grad",
                                           "activation",
                                           "activation_grad",
                                           "route",
                                           "route_grad",
                                           "dispatch",
                                           "combine",
                                           "slot_dot",
                                           "slice_counts",
                                           "local_slots",
                                           "choose_shadows",
                                           "divide_choices",
                                           "positions",
                                           "index_affine",
                                           "fill",
                                           "cast",
                                           "embedding",
                                           "embedding_grad",
                                           "norm",
                                           "norm_grad",
                                           "norm_wgrad",
                                           "inverse_root",
                                           "inverse_root_grad",
                                           "rotary",
                                           "append_to_heads",
                                           "append_to_heads_grad",
                                           "attention",
                                           "attention_grad",
                                           "attention_bias_grad",
                                           "attention_sinks_grad",
                                           "relative_bias",
                                           "relative_bias_grad",
                                           "dropout",
                                           "row_logsumexp",
                                           "row_logsumexp_grad",
                                           "pick",
                                           "pick_grad",
                                           "label_sum",
                                           "label_sum_grad",
                                           "divide",
                                           "sum_squares",
                                           "clip_factor",
                                           "square_root",
                                           "sgd",
                                           "adam",
                                           "all_gather",
                                           "reduce_scatter",
                                           "all_reduce",
                                           "all_to_all",
                                           "all_to_all_v",
                                           "broadcast_experts",
                                           "reduce_experts",
                                           "broadcast",
                                           "reduce",
                                           "assume_replicated",
                                           "send",
                                           "receive"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::Receive) + 1);
  return kNames[static_cast<size_t>(kind)];
}

int64_t usedRows(const Call &call) {
  if (call.countsView < 0 || !call.views[static_cast<size_t>(call.countsView)])
    return -1;
  const View &counts = call.views[static_cast<size_t>(call.countsView)];
  const int32_t *values = counts.as<int32_t>();
  int64_t columns = counts.rank ? counts.dims[static_cast<size_t>(counts.rank) - 1] : 1;
  int64_t begin = columns * call.countsPart / call.countsParts;
  int64_t end = columns * (call.countsPart + 1) / call.countsParts;
  int64_t rows = 0;
  for (int64_t first = 0, e = counts.elements(); first < e; first += columns)
    for (int64_t i = begin; i < end; ++i)
      rows += values[first + i];
  return rows;
}

std::string callName(const Program &program, const Call &call) {
  std::string text = "op " + std::to_string(call.op) + " " + kindName(call.kind);
  auto op = static_cast<size_t>(call.op);
  return op < program.ops.size() && !program.ops[op].label.empty() ? text + " '" + program.ops[op].label + "'" : text;
}

} // namespace moert
