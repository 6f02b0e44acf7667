//===- CudaDevice.h - one GPU's memory and streams ------------------------===//
#ifndef MOERT_CUDA_CUDADEVICE_H
#define MOERT_CUDA_CUDADEVICE_H

#include "cuda/Lanes.h"

namespace moert::cuda {

/// Notes the available memory of the current device, for CudaDevice::otherBytes. Call it before anything is allocated
/// there.
Status noteMemoryAtFirst();

/// Options of a device, from a run's options and the environment.
DeviceOptions deviceOptions(const BackendOptions &options);

/// Base of the backends on one GPU: memory, and the times of the last step.
class CudaDevice : public Device {
public:
  ~CudaDevice() override;
  Status checkAvailable(int64_t bytes, const std::string &what) override;
  Status allocate(int64_t rank, int32_t space, int64_t bytes, const std::string &what, void *&data) override;
  Status write(void *to, const void *from, int64_t bytes) override;
  Status read(void *to, const void *from, int64_t bytes) override;
  Status describe(std::string &name, int64_t &memoryBytes) override;
  Status checkKernel(Kind kind) const override;
  std::vector<std::string> raggedMethods() const override;
  Status forceRaggedMethod(const std::string &name) override;
  void forceProposal(int64_t number) override;
  Status describeAlgorithm(const Call &call, std::string &algorithm) override;
  /// cuDNN's graphs are built before a step. Building may wait for all streams, and one of them may wait for another
  /// rank.
  bool wantsCalls() const override { return true; }
  Status prepare(const Call &call) override;
  const std::vector<int64_t> &ranks() const override { return local; }
  /// Bytes of all worlds of the process outside of plans. Memory that other processes took meanwhile is included.
  Status otherBytes(int64_t &bytes) override;
  void timeOps(bool isTimed) override { lanes->isTimed = isTimed; }
  const std::vector<OpTime> &timeline(int64_t rank, int64_t stream) const override {
    return lanes->at(rank, stream).times;
  }

protected:
  /// Allocates memory of the device, which this object owns.
  virtual Status allocateMemory(int64_t bytes, const std::string &what, void *&data);

  CudaDevice(std::unique_ptr<Lanes> lanes, std::vector<int64_t> local)
      : lanes(std::move(lanes)), local(std::move(local)) {}

  const std::unique_ptr<Lanes> lanes;

private:
  const std::vector<int64_t> local;
  std::vector<DeviceMemory> memory;
  int64_t allocated = 0; ///< bytes of memory
  std::vector<PinnedMemory> pinned;
};

} // namespace moert::cuda

#endif // MOERT_CUDA_CUDADEVICE_H
