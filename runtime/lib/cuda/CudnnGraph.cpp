//===- CudnnGraph.cpp - attention by cuDNN's graphs -----------------------===//
//
// Describes graphs of operations to cuDNN, by the headers of cudnn-frontend. cuDNN is loaded when the first graph is
// built. Without cuDNN, programs still start, and other kernels compute attention.
//
//===----------------------------------------------------------------------===//

#include "cuda/CudnnGraph.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <mutex>
#include <unordered_map>

namespace cudnn_frontend {
/// The loaded library, through which cudnn-frontend calls cuDNN.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

namespace moert::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Numbers by which a graph names its operands.
enum Uid : int64_t { Q = 1, K, V, Result, Stats, Grads, GradQ, GradK, GradV, Sinks };

Status refusal(const std::string &why) { return Status::error(MOERT_ERROR_UNSUPPORTED, "cuDNN: ", why); }

/// Version of the loaded cuDNN, as "9.13.0". The number 91300 means that version (cudnnGetVersion).
std::string versionText() {
  const size_t version = fe::detail::get_backend_version();
  auto part = [&](size_t from) { return std::to_string(version / from % 100); };
  return part(10000) + "." + part(100) + "." + part(1);
}
Status statusOf(fe::error_t error) { return error.is_bad() ? refusal(error.get_message()) : Status(); }
Status statusOf(cudnnStatus_t status, const std::string &what) {
  if (status == CUDNN_STATUS_SUCCESS)
    return {};
  return Status::error(MOERT_ERROR_INTERNAL, what, ": cuDNN's error ", static_cast<int>(status));
}

/// Runs `function` and turns cudnn-frontend's exceptions, for a missing library or function, into an error.
template <class Function> Status withoutExceptions(Function function) {
  try {
    return function();
  } catch (const std::exception &error) {
    return refusal(error.what());
  }
}

struct HandleDestroyer {
  void operator()(cudnnHandle_t handle) const { static_cast<void>(fe::detail::destroy_handle(handle)); }
};
/// A handle of cuDNN. It has a stream, so one thread uses it at a time.
struct Handle {
  std::mutex mutex;
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, HandleDestroyer> cudnn;
};

// --- Descriptions ------------------------------------------------------------

fe::DataType_t typeOf(const CudnnShape &shape) {
  return shape.dtype == MOERT_BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

/// Describes the operands of a shape.
class Description {
public:
  Description(fe::graph::Graph &graph, const CudnnShape &shape) : graph(graph), shape(shape) {}

  Tensor input(Uid uid) const {
    constexpr const char *kNames[] = {"", "q", "k", "v", "result", "stats", "grads", "", "", "", "sinks"};
    auto attributes = fe::graph::Tensor_attributes().set_name(kNames[uid]);
    return graph.tensor(describe(attributes, uid));
  }
  void output(const Tensor &tensor, Uid uid) const { describe(*tensor, uid).set_output(true); }

private:
  fe::graph::Tensor_attributes &describe(fe::graph::Tensor_attributes &attributes, Uid uid) const {
    attributes.set_uid(uid);
    switch (uid) {
    case Q:
    case GradQ:
      return ofHeads(attributes, shape.heads, shape.queries, shape.width, shape.queryStride);
    case K:
    case GradK:
      return ofHeads(attributes, shape.keyHeads, shape.keys, shape.width, shape.keyStride);
    case V:
    case GradV:
      return ofHeads(attributes, shape.keyHeads, shape.keys, shape.valueWidth, shape.valueStride);
    case Result:
    case Grads:
      return ofHeads(attributes, shape.heads, shape.queries, shape.valueWidth, shape.resultStride);
    case Sinks:
      return attributes.set_dim({1, shape.heads, 1, 1})
          .set_stride({shape.heads, 1, 1, 1})
          .set_data_type(fe::DataType_t::FLOAT);
    case Stats:
      break;
    }
    return attributes.set_dim({shape.sequences, shape.heads, shape.queries, 1})
        .set_stride({shape.heads * shape.queries, shape.queries, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
  }
  fe::graph::Tensor_attributes &ofHeads(fe::graph::Tensor_attributes &attributes, int64_t heads, int64_t rows,
                                        int64_t columns, int64_t stride) const {
    return attributes.set_dim({shape.sequences, heads, rows, columns})
        .set_stride({rows * stride, columns, stride, 1})
        .set_data_type(typeOf(shape));
  }

  fe::graph::Graph &graph;
  const CudnnShape &shape;
};

/// Sets the scale and the mask, which both kinds of graphs describe alike.
template <class Attributes> Attributes attributesOf(const CudnnShape &shape, const char *name) {
  Attributes attributes;
  attributes.set_name(name).set_attn_scale(static_cast<float>(shape.scale));
  if (!shape.causal)
    return attributes;
  attributes.set_diagonal_alignment(shape.queries == shape.keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                                : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
  attributes.set_diagonal_band_right_bound(0);
  if (shape.window > 0)
    attributes.set_diagonal_band_left_bound(static_cast<int>(shape.window));
  return attributes;
}

void describe(fe::graph::Graph &graph, const CudnnShape &shape) {
  graph.set_io_data_type(typeOf(shape))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Description of(graph, shape);
  if (shape.isGradient) {
    auto attributes = attributesOf<fe::graph::SDPA_backward_attributes>(shape, "attention_grad");
    attributes.set_deterministic_algorithm(shape.isDeterministic);
    const auto [q, k, v] = graph.sdpa_backward(of.input(Q), of.input(K), of.input(V), of.input(Result), of.input(Grads),
                                               of.input(Stats), std::move(attributes));
    of.output(q, GradQ);
    of.output(k, GradK);
    of.output(v, GradV);
    return;
  }
  auto attributes = attributesOf<fe::graph::SDPA_attributes>(shape, "attention");
  attributes.set_generate_stats(true);
  if (shape.hasSinks)
    attributes.set_sink_token(of.input(Sinks));
  const auto [result, stats] = graph.sdpa(of.input(Q), of.input(K), of.input(V), std::move(attributes));
  of.output(result, Result);
  of.output(stats, Stats);
}

// --- Graphs ------------------------------------------------------------------

class BuiltGraph final : public CudnnGraph {
public:
  explicit BuiltGraph(Handle &handle) : handle(handle) {}

  Status build(const CudnnShape &shape) {
    const std::lock_guard<std::mutex> lock(handle.mutex);
    isGradient = shape.isGradient;
    hasSinks = shape.hasSinks;
    describe(graph, shape);
    graph.deselect_workspace_greater_than(kMostCudnnBytes);
    MOERT_RETURN_IF_ERROR(statusOf(graph.build(handle.cudnn.get(), {fe::HeurMode_t::A})));
    return statusOf(graph.get_workspace_size(bytes));
  }

  Status run(cudaStream_t stream, const CudnnOperands &operands, void *workspace) override {
    auto at = [](const void *data) { return const_cast<void *>(data); };
    std::unordered_map<int64_t, void *> places{{Q, at(operands.q)},
                                               {K, at(operands.k)},
                                               {V, at(operands.v)},
                                               {Result, operands.result},
                                               {Stats, operands.stats}};
    if (isGradient)
      places.insert(
          {{Grads, at(operands.grads)}, {GradQ, operands.gradQ}, {GradK, operands.gradK}, {GradV, operands.gradV}});
    if (hasSinks)
      places.emplace(Sinks, at(operands.sinks));
    return withoutExceptions([&] {
      const std::lock_guard<std::mutex> lock(handle.mutex);
      MOERT_RETURN_IF_ERROR(
          statusOf(fe::detail::set_stream(handle.cudnn.get(), stream), "cannot tell cuDNN its stream"));
      return statusOf(graph.execute(handle.cudnn.get(), places, workspace));
    });
  }

private:
  Handle &handle;
  fe::graph::Graph graph;
  bool isGradient = false, hasSinks = false;
};

class LoadedCudnn final : public Cudnn {
public:
  Status build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph) override {
    return withoutExceptions([&] {
      auto built = std::make_unique<BuiltGraph>(handle);
      Status status = built->build(shape);
      if (status.ok())
        graph = std::move(built);
      else
        status.message += " (version " + versionText() + ")";
      return status;
    });
  }

  Status connect() {
    return withoutExceptions(
        [&] { return statusOf(fe::detail::create_handle(OutHandle(handle.cudnn)), "cannot start cuDNN"); });
  }

private:
  Handle handle;
};

/// Loads cuDNN, which stays loaded.
Status load() {
  static const std::string error = [] {
    constexpr const char *kName = "libcudnn.so.9";
    fe::cudnn_dlhandle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
    return fe::cudnn_dlhandle ? std::string() : std::string(::dlerror());
  }();
  return error.empty() ? Status()
                       : refusal(error + "; install cuDNN 9 (for CUDA 13 pip install nvidia-cudnn-cu13), or name its "
                                         "folder in LD_LIBRARY_PATH");
}

} // namespace

Status Cudnn::open(std::unique_ptr<Cudnn> &cudnn) {
  MOERT_RETURN_IF_ERROR(load());
  auto loaded = std::make_unique<LoadedCudnn>();
  MOERT_RETURN_IF_ERROR(loaded->connect());
  cudnn = std::move(loaded);
  return {};
}

} // namespace moert::cuda
