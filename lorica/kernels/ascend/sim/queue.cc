// TPipe, TQue and TBuf: memory in the order of InitBuffer, and the queue protocol.
#include "lorica/kernels/ascend/sim/op.h"

namespace lorica::ascend {
namespace {

using AscendC::TPosition;

struct Pipes {
  int producer;
  int consumer;
};

Pipes PipesOf(TPosition position, bool coupled) {
  switch (position) {
    case TPosition::VECIN:
      return {PIPE_MTE2, PIPE_V};
    case TPosition::VECOUT:
      return {PIPE_V, PIPE_MTE3};
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
      return {PIPE_MTE2, PIPE_MTE1};
    case TPosition::A2:
    case TPosition::B2:
    case TPosition::C2:
      return {PIPE_MTE1, PIPE_M};
    case TPosition::CO1:
      return {PIPE_M, coupled ? PIPE_V : PIPE_FIX};
    default:
      return {PIPE_V, PIPE_V};
  }
}

Queue* QueueOf(Core* core, int32_t queue, const char* call, int line) {
  if (queue >= 1 && static_cast<size_t>(queue) <= core->queues.size()) {
    return &core->queues[static_cast<size_t>(queue - 1)];
  }
  core->Error(ErrorKind::kQueueProtocol, "%s (line %d): the queue has no buffer", call, line);
  return nullptr;
}

View Nothing(Type type) {
  View view;
  view.space = Space::kUb;
  view.type = type;
  view.bytes = -1;
  return view;
}

View ViewOf(const Queue& queue, int32_t number, size_t slot, Type type) {
  View view;
  view.position = queue.position;
  view.space = SpaceOf(queue.position);
  view.type = type;
  view.offset = queue.slots[slot].offset;
  view.bytes = queue.bytes;
  view.buffer = number;
  return view;
}

// The slot whose memory begins where the tensor does.
QueueSlot* SlotOf(Queue* queue, const View& tensor, size_t* index) {
  for (size_t i = 0; i < queue->slots.size(); ++i) {
    if (queue->slots[i].offset != tensor.offset) continue;
    *index = i;
    return &queue->slots[i];
  }
  return nullptr;
}

// The producer's or consumer's pipe has done its part: a flag of the queue's own.
void HandOver(Core* core, int pipe, const char* name, int line, QueueSlot* slot) {
  core->Issue(pipe, name, line, Instr::Kind::kSet);
  slot->clock = core->Completed(pipe);
  slot->set_instr = static_cast<int32_t>(core->current);
}
void TakeOver(Core* core, int pipe, const char* name, int line, const QueueSlot& slot) {
  if (slot.set_instr < 0) return;
  core->Issue(pipe, name, line, Instr::Kind::kWait);
  core->Learn(pipe, slot.clock);
  core->last().dep_core = core->id;
  core->last().dep_instr = slot.set_instr;
}

}  // namespace

Space SpaceOf(TPosition position) {
  switch (position) {
    case TPosition::GM:
      return Space::kGm;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
      return Space::kL1;
    case TPosition::A2:
      return Space::kL0A;
    case TPosition::B2:
      return Space::kL0B;
    case TPosition::C2:
      return Space::kBt;
    case TPosition::CO1:
      return Space::kL0C;
    default:
      return Space::kUb;
  }
}

int32_t PipeInitBuffer(TPosition position, int32_t depth, int64_t bytes, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return 0;
  const Space space = SpaceOf(position);
  Queue queue;
  queue.position = position;
  queue.bytes = RoundUp(bytes, 32);
  queue.plain = depth == 0;
  queue.line = line;
  const int64_t count = depth == 0 ? 1 : depth;
  int64_t& used = core->allocated[static_cast<size_t>(space)];
  if (used + count * queue.bytes > core->memory(space).capacity) {
    core->Error(ErrorKind::kOverCapacity,
                "InitBuffer (line %d): %lld buffers of %lld bytes after %lld pass the %lld of %s",
                line, static_cast<long long>(count), static_cast<long long>(queue.bytes),
                static_cast<long long>(used), static_cast<long long>(core->memory(space).capacity),
                SpaceName(space));
    return 0;
  }
  for (int64_t i = 0; i < count; ++i) {
    QueueSlot slot;
    slot.offset = used + i * queue.bytes;
    queue.slots.push_back(slot);
  }
  used += count * queue.bytes;
  core->queues.push_back(std::move(queue));
  return static_cast<int32_t>(core->queues.size());
}

void PipeDestroy() {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  for (const Queue& queue : core->queues) {
    for (const QueueSlot& slot : queue.slots) {
      if (slot.state == QueueSlot::State::kFree) continue;
      core->Error(ErrorKind::kQueueProtocol,
                  "the queue of line %d ends with a tensor that is not freed (%s at %lld)",
                  queue.line, SpaceName(SpaceOf(queue.position)),
                  static_cast<long long>(slot.offset));
    }
  }
  BarrierOp(PIPE_ALL, 0);
  core->queues.clear();
  core->allocated.fill(0);
}

View QueueAlloc(int32_t number, Type type, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return Nothing(type);
  Queue* queue = QueueOf(core, number, "AllocTensor", line);
  if (queue == nullptr) return Nothing(type);
  const Pipes pipes = PipesOf(queue->position, core->soc->arch == 2002);
  // The buffer that has been free for longest: double buffering turns by itself.
  size_t best = queue->slots.size();
  for (size_t i = 0; i < queue->slots.size(); ++i) {
    if (queue->slots[i].state != QueueSlot::State::kFree) continue;
    if (best == queue->slots.size() || queue->slots[i].set_instr < queue->slots[best].set_instr) {
      best = i;
    }
  }
  if (best == queue->slots.size()) {
    core->Error(ErrorKind::kQueueProtocol,
                "AllocTensor (line %d): all %zu buffers of the queue of line %d are in use", line,
                queue->slots.size(), queue->line);
    return Nothing(type);
  }
  QueueSlot& slot = queue->slots[best];
  slot.state = QueueSlot::State::kAllocated;
  TakeOver(core, pipes.producer, "AllocTensor", line, slot);
  return ViewOf(*queue, number, best, type);
}

void QueueEnQue(int32_t number, const View& tensor, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Queue* queue = QueueOf(core, number, "EnQue", line);
  if (queue == nullptr) return;
  size_t index = 0;
  QueueSlot* slot = SlotOf(queue, tensor, &index);
  if (slot == nullptr || slot->state != QueueSlot::State::kAllocated) {
    core->Error(ErrorKind::kQueueProtocol,
                "EnQue (line %d): the tensor is not one that this queue has allocated", line);
    return;
  }
  slot->state = QueueSlot::State::kQueued;
  queue->order.push_back(static_cast<int32_t>(index));
  HandOver(core, PipesOf(queue->position, core->soc->arch == 2002).producer, "EnQue", line, slot);
}

View QueueDeQue(int32_t number, Type type, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return Nothing(type);
  Queue* queue = QueueOf(core, number, "DeQue", line);
  if (queue == nullptr) return Nothing(type);
  if (queue->order.empty()) {
    core->Error(ErrorKind::kQueueProtocol, "DeQue (line %d): the queue of line %d is empty", line,
                queue->line);
    return Nothing(type);
  }
  const size_t index = static_cast<size_t>(queue->order.front());
  queue->order.erase(queue->order.begin());
  QueueSlot& slot = queue->slots[index];
  slot.state = QueueSlot::State::kTaken;
  TakeOver(core, PipesOf(queue->position, core->soc->arch == 2002).consumer, "DeQue", line, slot);
  return ViewOf(*queue, number, index, type);
}

void QueueFree(int32_t number, const View& tensor, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return;
  Queue* queue = QueueOf(core, number, "FreeTensor", line);
  if (queue == nullptr) return;
  size_t index = 0;
  QueueSlot* slot = SlotOf(queue, tensor, &index);
  if (slot == nullptr ||
      (slot->state != QueueSlot::State::kTaken && slot->state != QueueSlot::State::kAllocated)) {
    core->Error(ErrorKind::kQueueProtocol,
                "FreeTensor (line %d): the tensor is not taken from this queue", line);
    return;
  }
  const Pipes pipes = PipesOf(queue->position, core->soc->arch == 2002);
  const bool taken = slot->state == QueueSlot::State::kTaken;
  slot->state = QueueSlot::State::kFree;
  HandOver(core, taken ? pipes.consumer : pipes.producer, "FreeTensor", line, slot);
}

View BufferGet(int32_t number, Type type, int64_t elements, int line) {
  Core* core = CurrentCore();
  if (core == nullptr) return Nothing(type);
  Queue* queue = QueueOf(core, number, "TBuf::Get", line);
  if (queue == nullptr) return Nothing(type);
  View view = ViewOf(*queue, number, 0, type);
  if (elements > 0) view.bytes = elements * TypeBytes(type);
  if (view.bytes > queue->bytes) {
    core->Error(ErrorKind::kOutOfBounds, "TBuf::Get (line %d): %lld bytes of a buffer of %lld",
                line, static_cast<long long>(view.bytes), static_cast<long long>(queue->bytes));
    return Nothing(type);
  }
  return view;
}

}  // namespace lorica::ascend
