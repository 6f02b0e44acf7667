//===- Kernels.cpp - every kernel that is no product ----------------------===//

#include "calibrate/Calibrate.h"
#include "core/Attributes.h"
#include "core/Shapes.h"
#include "moert/shadows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moert::calibrate {
namespace {

constexpr int64_t kColumns = 512;
constexpr int64_t kExperts = 64, kChoices = 4;
constexpr int64_t kHeads = 8, kHeadDim = kColumns / kHeads, kBuckets = 32;

/// A kernel on S rows. Operands stand in the order of the ABI.
struct KernelCase {
  Kind kind;
  std::vector<int64_t> params; ///< those that the entry names
  std::function<void(Call &, Pool &, int64_t)> fill;
};

void addViews(Call &call, std::initializer_list<View> views) {
  for (const View &view : views)
    call.views[static_cast<size_t>(call.viewCount++)] = view;
}

/// A slot of its own for each choice, neighbours apart.
View makeSlots(Pool &pool, int64_t tokens, int64_t choices) {
  int64_t count = tokens * choices;
  // A step that has no divisor in common with the count visits every slot.
  int64_t step = 617;
  while (std::gcd(step, count) != 1)
    step += 2;
  return pool.integers({tokens, choices}, [=](int64_t i) { return i * step % count; });
}

void addActivations(std::vector<KernelCase> &cases) {
  for (int64_t kind = MOERT_RELU; kind <= kLastActivation; ++kind) {
    int64_t width = isGated(kind) ? 2 : 1;
    cases.push_back({Kind::Activation, {kind}, [=](Call &call, Pool &pool, int64_t rows) {
                       attributes::Activation{.kind = kind, .alpha = 1.702, .limit = 7}.set(call);
                       addViews(call, {pool.input({rows, kColumns}), View(), pool.output({rows, kColumns / width})});
                     }});
    cases.push_back({Kind::ActivationGrad, {kind}, [=](Call &call, Pool &pool, int64_t rows) {
                       attributes::ActivationGrad{.kind = kind, .alpha = 1.702, .limit = 7}.set(call);
                       addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns / width}), View(),
                                       pool.output({rows, kColumns})});
                     }});
  }
}

void addElementwise(std::vector<KernelCase> &cases) {
  cases.push_back(
      {Kind::Add, {}, [](Call &call, Pool &pool, int64_t rows) {
         addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::Scale, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Scale{.factor = 0.5}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::Copy, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
  cases.push_back(
      {Kind::BiasAdd, {}, [](Call &call, Pool &pool, int64_t rows) {
         attributes::BiasAdd{.scale = 1}.set(call);
         addViews(call, {pool.input({rows, kColumns}), pool.input({kColumns}), View(), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::BiasGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::BiasGrad{.scale = 1}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), View(), View(), pool.output({kColumns})});
                   }});
  cases.push_back({Kind::RowScale, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call,
                              {pool.input({rows, kColumns}), pool.wideInput({rows, 1}), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::RowDot, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call,
                              {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.wideOutput({rows, 1})});
                   }});
}

void addShapes(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::Slice, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Slice{.dim = 1}.set(call);
                     call.member = 1;
                     call.members = 2;
                     addViews(call, {pool.input({rows, 2, kColumns}), pool.output({rows, 1, kColumns})});
                   }});
  cases.push_back({Kind::Dump, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Dump{.dim = 1, .blocks = 1}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, 2 * kColumns})});
                   }});
  cases.push_back({Kind::LocalReduce, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::LocalReduce{.dim = 1, .blocks = 1}.set(call);
                     addViews(call, {pool.input({rows, 2 * kColumns}), pool.output({rows, kColumns})});
                   }});
}

