"""A CPU that behaves like a device with streams and a caching allocator, for tests without such a device.

It is a stand-in, and named so: operators are queued on the current stream of ``torch.cpu`` and run when
something waits for them, in any order that the streams' own waits allow; what an operator returns is garbage
until then. Memory is counted as the caching allocators of CUDA and XPU count it. The code runs in the target,
after torch was imported, and changes the suite's description of the CPU to match.
"""

CODE = """\
import sys
import time
import weakref

from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

M = torch.cpu
TOTAL = 1 << 34


class Stream:
    def __init__(self, device=None, priority=0):
        self.priority, self.waiting, self.done = priority, [], 0

    def put(self, work):
        def unqueued():
            with _disable_current_modes():
                work()
        self.waiting.append(unqueued)

    def drain(self, upto=None):
        upto = self.done + len(self.waiting) if upto is None else upto
        while self.waiting and self.done < upto:
            work = self.waiting.pop(0)
            work()
            self.done += 1

    def query(self):
        return not self.waiting

    def synchronize(self):
        self.drain()

    def wait_event(self, event):
        self.put(event.synchronize)

    def wait_stream(self, other):
        self.put(lambda upto=other.done + len(other.waiting): other.drain(upto))


class Event:
    def __init__(self, enable_timing=False):
        self.stream, self.upto, self.time = None, 0, None

    def mark(self):
        self.time = time.perf_counter()

    def record(self, stream=None):
        self.stream = stream or State.current
        idle = self.stream.query()
        self.stream.put(self.mark)
        self.upto = self.stream.done + len(self.stream.waiting)
        if idle:
            self.stream.drain()

    def query(self):
        return self.stream is None or self.stream.done >= self.upto

    def synchronize(self):
        if self.stream is not None:
            self.stream.drain(self.upto)

    def wait(self, stream=None):
        (stream or State.current).wait_event(self)

    def elapsed_time(self, other):
        return (other.time - self.time) * 1000


class StreamContext:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before, State.current = State.current, self.stream

    def __exit__(self, *_):
        State.current = self.before


class State:
    default = current = Stream()
    streams = weakref.WeakSet()
    allocated = reserved = peak = 0
    limit = TOTAL


def released(size):
    State.allocated -= size


def count(tensor):
    size = -(-tensor.untyped_storage().nbytes() // 512) * 512
    State.allocated += size
    State.reserved = max(State.reserved, State.allocated)
    State.peak = max(State.peak, State.allocated)
    weakref.finalize(tensor, released, size)


def fits(size):
    if State.allocated + size > State.limit:
        raise torch.OutOfMemoryError(f"simulated device out of memory: {size} bytes were asked for")


HOST = ("_local_scalar_dense", "equal", "is_nonzero", "_pin_memory", "is_pinned")
FRESH = ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")


class Queue(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, schema = function._schema.name.partition("::")[2], function._schema
        aliases = [out.alias_info for out in schema.returns]
        if any(alias is not None and not alias.is_write for alias in aliases):
            return function(*args, **kwargs)
        if name in HOST:
            State.current.drain()
            return function(*args, **kwargs)
        if schema.is_mutable:
            if len(aliases) == 1 and aliases[0] is not None:
                State.current.put(lambda: function(*args, **kwargs))
                return kwargs.get("out", args[0])
            State.current.drain()
            return function(*args, **kwargs)
        return self.make(function, name, args, kwargs)

    def make(self, function, name, args, kwargs):
        meta = lambda x: x.to("meta") if isinstance(x, torch.Tensor) else x
        there = {**kwargs, "device": "meta"} if "device" in kwargs else kwargs
        if name in FRESH:
            shape = function(*tree_map(meta, args), **tree_map(meta, there))
            fits(shape.untyped_storage().nbytes())
            result = function(*args, **kwargs)
            count(result)
            return result
        try:
            shape = function(*tree_map(meta, args), **tree_map(meta, there))
            single = isinstance(shape, torch.Tensor) and shape.device.type == "meta"
        except Exception:
            single = False
        if not single or kwargs.get("generator") is not None:
            State.current.drain()
            result = function(*args, **kwargs)
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    count(leaf)
            return result
        fits(shape.untyped_storage().nbytes())
        result = torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype)
        result.fill_(3.4e38) if shape.dtype == torch.float32 and result.dim() else None
        count(result)
        State.current.put(lambda target=result.detach(): target.copy_(function(*args, **kwargs)))
        return result


def everything():
    for stream in list(State.streams):
        stream.drain()


begin = Stream.__init__
def remembered(self, *a, **k):
    begin(self, *a, **k)
    State.streams.add(self)
Stream.__init__ = remembered
State.streams.add(State.default)

def first(name):
    real = getattr(torch.Tensor, name)
    def call(self, *a, **k):
        State.current.drain()
        return real(self, *a, **k)
    setattr(torch.Tensor, name, call)

for name in ("tolist", "cpu", "item", "unique", "pin_memory"):
    first(name)

M.Stream, M.Event, M.stream, M.StreamContext = Stream, Event, StreamContext, StreamContext
M.current_stream = lambda device=None: State.current
M.synchronize = lambda device=None: everything()
M.memory_allocated = lambda device=None: State.allocated
M.memory_reserved = lambda device=None: State.reserved
M.max_memory_allocated = lambda device=None: State.peak
M.reset_peak_memory_stats = lambda device=None: setattr(State, "peak", State.allocated)
M.empty_cache = lambda: setattr(State, "reserved", State.allocated)
M.set_per_process_memory_fraction = lambda share, device=None: setattr(State, "limit", int(share * TOTAL))
class Properties:
    name, total_memory = "simulated", TOTAL

M.get_device_properties = lambda device=None: Properties
torch.Tensor.pin_memory = lambda self, device=None: self.clone()
torch.Tensor.is_pinned = lambda self, device=None: True
torch.Tensor.record_stream = lambda self, stream: None

for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("xpubuild_verify_suite"):
        if module.__name__.endswith(".backends"):
            for field in ("streams", "allocator_statistics", "pinned"):
                object.__setattr__(module.BACKENDS["cpu"], field, True)
        if module.__name__.endswith(".runtime"):
            module._SIDE = 128
queue = Queue()
queue.__enter__()
"""
