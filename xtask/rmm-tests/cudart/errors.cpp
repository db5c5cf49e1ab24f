// Error codes: their names and texts, and the last error of each thread.
#include "runtime.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct named_code {
  int code;
  char const* name;
};

// The tables are in the order of the codes, for the search.
constexpr named_code names[] = {
  {0, "cudaSuccess"}, {1, "cudaErrorInvalidValue"}, {2, "cudaErrorMemoryAllocation"},
  {3, "cudaErrorInitializationError"}, {4, "cudaErrorCudartUnloading"},
  {5, "cudaErrorProfilerDisabled"}, {6, "cudaErrorProfilerNotInitialized"},
  {7, "cudaErrorProfilerAlreadyStarted"}, {8, "cudaErrorProfilerAlreadyStopped"},
  {9, "cudaErrorInvalidConfiguration"}, {10, "cudaErrorVersionTranslation"},
  {12, "cudaErrorInvalidPitchValue"}, {13, "cudaErrorInvalidSymbol"},
  {16, "cudaErrorInvalidHostPointer"}, {17, "cudaErrorInvalidDevicePointer"},
  {18, "cudaErrorInvalidTexture"}, {19, "cudaErrorInvalidTextureBinding"},
  {20, "cudaErrorInvalidChannelDescriptor"}, {21, "cudaErrorInvalidMemcpyDirection"},
  {22, "cudaErrorAddressOfConstant"}, {23, "cudaErrorTextureFetchFailed"},
  {24, "cudaErrorTextureNotBound"}, {25, "cudaErrorSynchronizationError"},
  {26, "cudaErrorInvalidFilterSetting"}, {27, "cudaErrorInvalidNormSetting"},
  {28, "cudaErrorMixedDeviceExecution"}, {31, "cudaErrorNotYetImplemented"},
  {32, "cudaErrorMemoryValueTooLarge"}, {34, "cudaErrorStubLibrary"},
  {35, "cudaErrorInsufficientDriver"}, {36, "cudaErrorCallRequiresNewerDriver"},
  {37, "cudaErrorInvalidSurface"}, {43, "cudaErrorDuplicateVariableName"},
  {44, "cudaErrorDuplicateTextureName"}, {45, "cudaErrorDuplicateSurfaceName"},
  {46, "cudaErrorDevicesUnavailable"}, {49, "cudaErrorIncompatibleDriverContext"},
  {52, "cudaErrorMissingConfiguration"}, {53, "cudaErrorPriorLaunchFailure"},
  {65, "cudaErrorLaunchMaxDepthExceeded"}, {66, "cudaErrorLaunchFileScopedTex"},
  {67, "cudaErrorLaunchFileScopedSurf"}, {68, "cudaErrorSyncDepthExceeded"},
  {69, "cudaErrorLaunchPendingCountExceeded"}, {98, "cudaErrorInvalidDeviceFunction"},
  {100, "cudaErrorNoDevice"}, {101, "cudaErrorInvalidDevice"},
  {102, "cudaErrorDeviceNotLicensed"}, {103, "cudaErrorSoftwareValidityNotEstablished"},
  {127, "cudaErrorStartupFailure"}, {200, "cudaErrorInvalidKernelImage"},
  {201, "cudaErrorDeviceUninitialized"}, {205, "cudaErrorMapBufferObjectFailed"},
  {206, "cudaErrorUnmapBufferObjectFailed"}, {207, "cudaErrorArrayIsMapped"},
  {208, "cudaErrorAlreadyMapped"}, {209, "cudaErrorNoKernelImageForDevice"},
  {210, "cudaErrorAlreadyAcquired"}, {211, "cudaErrorNotMapped"},
  {212, "cudaErrorNotMappedAsArray"}, {213, "cudaErrorNotMappedAsPointer"},
  {214, "cudaErrorECCUncorrectable"}, {215, "cudaErrorUnsupportedLimit"},
  {216, "cudaErrorDeviceAlreadyInUse"}, {217, "cudaErrorPeerAccessUnsupported"},
  {218, "cudaErrorInvalidPtx"}, {219, "cudaErrorInvalidGraphicsContext"},
  {220, "cudaErrorNvlinkUncorrectable"}, {221, "cudaErrorJitCompilerNotFound"},
  {222, "cudaErrorUnsupportedPtxVersion"}, {223, "cudaErrorJitCompilationDisabled"},
  {224, "cudaErrorUnsupportedExecAffinity"}, {225, "cudaErrorUnsupportedDevSideSync"},
  {226, "cudaErrorContained"}, {227, "cudaErrorInsufficientLoaderVersion"},
  {300, "cudaErrorInvalidSource"}, {301, "cudaErrorFileNotFound"},
  {302, "cudaErrorSharedObjectSymbolNotFound"}, {303, "cudaErrorSharedObjectInitFailed"},
  {304, "cudaErrorOperatingSystem"}, {400, "cudaErrorInvalidResourceHandle"},
  {401, "cudaErrorIllegalState"}, {402, "cudaErrorLossyQuery"}, {500, "cudaErrorSymbolNotFound"},
  {600, "cudaErrorNotReady"}, {700, "cudaErrorIllegalAddress"},
  {701, "cudaErrorLaunchOutOfResources"}, {702, "cudaErrorLaunchTimeout"},
  {703, "cudaErrorLaunchIncompatibleTexturing"}, {704, "cudaErrorPeerAccessAlreadyEnabled"},
  {705, "cudaErrorPeerAccessNotEnabled"}, {708, "cudaErrorSetOnActiveProcess"},
  {709, "cudaErrorContextIsDestroyed"}, {710, "cudaErrorAssert"}, {711, "cudaErrorTooManyPeers"},
  {712, "cudaErrorHostMemoryAlreadyRegistered"}, {713, "cudaErrorHostMemoryNotRegistered"},
  {714, "cudaErrorHardwareStackError"}, {715, "cudaErrorIllegalInstruction"},
  {716, "cudaErrorMisalignedAddress"}, {717, "cudaErrorInvalidAddressSpace"},
  {718, "cudaErrorInvalidPc"}, {719, "cudaErrorLaunchFailure"},
  {720, "cudaErrorCooperativeLaunchTooLarge"}, {721, "cudaErrorTensorMemoryLeak"},
  {800, "cudaErrorNotPermitted"}, {801, "cudaErrorNotSupported"},
  {802, "cudaErrorSystemNotReady"}, {803, "cudaErrorSystemDriverMismatch"},
  {804, "cudaErrorCompatNotSupportedOnDevice"}, {805, "cudaErrorMpsConnectionFailed"},
  {806, "cudaErrorMpsRpcFailure"}, {807, "cudaErrorMpsServerNotReady"},
  {808, "cudaErrorMpsMaxClientsReached"}, {809, "cudaErrorMpsMaxConnectionsReached"},
  {810, "cudaErrorMpsClientTerminated"}, {811, "cudaErrorCdpNotSupported"},
  {812, "cudaErrorCdpVersionMismatch"}, {900, "cudaErrorStreamCaptureUnsupported"},
  {901, "cudaErrorStreamCaptureInvalidated"}, {902, "cudaErrorStreamCaptureMerge"},
  {903, "cudaErrorStreamCaptureUnmatched"}, {904, "cudaErrorStreamCaptureUnjoined"},
  {905, "cudaErrorStreamCaptureIsolation"}, {906, "cudaErrorStreamCaptureImplicit"},
  {907, "cudaErrorCapturedEvent"}, {908, "cudaErrorStreamCaptureWrongThread"},
  {909, "cudaErrorTimeout"}, {910, "cudaErrorGraphExecUpdateFailure"},
  {911, "cudaErrorExternalDevice"}, {912, "cudaErrorInvalidClusterSize"},
  {913, "cudaErrorFunctionNotLoaded"}, {914, "cudaErrorInvalidResourceType"},
  {915, "cudaErrorInvalidResourceConfiguration"}, {917, "cudaErrorStreamDetached"},
  {918, "cudaErrorGraphRecaptureFailure"}, {919, "cudaErrorFabricNotReady"},
  {999, "cudaErrorUnknown"}, {10000, "cudaErrorApiFailureBase"},
};

