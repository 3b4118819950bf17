"""Which errors mean that memory ran out, in any build of torch and Warp; counts in words."""

import pytest

from pureward.errors import RoomError, counted, lacks_memory

SAID = [
    # torch on a host: most Linux builds, others, and one that says neither
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12 (x)",
    "DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.",
    "SomeAllocator: you tried to allocate 9 bytes.",
    # torch on a GPU, and the libraries that it calls
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 10.00 GiB",
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    # Warp
    "Failed to allocate 9 bytes on device 'cuda:0'",
]


@pytest.mark.parametrize("said", SAID)
def test_want_of_memory_is_seen_in_the_words_of_every_build(said):
    assert lacks_memory(RuntimeError(said))


@pytest.mark.parametrize("error", [MemoryError(), RoomError("a replay needs 7 GB")])
def test_want_of_memory_is_seen_by_its_type(error):
    assert lacks_memory(error)


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes differ"), ValueError("not enough memory"), KeyError("memory")]
)
def test_other_errors_are_not_taken_for_it(error):
    assert not lacks_memory(error)


def test_one_is_singular():
    assert counted(1, "episode") == "1 episode"
    assert counted(2000, "episode") == "2,000 episodes"
    assert [counted(n, "copy", "copies") for n in (0, 1)] == ["0 copies", "1 copy"]
