//===- KernelsRoute.cpp - choosing experts, and the gradient of it ---------===//
//
// Everything for one token is computed from its own row alone, in a fixed order: a plan and its reference route
// different batch sizes and must choose the same experts. Only the topology-aware gate compares the tokens of a routing
// group, which are the same in both.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

// --- Scores ------------------------------------------------------------------

/// Computes the softmax of each row. Logits more than expLimit below the largest get exactly 0, so that -inf masks an
/// expert. NaNs reach every score through the sum.
template <class T> void softmaxRows(const T *logits, T *scores, int64_t tokens, int64_t experts) {
  const T limit = opaque(expLimit<T>);
  for (int64_t s = 0; s < tokens; ++s) {
    const T *in = logits + s * experts;
    T *out = scores + s * experts;
    const T factor = 1 / expPart(in, out, experts, maximum(in, experts), limit);
    MOERT_SIMD
    for (int64_t e = 0; e < experts; ++e)
      out[e] *= factor;
  }
}

/// Goes row by row, so that an expert's place in its vector, and with it the last bit, is the same for all tokens.
template <class T> void sigmoidRows(const T *logits, T *scores, int64_t tokens, int64_t experts) {
  const T limit = opaque(expLimit<T>);
  for (int64_t s = 0; s < tokens; ++s) {
    const T *in = logits + s * experts;
    T *out = scores + s * experts;
    MOERT_SIMD
    for (int64_t e = 0; e < experts; ++e)
      out[e] = Logistic<T>(in[e], limit).value();
  }
}

/// Sets keys to scores + bias; NaN becomes the lowest of all.
template <class T> void selectionKeys(const T *scores, const T *bias, T *keys, int64_t experts) {
  const T lowest = -std::numeric_limits<T>::infinity();
  for (int64_t e = 0; e < experts; ++e) {
    T key = bias ? scores[e] + bias[e] : scores[e];
    keys[e] = key == key ? key : lowest;
  }
}

// --- Choice ------------------------------------------------------------------

/// The k largest of the offered keys, best first; of equals the one offered first. The caller gives memory for k of
/// each.
template <class T> class Best {
public:
  Best(int32_t *index, T *key, int64_t k) : index(index), key(key), k(k) {}

  /// Offers keys[begin, end). A block whose maximum does not reach the k-th best so far costs one vector comparison.
  void offer(const T *keys, int64_t begin, int64_t end) {
    constexpr int64_t block = 16;
    int64_t e = begin;
    for (; e < end && used < k; ++e)
      insert(keys[e], e);
    for (; e + block <= end; e += block) {
      const T bar = key[k - 1];
      int above = 0;
      MOERT_SIMD_SUM(above)
      for (int64_t i = 0; i < block; ++i)
        above += keys[e + i] > bar;
      for (int64_t i = 0; above && i < block; ++i)
        if (keys[e + i] > key[k - 1])
          insert(keys[e + i], e + i);
    }
    for (; e < end; ++e)
      if (keys[e] > key[k - 1])
        insert(keys[e], e);
  }

private:
  void insert(T value, int64_t e) {
    int64_t at = used < k ? used++ : k - 1;
    for (; at > 0 && key[at - 1] < value; --at) {
      key[at] = key[at - 1];
      index[at] = index[at - 1];
    }
    key[at] = value;
    index[at] = static_cast<int32_t>(e);
  }

  int32_t *index;
  T *key;
  int64_t k, used = 0;
};

/// Sizes of one routing.
struct RouteShape {
  int64_t tokens, experts, choices, groups;
  int64_t groupTokens() const { return tokens / groups; }
};

/// Computes group keys [expertGroups]: the largest key of each group's experts, or the sum of its two largest.
template <class T> void scoreGroups(const T *keys, T *groupKeys, int64_t groups, int64_t size, int64_t groupScore) {
  const T lowest = -std::numeric_limits<T>::infinity();
  for (int64_t g = 0; g < groups; ++g) {
    T first = lowest, second = lowest;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      second = keys[e] > first ? first : (keys[e] > second ? keys[e] : second);
      first = keys[e] > first ? keys[e] : first;
    }
    T key = groupScore == MOERT_GROUP_TOP2 && size > 1 ? first + second : first;
    groupKeys[g] = key == key ? key : lowest;
  }
}