void addTokens(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::Dispatch, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), makeSlots(pool, rows, 2), View(), View(),
                                     pool.output({2 * rows, kColumns})});
                   }});
  cases.push_back({Kind::Combine, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({2 * rows, kColumns}), makeSlots(pool, rows, 2),
                                     pool.wideInput({rows, 2}), View(), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::SlotDot, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.input({2 * rows, kColumns}),
                                     makeSlots(pool, rows, 2), View(), pool.wideOutput({rows, 2})});
                   }});
  cases.push_back({Kind::SliceCounts, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t experts = rows * kExperts;
                     attributes::SliceCounts{.rows = experts}.set(call);
                     call.members = 2;
                     View counts = pool.integers({1, experts}, [](int64_t) { return 1; });
                     addViews(call, {counts, pool.outputOf(MOERT_I32, {1, experts})});
                   }});
  // Rows are tokens times kColumns / kExperts, so that sizes are like those of the others; any counts do.
  cases.push_back({Kind::LocalSlots, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     attributes::LocalSlots{.capacity = 2 * tokens / kExperts, .copies = 1}.set(call);
                     call.members = 2;
                     View counts = pool.integers({1, kExperts}, [](int64_t) { return 0; });
                     addViews(call, {makeSlots(pool, tokens, 2), counts, pool.outputOf(MOERT_I32, {tokens, 2}),
                                     pool.outputOf(MOERT_I32, {1, kExperts / 2})});
                   }});
  cases.push_back({Kind::Window, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     attributes::Window{.workers = 1, .rows = tokens, .phases = 1}.set(call);
                     call.members = 1;
                     View counts = pool.integers({1, kExperts},
                                                 [=](int64_t e) { return (2 * tokens + kExperts - 1 - e) / kExperts; });
                     addViews(call, {makeSlots(pool, tokens, 2), counts, View(), pool.outputOf(MOERT_I32, {1}),
                                     pool.outputOf(MOERT_I32, {tokens, 2}), pool.outputOf(MOERT_I32, {1, kExperts})});
                   }});
}

/// Any experts do: the slots of as many tokens, which are all below tokens * kChoices, do not.
View makeChoices(Pool &pool, int64_t tokens) {
  return pool.integers({tokens, kChoices}, [](int64_t i) { return i * 7 % kExperts; });
}

/// Rows are tokens times kColumns / kExperts, so that sizes are like those of the others.
void addRouting(std::vector<KernelCase> &cases) {
  for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE}) {
    cases.push_back({Kind::Route, {score}, [=](Call &call, Pool &pool, int64_t rows) {
                       int64_t tokens = rows * kColumns / kExperts, capacity = 2 * tokens * kChoices / kExperts;
                       attributes::Route{.score = score,
                                         .renormalize = 1,
                                         .expertGroups = 1,
                                         .topGroups = 1,
                                         .groupScore = MOERT_GROUP_MAX,
                                         .capacity = capacity,
                                         .groups = 1,
                                         .chunks = 1,
                                         .leave = -1,
                                         .homes = 1,
                                         .homeStride = 1,
                                         .homeSpan = 1,
                                         .routingScale = 1}
                           .set(call);
                       auto choices = [&](int32_t type) { return pool.outputOf(type, {tokens, kChoices}); };
                       addViews(call, {pool.input({tokens, kExperts}), View(), pool.output({tokens, kExperts}),
                                       choices(MOERT_I32), choices(MOERT_I32), choices(pool.type()),
                                       pool.outputOf(MOERT_I32, {1, kExperts}), pool.output({})});
                     }});
    cases.push_back(
        {Kind::RouteGrad, {score}, [=](Call &call, Pool &pool, int64_t rows) {
           int64_t tokens = rows * kColumns / kExperts;
           attributes::RouteGrad{.score = score, .renormalize = 1, .groups = 1, .routingScale = 1}.set(call);
           addViews(call, {pool.input({tokens, kExperts}), makeChoices(pool, tokens), pool.input({tokens, kChoices}),
                           pool.input({}), pool.output({tokens, kExperts})});
         }});
  }
}

