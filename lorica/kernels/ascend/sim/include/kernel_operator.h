// What a kernel source includes. On this model it gives the AscendC names below, by our own
// headers; the vendor's toolkit has a header of the same name, so that the kernel's text is the
// same for both. Names are written in full (AscendC::Mmad), since g++ and the vendor's compiler
// differ in what they find without it.
//
// Tensors   GlobalTensor<T>: SetGlobalBuffer(p[, n]), [offset], GetValue, SetValue, GetSize,
//           GetPhyAddr. LocalTensor<T>(TPosition, byte, elements): [offset], GetValue, SetValue,
//           ReinterpretCast<U>, GetSize. TPipe, TQue, TBuf: queue.h.
// MTE2      DataCopy(local L1/UB, global, n | DataCopyParams | Nd2NzParams), DataCopyPad,
//           LoadData(L0A/L0B, global): GM to the core.
// MTE1      LoadData(L0A/L0B, L1, LoadData2DParams): fractals, transposed at will;
//           DataCopy(bias table, L1); on 2002 DataCopy(UB, L1).
// M         Mmad(L0C, L0A, L0B[, bias], MmadParams). A is ZZ: fractals of 16 rows x 32 bytes,
//           [m / 16][k / k0]; B is ZN: [k / k0][n / 16], each fractal n-major (16 n x k0); C is NZ:
//           [n / 16][m][16] in fp32. m == 1 reads A as k packed elements. A Mmad of fewer than ten
//           16 x 16 tiles must be followed by PipeBarrier<PIPE_M> before the next on its C.
// FIX       Fixpipe<T, U, CFG_NZ | CFG_ROW_MAJOR>(global or L1, L0C, FixpipeParamsV220), or
//           DataCopy(dst, L0C, DataCopyCO12DstParams). To L1: F322F16 or F322BF16, NZ only. Row
//           offset: l0c[row * 16]. One pass rounds to nearest even.
// V         api_vector.h; on 2002 DataCopy(UB, L0C, DataCopyParams, DataCopyEnhancedParams).
// MTE3      DataCopy(global, UB/L1, ...), DataCopyPad; on 2002 DataCopy(L1, UB).
// Sync      SetFlag<HardEvent::A_B>(id), WaitFlag (ids 0..7), PipeBarrier<PIPE_x>,
//           CrossCoreSetFlag<mode, pipe>(id), CrossCoreWaitFlag, SyncAll.
// Modes     SetAtomicAdd<T>, SetAtomicNone: copies from UB, L1 or L0C to GM add.
// Scalar    GetValue and SetValue go through the scalar cache in GM:
//           DataCacheCleanAndInvalid<T, CacheLine::x, DcciDst::y>(global) after writes.
// Core      GetBlockIdx, GetBlockNum, GetSubBlockIdx, GetTaskRatio, ASCEND_IS_AIC, ASCEND_IS_AIV.
#pragma once

#include "lorica/kernels/ascend/sim/api_copy.h"
#include "lorica/kernels/ascend/sim/api_vector.h"
#include "lorica/kernels/ascend/sim/queue.h"

#define LORICA_ASCEND_SIM 1
#define __aicore__
#define __global__
#define __gm__
#define __cube__
#define __vector__
#define __mix__(aic, aiv)
#define __schedmode__(mode)
#define ASCEND_IS_AIC (::lorica::ascend::OnCube())
#define ASCEND_IS_AIV (::lorica::ascend::OnVector())
#define KERNEL_TYPE_AIC_ONLY 0
#define KERNEL_TYPE_AIV_ONLY 1
#define KERNEL_TYPE_MIX_AIC_1_0 2
#define KERNEL_TYPE_MIX_AIC_1_1 3
#define KERNEL_TYPE_MIX_AIC_1_2 4
#define KERNEL_TYPE_MIX_AIV_1_0 5
#define KERNEL_TASK_TYPE_DEFAULT(type) static_assert((type) >= 0, "a kernel type")

using GM_ADDR = uint8_t*;