// The runtime's texts of the codes that a program without kernels meets.
constexpr named_code texts[] = {
  {0, "no error"},
  {1, "invalid argument"},
  {2, "out of memory"},
  {3, "initialization error"},
  {4, "driver shutting down"},
  {21, "invalid copy direction for memcpy"},
  {35, "CUDA driver version is insufficient for CUDA runtime version"},
  {100, "no CUDA-capable device is detected"},
  {101, "invalid device ordinal"},
  {201, "invalid device context"},
  {400, "invalid resource handle"},
  {500, "named symbol not found"},
  {600, "device not ready"},
  {700, "an illegal memory access was encountered"},
  {719, "unspecified launch failure"},
  {800, "operation not permitted"},
  {801, "operation not supported"},
  {999, "unknown error"},
};

template <std::size_t N>
char const* find(named_code const (&table)[N], int code)
{
  auto const found = std::lower_bound(
    std::begin(table), std::end(table), code, [](auto const& row, int c) { return row.code < c; });
  return found != std::end(table) && found->code == code ? found->name : nullptr;
}

char const unknown[] = "unrecognized error code";

/// Errors after which every call in the process fails: `cudaGetLastError` does not reset them.
constexpr bool is_sticky(cudaError_t code)
{
  switch (static_cast<int>(code)) {
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 710:  // assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure
    case 721:  // tensor memory leak
      return true;
    default: return false;
  }
}

}  // namespace

namespace stand_in {

cudaError_t record(cudaError_t code) noexcept
{
  bool const is_failure = code != cudaSuccess && code != cudaErrorNotReady;
  if (is_failure && !is_sticky(last_error)) { last_error = code; }
  return code;
}

cudaError_t record(CUresult code) noexcept { return record(static_cast<cudaError_t>(code)); }

}  // namespace stand_in

extern "C" {

cudaError_t cudaGetLastError()
{
  auto const code = last_error;
  if (!is_sticky(code)) { last_error = cudaSuccess; }
  return code;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

char const* cudaGetErrorName(cudaError_t error)
{
  auto const* const name = find(names, static_cast<int>(error));
  return name != nullptr ? name : unknown;
}

char const* cudaGetErrorString(cudaError_t error)
{
  auto const* const own = find(texts, static_cast<int>(error));
  if (own != nullptr) { return own; }
  char const* text = nullptr;
  if (cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS && text != nullptr) {
    return text;
  }
  return cudaGetErrorName(error);
}

}  // extern "C"