template <class T>
void choosePlainly(View scores, View bias, View experts, const RouteShape &shape, const RouteOptions &options) {
  struct Keys;
  struct GroupKeys;
  struct BestKeys;
  struct Groups;
  T *keys = scratch<Keys, T>(shape.experts), *groupKeys = scratch<GroupKeys, T>(options.expertGroups);
  T *bestKeys = scratch<BestKeys, T>(std::max(shape.choices, options.topGroups));
  int32_t *bestGroups = scratch<Groups, int32_t>(options.topGroups);
  const int64_t size = shape.experts / options.expertGroups;
  for (int64_t s = 0; s < shape.tokens; ++s) {
    selectionKeys(scores.as<const T>() + s * shape.experts, bias.as<const T>(), keys, shape.experts);
    Best<T> best(experts.as<int32_t>() + s * shape.choices, bestKeys, shape.choices);
    if (options.topGroups >= options.expertGroups) {
      best.offer(keys, 0, shape.experts);
      continue;
    }
    scoreGroups(keys, groupKeys, options.expertGroups, size, options.groupScore);
    Best<T>(bestGroups, bestKeys, options.topGroups).offer(groupKeys, 0, options.expertGroups);
    // Sorts groups by index, so that of experts with equal keys the lower index wins.
    std::sort(bestGroups, bestGroups + options.topGroups);
    for (int64_t g = 0; g < options.topGroups; ++g)
      best.offer(keys, bestGroups[g] * size, (bestGroups[g] + 1) * size);
  }
}

// --- The topology-aware gate -------------------------------------------------

/// A choice that is not at home.
template <class T> struct RemoteChoice {
  T key;
  int64_t token;

  /// Whether this one has precedence in keeping its choice.
  bool operator<(const RemoteChoice &other) const { return key != other.key ? key > other.key : token < other.token; }
};

/// State of the gate for one routing group, over the choices of the plain gate.
template <class T> struct Gate {
  /// A token's experts by preference. Those before `next` are chosen.
  struct Wishes {
    const int32_t *experts;
    int32_t next;
  };

  const T *scores, *bias; ///< those of the group; bias may be null
  int32_t *chosen;        ///< [tokens, k]
  int64_t tokens, experts, choices;
  int64_t home, size; ///< experts at home: the first one, and their number
  Wishes *wishes,
      *local; ///< by token: wishes among all experts, and among those at home; null experts until they are needed
  int32_t *localExperts; ///< [tokens, k], experts of `local`
  RemoteChoice<T> *remote;
  T *keys, *bestKeys; ///< scratch for finding the best at home

  /// Sets the j-th choice of token s to the first of its wishes that it has not chosen. There is one, because at most j
  /// of its k wishes are chosen.
  int32_t choose(int64_t s, int64_t j, Wishes &list) const {
    int32_t *mine = chosen + s * choices;
    while (std::find(mine, mine + j, list.experts[list.next]) != mine + j)
      ++list.next;
    return mine[j] = list.experts[list.next];
  }
};

/// Gives all tokens the j-th choices that they want. Returns the number of choices that are not at home, which
/// gate.remote lists.
template <class T> int64_t chooseWanted(const Gate<T> &gate, int64_t j) {
  int64_t count = 0;
  for (int64_t s = 0; s < gate.tokens; ++s) {
    // A token that always got its wish still has the plain gate's choices.
    const int64_t expert =
        gate.local[s].experts ? gate.choose(s, j, gate.wishes[s]) : gate.chosen[s * gate.choices + j];
    T key;
    selectionKeys(gate.scores + s * gate.experts + expert, gate.bias ? gate.bias + expert : nullptr, &key, 1);
    gate.remote[count] = {key, s};
    count += expert < gate.home || expert >= gate.home + gate.size;
  }
  return count;
}

