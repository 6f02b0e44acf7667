//===- library_types.h - element types of CUDA's libraries ----------------===//
#ifndef MOERT_TEST_CUDA_EMULATION_LIBRARY_TYPES_H
#define MOERT_TEST_CUDA_EMULATION_LIBRARY_TYPES_H

typedef enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType;

#endif // MOERT_TEST_CUDA_EMULATION_LIBRARY_TYPES_H
