//===- nccl_device.h - NCCL's device API, emulated ------------------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_NCCL_DEVICE_H
#define MOERT_TEST_CUDA_EMULATION_NCCL_DEVICE_H

#include <nccl_device/core.h>

#endif // MOERT_TEST_CUDA_EMULATION_NCCL_DEVICE_H