/// Ranks the experts at home for token s.
template <class T> void rank(const Gate<T> &gate, int64_t s) {
  int32_t *experts = gate.localExperts + s * gate.choices;
  selectionKeys(gate.scores + s * gate.experts + gate.home, gate.bias ? gate.bias + gate.home : nullptr, gate.keys,
                gate.size);
  Best<T>(experts, gate.bestKeys, gate.choices).offer(gate.keys, 0, gate.size);
  for (int64_t j = 0; j < gate.choices; ++j)
    experts[j] += static_cast<int32_t>(gate.home);
  gate.local[s].experts = experts;
}

/// Gives the tokens of remote[begin, end) the best expert at home that they have not chosen.
template <class T> void chooseAtHome(const Gate<T> &gate, int64_t j, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t s = gate.remote[i].token;
    if (!gate.local[s].experts)
      rank(gate, s);
    gate.choose(s, j, gate.local[s]);
  }
}

/// Turns the plain gate's choices of a group, gate.chosen, into those of the topology-aware gate.
template <class T> void stayInGroup(const Gate<T> &gate, int64_t leave) {
  struct Wanted;
  int32_t *wanted = scratch<Wanted, int32_t>(gate.tokens * gate.choices);
  std::copy_n(gate.chosen, gate.tokens * gate.choices, wanted);
  for (int64_t s = 0; s < gate.tokens; ++s) {
    gate.wishes[s] = {wanted + s * gate.choices, 0};
    gate.local[s] = {nullptr, 0};
  }
  for (int64_t j = 0; j < gate.choices; ++j) {
    const int64_t count = chooseWanted(gate, j);
    if (count > leave && leave > 0)
      std::nth_element(gate.remote, gate.remote + leave, gate.remote + count);
    if (count > leave)
      chooseAtHome(gate, j, leave, count);
  }
}

/// Applies the topology-aware gate in all groups to the plain gate's choices in `experts`.
template <class T>
void stayAtHome(View scores, View bias, View experts, const RouteShape &shape, const RouteOptions &options) {
  struct All;
  struct Local;
  struct Remote;
  struct Keys;
  struct BestKeys;
  Gate<T> gate{};
  gate.tokens = shape.groupTokens();
  gate.experts = shape.experts;
  gate.choices = shape.choices;
  gate.size = shape.experts / options.homes;
  gate.bias = bias.as<const T>();
  gate.wishes = scratch<All, typename Gate<T>::Wishes>(gate.tokens);
  gate.local = scratch<Local, typename Gate<T>::Wishes>(gate.tokens);
  gate.localExperts = scratch<Local, int32_t>(gate.tokens * gate.choices);
  gate.remote = scratch<Remote, RemoteChoice<T>>(gate.tokens);
  gate.keys = scratch<Keys, T>(gate.size);
  gate.bestKeys = scratch<BestKeys, T>(gate.choices);
  for (int64_t g = 0; g < shape.groups; ++g) {
    gate.scores = scores.as<const T>() + g * gate.tokens * gate.experts;
    gate.chosen = experts.as<int32_t>() + g * gate.tokens * gate.choices;
    gate.home = (options.rank / options.homeStride + g / options.homeSpan) % options.homes * gate.size;
    stayInGroup(gate, options.leave);
  }
}

template <class T>
void chooseExperts(View scores, View bias, View experts, const RouteShape &shape, const RouteOptions &options) {
  if (shape.choices == 0)
    return;
  choosePlainly<T>(scores, bias, experts, shape, options);
  // All choices may leave if `leave` reaches the group's tokens. One home holds all experts.
  if (options.leave >= 0 && options.leave < shape.groupTokens() && options.homes > 1)
    stayAtHome<T>(scores, bias, experts, shape, options);
}