/// Rows are tokens times kColumns / kExperts to divide, and sources to choose by, of as many workers as there can be.
void addShadows(std::vector<KernelCase> &cases) {
  for (int64_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE})
    cases.push_back({Kind::ChooseShadows, {policy}, [=](Call &call, Pool &pool, int64_t rows) {
                       int64_t workers = std::gcd(rows, kExperts);
                       attributes::ChooseShadows{.policy = policy,
                                                 .workers = workers,
                                                 .nodeWorkers = std::gcd<int64_t>(workers, 8),
                                                 .most = kExperts / 4,
                                                 .phases = 1,
                                                 .rowComputeS = 1e-6,
                                                 .rowSendS = 1e-6,
                                                 .rowLocalS = 1e-6,
                                                 .rowNodeS = 1e-6,
                                                 .expertS = 1e-5,
                                                 .startS = 1e-5}
                           .set(call);
                       View counts =
                           pool.integers({rows, kExperts}, [](int64_t i) { return 1000 / (i % kExperts + 1); });
                       addViews(call, {counts, pool.outputOf(MOERT_I32, {1, kExperts})});
                     }});
  cases.push_back({Kind::MergeChoices, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     attributes::MergeChoices{.experts = kExperts, .copies = 1}.set(call);
                     call.members = 1;
                     View experts = makeChoices(pool, tokens);
                     addViews(call, {experts, View(), View(), pool.outputOf(MOERT_I32, {tokens, kChoices}),
                                     pool.outputOf(MOERT_I32, {1, kExperts / 4}),
                                     pool.outputOf(MOERT_I32, {tokens * kChoices, kChoices})});
                   }});
  cases.push_back({Kind::DivideChoices, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     attributes::DivideChoices{.chunks = 1}.set(call);
                     View experts = makeChoices(pool, tokens);
                     View shadows = pool.integers({1, kExperts}, [](int64_t e) { return e % 4 == 0; });
                     auto integers = [&](int64_t count, int64_t columns) {
                       return pool.outputOf(MOERT_I32, {count, columns});
                     };
                     addViews(call, {experts, shadows, integers(tokens, kChoices), integers(1, kExperts),
                                     integers(tokens, kChoices), integers(1, kExperts / 4)});
                   }});
}

/// i32 values that are all below `limit`, neighbours apart.
View makeIds(Pool &pool, int64_t count, int64_t limit) {
  return pool.integers({count}, [=](int64_t i) { return i * 617 % limit; });
}

View makeStep(Pool &pool) {
  return pool.integers({}, [](int64_t) { return 1; });
}

