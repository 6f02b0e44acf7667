//===- Collectives.cpp - one member's share of a collective ---------------===//

#include "host/Collectives.h"

#include <algorithm>
#include <cstring>

namespace moert::host {
namespace {

/// A value cut along `dim` into `parts`: `outer` runs of `run` bytes for each part.
struct Cut {
  int64_t outer = 1;
  int64_t run = 0;

  Cut(const View &whole, int64_t dim, int64_t parts) {
    for (int64_t i = 0; i < dim; ++i)
      outer *= whole.dims[static_cast<size_t>(i)];
    int64_t pieces = outer * parts;
    run = pieces ? whole.bytes() / pieces : 0;
  }
};

/// Elements a member sums of `count`: the same cut on all members, so that each element is summed by one of them.
std::pair<int64_t, int64_t> segment(int64_t count, int64_t member, int64_t size) {
  return {count * member / size, count * (member + 1) / size};
}

char *advanced(const View &view, int64_t elements) {
  return view.as<char>() + elements * static_cast<int64_t>(dtypeSize(view.dtype));
}

float fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Sums block by block in a buffer of its own, because `out` may be one of the sources.
template <class T, class Sum, class Load, class Store>
void sumBlocks(std::span<const void *const> sources, void *out, int64_t count, Load load, Store store) {
  constexpr int64_t kBlock = 1024;
  Sum sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t length = std::min(kBlock, count - begin);
    for (size_t i = 0; i < sources.size(); ++i) {
      const T *source = static_cast<const T *>(sources[i]) + begin;
      for (int64_t k = 0; k < length; ++k)
        sum[k] = i ? sum[k] + load(source[k]) : load(source[k]);
    }
    T *to = static_cast<T *>(out) + begin;
    for (int64_t k = 0; k < length; ++k)
      to[k] = store(sum[k]);
  }
}

template <class T, class Sum = T> void sumPlain(std::span<const void *const> sources, void *out, int64_t count) {
  sumBlocks<T, Sum>(
      sources, out, count, [](T value) { return static_cast<Sum>(value); },
      [](Sum sum) { return static_cast<T>(sum); });
}

/// All members' inputs from `element` on.
std::vector<const void *> inputsFrom(const Share &share, int64_t element) {
  std::vector<const void *> inputs;
  for (const Call *call : share.calls)
    inputs.push_back(advanced(call->views[0], element));
  return inputs;
}

/// Sums one input of each member, of which all but this member's own is received.
Status sumInputs(Share &share, std::span<const void *const> inputs, void *out, int64_t count) {
  int32_t dtype = share.mine().views[0].dtype;
  share.received += (share.size() - 1) * count * static_cast<int64_t>(dtypeSize(dtype));
  return sumInOrder(inputs, out, count, dtype);
}

Status allGather(Share &share) {
  const View &out = share.mine().views[1];
  Cut cut(out, share.mine().ints[0], share.size());
  for (int64_t i = 0; i < share.size(); ++i)
    for (int64_t o = 0; o < cut.outer; ++o)
      share.copy(i, out.as<char>() + (o * share.size() + i) * cut.run, share.of(i).views[0].as<char>() + o * cut.run,
                 cut.run);
  return {};
}

Status reduceScatter(Share &share) {
  const View &in = share.mine().views[0], &out = share.mine().views[1];
  Cut cut(in, share.mine().ints[0], share.size());
  int64_t run = cut.run / static_cast<int64_t>(dtypeSize(in.dtype));
  std::vector<const void *> inputs = inputsFrom(share, share.member * run);
  for (int64_t o = 0; o < cut.outer; ++o) {
    if (Status status = sumInputs(share, inputs, advanced(out, o * run), run); !status.ok())
      return status;
    for (const void *&input : inputs)
      input = static_cast<const char *>(input) + share.size() * cut.run;
  }
  return {};
}

/// The elements that take part: all, or those of the used rows.
Status reducedElements(const Share &share, int64_t &elements) {
  const Call &call = share.mine();
  elements = call.views[0].elements();
  if (!call.views[1])
    return {};
  int64_t rows = usedRows(call), room = call.views[0].dims[0];
  if (rows < 0 || rows > room)
    return Status::error(MOERT_ERROR_OVERFLOW, "counts add up to " + std::to_string(rows) +
                                                   " rows, but there is room for " + std::to_string(room));
  if (int64_t first = usedRows(share.of(0)); first != rows)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT,
                         "expected all members' counts to add up to the same number of rows, "
                         "but member 0 has " +
                             std::to_string(first) + " and member " + std::to_string(share.member) + " has " +
                             std::to_string(rows));
  elements = room ? elements / room * rows : 0;
  return {};
}

/// Each member sums one segment for all; then they take each other's.
Status allReduce(Share &share, int phase) {
  int64_t count;
  if (Status status = reducedElements(share, count); !status.ok())
    return status;
  const View &out = share.mine().views[2];
  if (phase == 0) {
    auto [begin, end] = segment(count, share.member, share.size());
    return sumInputs(share, inputsFrom(share, begin), advanced(out, begin), end - begin);
  }
  for (int64_t i = 0; i < share.size(); ++i) {
    auto [begin, end] = segment(count, i, share.size());
    if (i != share.member)
      share.copy(i, advanced(out, begin), advanced(share.of(i).views[2], begin),
                 (end - begin) * static_cast<int64_t>(dtypeSize(out.dtype)));
  }
  return {};
}

