from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.learning.trees import CPU_COSTS, Costs, ancestors_in_span, build_blocks, build_packs, shared_length

ids = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)  # few tokens: much is shared
some_sequences = st.lists(ids, min_size=1, max_size=14)
some_costs = st.sampled_from([CPU_COSTS, Costs(call=0, key=0), Costs(call=40, key=1), Costs(call=5, key=50)])


@given(one=ids, other=ids)
def test_the_shared_length_is_that_of_the_common_beginning(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    counted = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    assert shared_length(one, other) == counted


@given(sequences=some_sequences, max_tokens=st.integers(1, 40))
@settings(deadline=None)
def test_the_path_of_a_sequence_spells_it_at_its_depths(sequences: list[tuple[int, ...]], max_tokens: int) -> None:
    packs = build_packs(sequences, max_tokens=max_tokens)
    assert sorted(member for pack in packs for member in pack.members) == list(range(len(sequences)))
    for pack in packs:
        assert len(pack.ids) <= max_tokens or len(pack.segments) == 1
        for member, segment in zip(pack.members, pack.segments, strict=True):
            assert tuple(pack.ids[position] for position in segment.path) == sequences[member]
            assert [pack.depths[position] for position in segment.path] == list(range(len(sequences[member])))


@given(sequences=some_sequences)
@settings(deadline=None)
def test_a_pack_holds_every_beginning_once(sequences: list[tuple[int, ...]]) -> None:
    (pack,) = build_packs(sequences, max_tokens=1000)
    beginnings = {sequence[:end] for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert len(pack.ids) == len(beginnings)


@given(sequences=some_sequences, costs=some_costs)
@settings(deadline=None)
def test_every_position_is_asked_once_and_sees_its_ancestors_and_itself(sequences: list[tuple[int, ...]], costs: Costs) -> None:
    (pack,) = build_packs(sequences, max_tokens=1000)
    seen: dict[int, list[int]] = {}
    for span in (span for block in build_blocks(pack, costs=costs) for span in block):
        for segment in span.segments:
            outside, within = ancestors_in_span(segment, span)
            before = [*span.before[:outside], *(span.start + position for position in within)]
            for position in range(segment.start, segment.end):
                assert position not in seen
                seen[position] = [*before, *range(segment.start, position + 1)]
    expected = {
        segment.path[depth]: segment.path[: depth + 1] for segment in pack.segments for depth in range(len(segment.path))
    }
    assert seen == expected


def test_siblings_of_similar_size_share_a_block() -> None:
    sequences = [(*range(100), *range(200 + 50 * sibling, 240 + 50 * sibling)) for sibling in range(8)]
    (pack,) = build_packs(sequences, max_tokens=10_000)
    sizes = [len(block) for block in build_blocks(pack, costs=Costs(call=3_000, key=0))]
    assert len(sizes) < len(sequences)
    assert all(first.end == second.start for first, second in pairwise(pack.segments))