/// What is done for each number of a value alone.
void addNumbers(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::Positions, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Positions{.period = kColumns, .cutParts = 1, .cutStride = 1}.set(call);
                     addViews(call, {pool.outputOf(MOERT_I32, {rows * kColumns})});
                   }});
  cases.push_back({Kind::IndexAffine, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::IndexAffine{.factor = 2, .offset = 1}.set(call);
                     addViews(call,
                              {makeIds(pool, rows * kColumns, kColumns), pool.outputOf(MOERT_I32, {rows * kColumns})});
                   }});
  cases.push_back({Kind::Fill, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Fill{.value = 0.5}.set(call);
                     addViews(call, {pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::Cast, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}),
                                     pool.outputOf(isNarrow(pool.type()) ? MOERT_F32 : MOERT_BF16, {rows, kColumns})});
                   }});
  // Roots of what is not negative.
  cases.push_back({Kind::InverseRoot, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::InverseRoot{.scale = 1, .eps = 2}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
  cases.push_back(
      {Kind::InverseRootGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
         attributes::InverseRootGrad{.scale = 1}.set(call);
         addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::Clamp, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Clamp{.limit = 1}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
  cases.push_back(
      {Kind::ClampGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
         attributes::ClampGrad{.limit = 1}.set(call);
         addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::Dropout, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Dropout{.seed = 1,
                                         .rowParts = 1,
                                         .rowStride = 1,
                                         .columnParts = 1,
                                         .columnStride = 1,
                                         .cutParts = 1,
                                         .sequences = 1,
                                         .length = 1,
                                         .p = 0.1}
                         .set(call);
                     addViews(call, {pool.input({rows, kColumns}), makeStep(pool), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::Rotary, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Rotary{.period = 4096,
                                        .headDim = kHeadDim,
                                        .rotaryDim = kHeadDim,
                                        .direction = 1,
                                        .cutParts = 1,
                                        .cutStride = 1,
                                        .base = 10000,
                                        .factor = 1,
                                        .high = 1,
                                        .scale = 1}
                         .set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
}

void addNorms(std::vector<KernelCase> &cases) {
  cases.push_back(
      {Kind::Norm, {}, [](Call &call, Pool &pool, int64_t rows) {
         attributes::Norm{.kind = MOERT_RMS_NORM, .eps = 1e-6}.set(call);
         addViews(call, {pool.input({rows, kColumns}), pool.input({kColumns}), View(), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::NormGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::NormGrad{.kind = MOERT_RMS_NORM, .eps = 1e-6}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.input({kColumns}), pool.input({rows, kColumns}),
                                     pool.output({rows, kColumns})});
                   }});
  cases.push_back(
      {Kind::NormWgrad, {}, [](Call &call, Pool &pool, int64_t rows) {
         attributes::NormWgrad{.kind = MOERT_RMS_NORM, .eps = 1e-6}.set(call);
         addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns}), View(), pool.output({kColumns})});
       }});
}

/// Of a table of as many rows as are gathered, so that the sum of its gradients grows with them.
void addEmbeddings(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::Embedding, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::Embedding{.parts = 1, .stride = 1}.set(call);
                     addViews(call,
                              {makeIds(pool, rows, rows), pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::EmbeddingGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::EmbeddingGrad{.parts = 1, .stride = 1, .padding = -1}.set(call);
                     addViews(call, {makeIds(pool, rows, rows), pool.input({rows, kColumns}), View(),
                                     pool.output({rows, kColumns})});
                   }});
}

/// Causal attention in sequences of at most 64 tokens, so that times grow with the tokens.
void addAttention(std::vector<KernelCase> &cases, int64_t heads) {
  auto fill = [=](Call &call, Pool &pool, int64_t rows, bool biased) {
    int64_t length = std::min<int64_t>(rows, 64);
    // Its gradients have the same attributes.
    attributes::Attention{.qLength = length,
                          .kLength = length,
                          .heads = heads,
                          .kHeads = heads,
                          .parts = 1,
                          .stride = 1,
                          .causal = 1,
                          .rowParts = 1,
                          .rowStride = 1,
                          .cutParts = 1,
                          .cutStride = 1,
                          .keyShift = -1,
                          .scale = 1 / std::sqrt(static_cast<double>(kColumns / heads))}
        .set(call);
    View bias = biased ? pool.input({heads, length, length}) : View();
    addViews(call, {pool.input({rows, kColumns}), pool.input({rows, kColumns}), pool.input({rows, kColumns}), bias,
                    View(), View()});
    return length;
  };
  auto addGradients = [=](Call &call, Pool &pool, int64_t rows) {
    addViews(call, {pool.input({rows, kColumns}), pool.wideInput({rows, heads}), pool.input({rows, kColumns})});
  };
  cases.push_back({Kind::AppendToHeads, {}, [=](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns / 2}), pool.input({rows, (kColumns / heads) / 2}),
                                     pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::AppendToHeadsGrad, {}, [=](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns / 2}),
                                     pool.output({rows, (kColumns / heads) / 2})});
                   }});
  cases.push_back({Kind::Attention, {}, [=](Call &call, Pool &pool, int64_t rows) {
                     fill(call, pool, rows, false);
                     addViews(call, {pool.output({rows, kColumns}), pool.wideOutput({rows, heads})});
                   }});
  cases.push_back(
      {Kind::AttentionGrad, {}, [=](Call &call, Pool &pool, int64_t rows) {
         fill(call, pool, rows, false);
         addGradients(call, pool, rows);
         addViews(call, {pool.output({rows, kColumns}), pool.output({rows, kColumns}), pool.output({rows, kColumns})});
       }});
  cases.push_back({Kind::AttentionBiasGrad, {}, [=](Call &call, Pool &pool, int64_t rows) {
                     int64_t length = fill(call, pool, rows, true);
                     addGradients(call, pool, rows);
                     addViews(call, {pool.output({heads, length, length})});
                   }});
  cases.push_back({Kind::AttentionSinksGrad, {}, [=](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({heads}), pool.wideInput({rows, heads}), pool.input({rows, kColumns}),
                                     pool.input({rows, kColumns}), pool.output({heads})});
                   }});
}

/// What joins the parts of sequences that are cut among ranks.
void addSequenceParts(std::vector<KernelCase> &cases, int64_t heads) {
  cases.push_back({Kind::JoinSequences, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t parts = std::gcd<int64_t>(rows, 2);
                     attributes::JoinSequences{.parts = parts, .sequences = 1, .length = rows / parts}.set(call);
                     addViews(call, {pool.input({rows, kColumns}), pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::MergeAttention, {}, [=](Call &call, Pool &pool, int64_t rows) {
                     auto part = [&] { addViews(call, {pool.input({rows, kColumns}), pool.wideInput({rows, heads})}); };
                     part(), part();
                     addViews(call, {pool.output({rows, kColumns}), pool.wideOutput({rows, heads})});
                   }});
}

/// Rows are queries, of kHeadDim keys.
void addRelativeBias(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::RelativeBias, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::RelativeBias{.bidirectional = 1, .maxDistance = 128}.set(call);
                     addViews(call, {pool.input({kBuckets, kHeads}), pool.output({kHeads, rows, kHeadDim})});
                   }});
  cases.push_back({Kind::RelativeBiasGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::RelativeBiasGrad{.bidirectional = 1, .maxDistance = 128}.set(call);
                     addViews(call, {pool.input({kHeads, rows, kHeadDim}), View(), pool.output({kBuckets, kHeads})});
                   }});
}