/// Each member sums one segment into the root's output; zeros go out only when all inputs have been read.
Status reduce(Share &share, int phase) {
  int64_t root = share.mine().ints[0];
  if (phase == 1) {
    const View &out = share.mine().views[1];
    if (share.member != root)
      std::memset(out.data, 0, static_cast<size_t>(out.bytes()));
    return {};
  }
  const View &out = share.of(root).views[1];
  auto [begin, end] = segment(out.elements(), share.member, share.size());
  // What the others write into the root's output, it receives.
  if (share.member == root)
    share.received += out.bytes() - (end - begin) * static_cast<int64_t>(dtypeSize(out.dtype));
  return sumInputs(share, inputsFrom(share, begin), advanced(out, begin), end - begin);
}

/// A box of elements at one place of a value, to be copied to another place of another value of the same rank.
struct BoxCopy {
  Share &share;
  int64_t source;
  const View &in, &out;
  std::array<int64_t, 4> from{}, to{}, box{};

  /// The box in dimensions from `dim` on, where the offsets are those of the dimensions before: innermost at once.
  void run(int64_t dim = 0, int64_t inOffset = 0, int64_t outOffset = 0) {
    auto d = static_cast<size_t>(dim);
    inOffset = inOffset * in.dims[d] + from[d];
    outOffset = outOffset * out.dims[d] + to[d];
    // Where all of the inner dimensions is copied, the rest is one run.
    auto width = static_cast<int64_t>(dtypeSize(in.dtype));
    bool whole = true;
    for (size_t k = d + 1; k < static_cast<size_t>(in.rank); ++k) {
      whole &= box[k] == in.dims[k] && box[k] == out.dims[k];
      width *= box[k];
    }
    if (whole)
      return share.copy(source, out.as<char>() + outOffset * width, in.as<char>() + inOffset * width, box[d] * width);
    for (int64_t i = 0; i < box[d]; ++i)
      run(dim + 1, inOffset + i, outOffset + i);
  }
};

Status allToAll(Share &share) {
  const Call &mine = share.mine();
  auto split = static_cast<size_t>(mine.ints[0]), concat = static_cast<size_t>(mine.ints[1]);
  int64_t copies = mine.ints[2], phase = mine.ints[3], phases = mine.ints[4];
  std::array<int64_t, 4> box = mine.views[0].dims;
  box[split] /= share.size() / copies;
  int64_t width = share.size() / phases;
  int64_t firstSource = (share.member / width + phase) % phases * width;
  for (int64_t i = 0; i < width; ++i) {
    BoxCopy copy{share, firstSource + i, share.of(firstSource + i).views[0], mine.views[1]};
    copy.box = box;
    copy.from[split] = share.member / copies * box[split];
    copy.to[concat] = i * box[concat];
    copy.run();
  }
  return {};
}

Status broadcast(Share &share) {
  int64_t root = share.mine().ints[0];
  const View &in = share.of(root).views[0];
  share.copy(root, share.mine().views[1].as<char>(), in.as<char>(), in.bytes());
  return {};
}

} // namespace

Status sumInOrder(std::span<const void *const> sources, void *out, int64_t count, int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    sumPlain<float>(sources, out, count);
    return {};
  case MOERT_F64:
    sumPlain<double>(sources, out, count);
    return {};
  case MOERT_I32:
    // Unsigned, because the overflow of a signed sum is undefined.
    sumPlain<uint32_t>(sources, out, count);
    return {};
  case MOERT_BF16:
    sumBlocks<uint16_t, float>(sources, out, count, fromBf16, toBf16);
    return {};
  default:
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "cannot sum values of dtype " + std::to_string(dtype));
  }
}

int collectivePhases(Kind kind) { return kind == Kind::AllReduce || kind == Kind::Reduce ? 2 : 1; }

void Share::copy(int64_t source, char *to, const char *from, int64_t bytes) {
  if (to == from || bytes <= 0)
    return;
  std::memcpy(to, from, static_cast<size_t>(bytes));
  if (source != member)
    received += bytes;
}

Status pullCollective(Share &share, int phase, const Group &group, int64_t instance) {
  switch (share.mine().kind) {
  case Kind::AllGather:
    return allGather(share);
  case Kind::ReduceScatter:
    return reduceScatter(share);
  case Kind::AllReduce:
    return allReduce(share, phase);
  case Kind::AllToAll:
    return allToAll(share);
  case Kind::AllToAllV:
    return pullAllToAllV(share);
  case Kind::BroadcastExperts:
    return pullBroadcastExperts(share);
  case Kind::ReduceExperts:
    return pullReduceExperts(share);
  case Kind::Broadcast:
    return broadcast(share);
  case Kind::Reduce:
    return reduce(share, phase);
  case Kind::AssumeReplicated:
    return compareReplicas(share, group, instance);
  case Kind::Send:
    return {};
  case Kind::Receive:
    share.copy(0, share.mine().views[0].as<char>(), share.of(0).views[0].as<char>(), share.mine().views[0].bytes());
    return {};
  default:
    return Status::error(MOERT_ERROR_INTERNAL, "not a collective");
  }
}

} // namespace moert::host
