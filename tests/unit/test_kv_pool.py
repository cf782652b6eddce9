"""The memory of keys and values."""

import numpy as np
import pytest

from llm_engine.backends.kv_pool import KvPool


def filled(*, blocks: int, block_shape: tuple[int, int, int]) -> KvPool:
    pool = KvPool(caches=3, shape=(blocks, *block_shape))
    for cache in pool.caches:
        cache[:] = np.arange(1, blocks + 1)[:, None, None, None]
    return pool


def test_caches_begin_as_zeros_and_share_nothing() -> None:
    pool = KvPool(caches=2, shape=(5, 1, 32, 32))
    keys, values = pool.caches
    assert not keys.any()
    keys[:] = 1
    assert not values.any()


@pytest.mark.parametrize("unused", [[1], [0, 1, 2], [5, 2, 7], [7, 6, 7], list(range(8)), []])
def test_blocks_given_back_are_zeros_and_the_others_as_before(unused: list[int]) -> None:
    pool = filled(blocks=8, block_shape=(2, 32, 64))  # 16 KiB a block
    pool.give_back(unused)
    for cache in pool.caches:
        for block in range(8):
            np.testing.assert_array_equal(cache[block], 0 if block in unused else block + 1)


@pytest.mark.parametrize("unused", [[1], [0, 1, 2], [3, 4, 5, 6, 7, 8, 9], [39]])
def test_blocks_smaller_than_a_page_leave_their_neighbours_alone(unused: list[int]) -> None:
    pool = filled(blocks=40, block_shape=(1, 32, 8))  # 1 KiB
    pool.give_back(unused)
    for cache in pool.caches:
        for block in set(range(40)) - set(unused):
            np.testing.assert_array_equal(cache[block], block + 1)


def test_a_block_given_back_can_be_used_again() -> None:
    pool = filled(blocks=4, block_shape=(2, 32, 64))
    pool.give_back([2])
    pool.caches[1][2] = 9
    assert (pool.caches[1][2] == 9).all()