/// Labels of rows times kColumns / kExperts tokens, or of as many as there are numbers.
void addLosses(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::RowLogsumexp, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.wideOutput({rows, 1})});
                   }});
  cases.push_back({Kind::RowLogsumexpGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.wideInput({rows, 1}), pool.wideInput({rows, 1}),
                                     pool.output({rows, kColumns})});
                   }});
  cases.push_back({Kind::Pick, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     attributes::Pick{.parts = 1, .stride = 1}.set(call);
                     addViews(call, {pool.input({tokens, kExperts}), makeIds(pool, tokens, kExperts),
                                     pool.wideOutput({tokens, 1})});
                   }});
  cases.push_back({Kind::PickGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     attributes::PickGrad{.parts = 1, .stride = 1}.set(call);
                     addViews(call, {makeIds(pool, tokens, kExperts), pool.wideInput({tokens, 1}), View(),
                                     pool.output({tokens, kExperts})});
                   }});
  cases.push_back({Kind::LabelSum, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns;
                     addViews(call, {pool.input({tokens, 1}), makeIds(pool, tokens, kExperts), pool.output({})});
                   }});
  cases.push_back({Kind::LabelCount, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {makeIds(pool, rows * kColumns, kExperts), pool.output({})});
                   }});
  cases.push_back({Kind::LabelSumGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns;
                     addViews(call, {makeIds(pool, tokens, kExperts), pool.input({}), pool.output({tokens, 1})});
                   }});
  cases.push_back({Kind::Divide, {}, [](Call &call, Pool &pool, int64_t) {
                     addViews(call, {pool.input({}), pool.input({}), pool.output({})});
                   }});
  cases.push_back({Kind::RouterMeans, {}, [](Call &call, Pool &pool, int64_t rows) {
                     attributes::RouterMeans{.topK = kChoices}.set(call);
                     addViews(call,
                              {pool.wideInput({rows * kColumns / kExperts, kExperts}), pool.wideOutput({1, kExperts}),
                               pool.wideOutput({1, kExperts}), pool.wideOutput({1, 1})});
                   }});
  cases.push_back({Kind::RouterMeansGrad, {}, [](Call &call, Pool &pool, int64_t rows) {
                     int64_t tokens = rows * kColumns / kExperts;
                     addViews(call, {pool.wideInput({tokens, kExperts}), pool.wideInput({1, kExperts}),
                                     pool.wideInput({1, 1}), pool.wideOutput({tokens, kExperts})});
                   }});
}

/// Those of one number have one size only.
void addOptimizers(std::vector<KernelCase> &cases) {
  cases.push_back({Kind::SumSquares, {}, [](Call &call, Pool &pool, int64_t rows) {
                     addViews(call, {pool.input({rows, kColumns}), pool.output({})});
                   }});
  cases.push_back({Kind::ClipFactor, {}, [](Call &call, Pool &pool, int64_t) {
                     attributes::ClipFactor{.most = 1}.set(call);
                     addViews(call, {pool.input({}), pool.output({})});
                   }});
  cases.push_back({Kind::SquareRoot, {}, [](Call &call, Pool &pool, int64_t) {
                     addViews(call, {pool.input({}), pool.output({})});
                   }});
  cases.push_back({Kind::Sgd, {}, [](Call &call, Pool &pool, int64_t rows) {
                     auto input = [&] { return pool.input({rows, kColumns}); };
                     auto output = [&] { return pool.output({rows, kColumns}); };
                     attributes::Sgd{.momentum = 0.9, .decay = 0.01}.set(call);
                     addViews(call, {input(), input(), input(), pool.input({}), View(), output(), output()});
                   }});
  cases.push_back({Kind::Adam, {}, [](Call &call, Pool &pool, int64_t rows) {
                     auto input = [&] { return pool.input({rows, kColumns}); };
                     auto output = [&] { return pool.output({rows, kColumns}); };
                     attributes::Adam{.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01}.set(call);
                     addViews(call, {input(), input(), input(), input(), pool.input({}), makeStep(pool), View(),
                                     output(), output(), output()});
                   }});
}