template <class T>
void weighChoices(const T *scores, const int32_t *experts, T *weights, const RouteShape &shape, bool renormalize,
                  T factor) {
  for (int64_t s = 0; s < shape.tokens; ++s) {
    T sum = 0;
    for (int64_t j = s * shape.choices; j < (s + 1) * shape.choices; ++j) {
      weights[j] = scores[s * shape.experts + experts[j]];
      sum += weights[j];
    }
    const T scale = renormalize ? factor / (sum + T(1e-20)) : factor;
    for (int64_t j = s * shape.choices; j < (s + 1) * shape.choices; ++j)
      weights[j] *= scale;
  }
}

// --- Slots -------------------------------------------------------------------

/// Fills slots of the capacity form: within each routing group in the order (choice, token). A chunk has `width` rows
/// of each expert.
void fillCapacitySlots(const int32_t *experts, int32_t *slots, int32_t *counts, const RouteShape &shape,
                       int64_t capacity, int64_t chunks, int64_t width) {
  struct Tag;
  int64_t *used = scratch<Tag, int64_t>(shape.experts);
  std::fill_n(counts, chunks * shape.experts, 0);
  const int64_t span = shape.groupTokens();
  for (int64_t g = 0; g < shape.groups; ++g) {
    std::fill_n(used, shape.experts, int64_t(0));
    for (int64_t j = 0; j < shape.choices; ++j)
      for (int64_t s = g * span; s < (g + 1) * span; ++s) {
        const int64_t e = experts[s * shape.choices + j];
        int32_t &slot = slots[s * shape.choices + j];
        slot = -1;
        if (used[e] < capacity) {
          const int64_t row = g * capacity + used[e], block = row / width * shape.experts + e;
          slot = static_cast<int32_t>(block * width + row % width);
          ++counts[block];
        }
        ++used[e];
      }
  }
}

/// Fills slots of the dropless form: in each chunk sorted by expert, then in the order (token, choice).
void fillDroplessSlots(const int32_t *experts, int32_t *slots, int32_t *counts, const RouteShape &shape, int64_t chunks,
                       int64_t chunkRows) {
  for (int64_t c = 0; c < chunks; ++c)
    fillSlots(slots, counts + c * shape.experts, shape.experts, firstToken(c, chunks, shape.tokens) * shape.choices,
              firstToken(c + 1, chunks, shape.tokens) * shape.choices, c * chunkRows,
              [=](int64_t i) { return experts[i]; });
}

// --- Auxiliary loss ----------------------------------------------------------

/// Sets loads[e] to f[g,e], the share of expert e in the choices of routing group g.
template <class T> void groupLoads(const int32_t *experts, T *loads, const RouteShape &shape, int64_t g) {
  std::fill_n(loads, shape.experts, T(0));
  const int64_t count = shape.groupTokens() * shape.choices;
  for (int64_t i = g * count; i < (g + 1) * count; ++i)
    loads[experts[i]] += 1;
  for (int64_t e = 0; e < shape.experts; ++e)
    loads[e] /= static_cast<T>(count);
}

/// Factor from a score to the probability that P averages: 1 for softmax, 1 / (sum of the row) for sigmoid.
template <class T> Wide<T> normaliser(const T *scores, int64_t experts, int64_t kind) {
  if (kind == MOERT_SOFTMAX)
    return 1;
  Wide<T> sum = 0;
  MOERT_SIMD_SUM(sum)
  for (int64_t e = 0; e < experts; ++e)
    sum += static_cast<Wide<T>>(scores[e]);
  return 1 / sum;
}

/// Sets sums[e] to the sum of the normalised scores over `tokens` rows.
template <class T>
void sumProbabilities(const T *scores, Wide<T> *sums, int64_t tokens, int64_t experts, int64_t kind) {
  std::fill_n(sums, experts, Wide<T>(0));
  for (int64_t s = 0; s < tokens; ++s) {
    const T *row = scores + s * experts;
    const Wide<T> factor = normaliser(row, experts, kind);
    MOERT_SIMD
    for (int64_t e = 0; e < experts; ++e)
      sums[e] += factor * static_cast<Wide<T>>(row[e]);
  }
}