/// Today's models have heads of 128, whose kernels on devices are others than those of 64.
int64_t attentionHeads(const Settings &settings) { return settings.isDevice() ? kColumns / 128 : kHeads; }

std::vector<KernelCase> allCases(const Settings &settings) {
  std::vector<KernelCase> cases;
  addActivations(cases);
  addElementwise(cases);
  addShapes(cases);
  addTokens(cases);
  addRouting(cases);
  addShadows(cases);
  addNumbers(cases);
  addNorms(cases);
  addEmbeddings(cases);
  addAttention(cases, attentionHeads(settings));
  addSequenceParts(cases, attentionHeads(settings));
  addRelativeBias(cases);
  addLosses(cases);
  addOptimizers(cases);
  return cases;
}

/// Sizes of values of kColumns.
std::vector<int64_t> rowsOf(const Settings &settings) {
  if (!settings.isDevice())
    return settings.quick ? std::vector<int64_t>{1, 32, 1024} : std::vector<int64_t>{1, 4, 16, 64, 256, 1024, 4096};
  std::vector<int64_t> sizes;
  const int64_t middle = std::lround(std::sqrt(settings.device.kernelRows));
  for (int64_t rows = 1; rows <= settings.device.kernelRows; rows *= settings.quick ? middle : 4)
    sizes.push_back(rows);
  return sizes;
}

/// As the compiler counts them: all operands, but of a slice, a table or a row to pick from only what is read.
double countBytes(const Call &call) {
  if (call.kind == Kind::Slice)
    return 2 * static_cast<double>(call.views[operands::Slice::out].bytes());
  auto readByIndex = [&](size_t index, size_t out) {
    return static_cast<double>(call.views[index].bytes() + 2 * call.views[out].bytes());
  };
  if (call.kind == Kind::Embedding)
    return readByIndex(operands::Embedding::ids, operands::Embedding::out);
  if (call.kind == Kind::Pick)
    return readByIndex(operands::Pick::labels, operands::Pick::out);
  double bytes = 0;
  for (int i = 0; i < call.viewCount; ++i)
    if (call.views[static_cast<size_t>(i)])
      bytes += static_cast<double>(call.views[static_cast<size_t>(i)].bytes());
  return bytes;
}

} // namespace

Status calibrateKernels(Pool &pool, const Settings &settings, std::vector<KernelFit> &fits) {
  pool.setReach(pool.bench().reach.recent);
  const std::vector<KernelCase> cases = allCases(settings);
  const std::vector<int64_t> sizes = rowsOf(settings);
  std::vector<MakeCall> calls;
  for (const KernelCase &one : cases)
    for (int64_t rows : sizes)
      calls.push_back([&pool, &one, rows] {
        pool.beginCall();
        Call call;
        call.kind = one.kind;
        one.fill(call, pool, rows);
        return call;
      });
  const int passes = settings.quick ? 3 : 7;
  std::vector<double> seconds;
  std::string dtype = dtypeName(pool.type());
  Progress progress(settings.progress, "kernels of " + dtype, calls.size() * static_cast<size_t>(passes));
  MOERT_RETURN_IF_ERROR(measureKernels(pool.bench(), calls, passes, progress, seconds));
  for (size_t c = 0; c < cases.size(); ++c) {
    KernelFit &fit = fits.emplace_back();
    fit.calls = {kindName(cases[c].kind), cases[c].params};
    fit.dtype = dtype;
    for (size_t s = 0; s < sizes.size(); ++s)
      fit.samples.push_back({countBytes(calls[c * sizes.size() + s]()), seconds[c * sizes.size() + s]});
    fit.fit = fitLine(fit.samples);
    // A device may be too wide for the sizes here to make a difference.
    if (fit.fit.perByte <= 0 && !settings.isDevice())
      return Status::error(MOERT_ERROR_INTERNAL, "the times of '" + fit.calls.kernel +
                                                     "' do not grow with its size: too much else runs on this machine");
  }
  return {};
}

} // namespace moert::calibrate