template <class T>
Wide<T> auxiliaryLoss(const T *scores, const int32_t *experts, const RouteShape &shape, int64_t kind) {
  struct Loads;
  struct Sums;
  if (shape.tokens == 0 || shape.choices == 0)
    return 0;
  auto *loads = scratch<Loads, Wide<T>>(shape.experts), *sums = scratch<Sums, Wide<T>>(shape.experts);
  Wide<T> total = 0;
  for (int64_t g = 0; g < shape.groups; ++g) {
    groupLoads(experts, loads, shape, g);
    sumProbabilities(scores + g * shape.groupTokens() * shape.experts, sums, shape.groupTokens(), shape.experts, kind);
    for (int64_t e = 0; e < shape.experts; ++e)
      total += loads[e] * sums[e];
  }
  return total * static_cast<Wide<T>>(shape.experts) / static_cast<Wide<T>>(shape.tokens);
}

// --- Gradient ----------------------------------------------------------------

/// Adds the gradient of the score behind each weight of one token to toScores[experts[j]].
template <class T>
void weightGradient(const T *scores, const int32_t *experts, const T *grads, T *toScores, int64_t choices,
                    bool renormalize, T scale) {
  T sum = 0, inner = 0;
  for (int64_t j = 0; renormalize && j < choices; ++j) {
    sum += scores[experts[j]];
    inner += grads[j] * scores[experts[j]];
  }
  const T divisor = renormalize ? sum + T(1e-20) : T(1);
  for (int64_t j = 0; j < choices; ++j)
    toScores[experts[j]] += scale * (grads[j] - inner / divisor) / divisor;
}

/// Adds the gradient of the auxiliary loss to toScores, given its gradient by the normalised scores.
template <class T>
void auxGradient(const T *scores, const T *toProbabilities, T *toScores, int64_t experts, int64_t kind) {
  const T factor = static_cast<T>(normaliser(scores, experts, kind));
  T mean = 0;
  if (kind != MOERT_SOFTMAX)
    mean = dotProduct(scores, toProbabilities, experts) * factor;
  MOERT_SIMD
  for (int64_t e = 0; e < experts; ++e)
    toScores[e] += factor * (toProbabilities[e] - mean);
}

/// Sets out to the gradient of the logits from that of the scores, through the softmax or the sigmoid.
template <class T> void scoreGradient(const T *scores, const T *toScores, T *out, int64_t experts, int64_t kind) {
  if (kind == MOERT_SOFTMAX) {
    const T mean = dotProduct(scores, toScores, experts);
    MOERT_SIMD
    for (int64_t e = 0; e < experts; ++e)
      out[e] = scores[e] * (toScores[e] - mean);
    return;
  }
  MOERT_SIMD
  for (int64_t e = 0; e < experts; ++e)
    out[e] = scores[e] * (1 - scores[e]) * toScores[e];
}

/// Arguments of moert_route_grad.
struct RouteGradient {
  View scores, experts, gradWeights, gradAux, gradLogits;
  RouteShape shape;
  int64_t kind;
  bool renormalize;
  double routingScale;
};

/// Computes the gradient of routing group g. `toProbabilities` may be null: zero.
template <class T> void gradientOfGroup(const RouteGradient &a, int64_t g, const T *toProbabilities) {
  struct ToScores;
  const int64_t experts = a.shape.experts, choices = a.shape.choices, span = a.shape.groupTokens();
  T *toScores = scratch<ToScores, T>(experts);
  for (int64_t s = g * span; s < (g + 1) * span; ++s) {
    const T *scores = a.scores.as<const T>() + s * experts;
    std::fill_n(toScores, experts, T(0));
    if (a.gradWeights)
      weightGradient(scores, a.experts.as<const int32_t>() + s * choices, a.gradWeights.as<const T>() + s * choices,
                     toScores, choices, a.renormalize, T(a.routingScale));
    if (toProbabilities)
      auxGradient(scores, toProbabilities, toScores, experts, a.kind);
    scoreGradient(scores, toScores, a.gradLogits.as<T>() + s * experts, experts, a.kind);
  }
}

template <class T> void gradientOfGroups(const RouteGradient &a) {
  struct Loads;
  struct Probabilities;
  const RouteShape &shape = a.shape;
  auto *loads = scratch<Loads, Wide<T>>(shape.experts);
  T *toProbabilities = scratch<Probabilities, T>(shape.experts);
  const bool hasAux = a.gradAux && shape.tokens && shape.choices;
  for (int64_t g = 0; g < shape.groups; ++g) {
    if (hasAux) {
      const auto factor = static_cast<Wide<T>>(a.gradAux.as<T>()[0]) * static_cast<Wide<T>>(shape.experts) /
                          static_cast<Wide<T>>(shape.tokens);
      groupLoads(a.experts.as<const int32_t>(), loads, shape, g);
      for (int64_t e = 0; e < shape.experts; ++e)
        toProbabilities[e] = static_cast<T>(factor * loads[e]);
    }
    gradientOfGroup<T>(a, g, hasAux ? toProbabilities : nullptr);
  }
}

// --- Checks ------------------------------------------------------------------

/// Checks that each token's forced experts exist and differ; `forced` may be absent.
void checkForced(Checker &check, View forced, const RouteShape &shape) {
  const int32_t *experts = forced.as<const int32_t>();
  for (int64_t i = 0; check.ok() && forced && i < forced.elements(); ++i) {
    check.that(experts[i] >= 0 && experts[i] < shape.experts, "expected forced experts from 0 to ", shape.experts - 1,
               " but got ", experts[i]);
    const int32_t *first = experts + i / shape.choices * shape.choices;
    check.that(std::find(first, experts + i, experts[i]) == experts + i, "expected different forced experts of token ",
               i / shape.choices, " but got ", experts[i], " twice");
  }
}

} // namespace

void route(Checker &check, View logits, View selectionBias, View scores, View experts, View slots, View weights,
           View counts, View aux, const RouteOptions &options, View forced) {
  const RouteShape shape{logits.dims[0], logits.dims[1], experts.dims[1], options.groups};
  checkForced(check, forced, shape);
  if (!check.ok())
    return;
  withFloating(logits.dtype, [&]<class T>(T) {
    if (options.score == MOERT_SOFTMAX)
      softmaxRows(logits.as<const T>(), scores.as<T>(), shape.tokens, shape.experts);
    else
      sigmoidRows(logits.as<const T>(), scores.as<T>(), shape.tokens, shape.experts);
    if (forced)
      std::copy_n(forced.as<const int32_t>(), forced.elements(), experts.as<int32_t>());
    else
      chooseExperts<T>(scores, selectionBias, experts, shape, options);
    weighChoices<T>(scores.as<T>(), experts.as<int32_t>(), weights.as<T>(), shape, options.renormalize,
                    T(options.routingScale));
    aux.as<T>()[0] = static_cast<T>(auxiliaryLoss<T>(scores.as<T>(), experts.as<int32_t>(), shape, options.score));
  });
  if (options.capacity > 0)
    fillCapacitySlots(experts.as<int32_t>(), slots.as<int32_t>(), counts.as<int32_t>(), shape, options.capacity,
                      options.chunks, options.expertChunkRows());
  else
    fillDroplessSlots(experts.as<int32_t>(), slots.as<int32_t>(), counts.as<int32_t>(), shape, options.chunks,
                      options.chunkRows);
}

void routeGrad(Checker &check, View scores, View experts, View gradWeights, View gradAux, View gradLogits,
               int64_t score, bool renormalize, int64_t groups, double routingScale) {
  const RouteShape shape{scores.dims[0], scores.dims[1], experts.dims[1], groups};
  checkExperts(check, experts, shape.experts);
  if (!check.ok())
    return;
  withFloating(scores.dtype, [&]<class T>(T) {
    gradientOfGroups<T>({scores, experts, gradWeights, gradAux, gradLogits, shape, score, renormalize, routingScale});
  });
}

} // namespace moert::host
