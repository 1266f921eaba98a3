"""Token sequences to packs in which every shared beginning stands once, and which positions look at which.

Sorted sequences that begin alike are neighbours. A pack is written sequence by sequence: of each, only what follows the
beginning that it shares with the one before. The result is the preorder of the sequences' prefix tree, its positions are depths
in that tree, and a position looks at its ancestors and at itself: what it would see were its sequence alone.

Attention is computed in blocks, not over the whole pack, whose square would cost more than sharing saves. A span is a run of
positions of the pack together with the ancestors it hangs on; a block is several spans of similar size, padded. Spans and
blocks are chosen to cost least, by `Costs`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

Ids = tuple[int, ...]

_WIDEST_SPAN = 32  # sequences that one span may hold; bounds the search


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What attention costs besides the pairs of query and key that it computes, in pairs."""

    call: int  # one call of the kernel, forward and backward
    key: int  # copying one key and value


CPU_COSTS = Costs(call=3_000, key=8)  # measured on one thread, 4 heads of 32; see docs/learning.md
GPU_COSTS = Costs(call=100_000, key=8)  # an estimate: kernels are wide there, and starting one is what takes time


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What one sequence adds to its pack."""

    start: int  # its positions in the pack: start .. end - 1, none where an earlier sequence begins with this one
    end: int
    path: list[int]  # positions of all tokens of the sequence; the last `end - start` are its own

    @property
    def num_shared(self) -> int:
        """Tokens that stood there before."""
        return len(self.path) - (self.end - self.start)


@dataclass(kw_only=True)
class Pack:
    """Several sequences, their shared beginnings once."""

    members: list[int] = field(default_factory=list)  # places among the sequences given, in the order of `segments`
    ids: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)  # place of each token in its sequence, from 0
    segments: list[Segment] = field(default_factory=list)

    def add(self, member: int, sequence: Ids, *, shared: int) -> None:
        """Write a sequence that begins with the first `shared` tokens of the one before."""
        start = len(self.ids)
        self.ids.extend(sequence[shared:])
        self.depths.extend(range(shared, len(sequence)))
        before = self.segments[-1].path[:shared] if shared else []
        self.segments.append(Segment(start=start, end=len(self.ids), path=[*before, *range(start, len(self.ids))]))
        self.members.append(member)


@dataclass(frozen=True, kw_only=True)
class Span:
    """Positions start .. end - 1 of a pack, and the earlier ones that they look at."""

    start: int
    end: int
    before: list[int]
    segments: list[Segment]  # whose own positions these are

    @property
    def num_queries(self) -> int:
        """Positions computed."""
        return self.end - self.start

    @property
    def num_keys(self) -> int:
        """Positions looked at."""
        return len(self.before) + self.num_queries

    @property
    def causal(self) -> bool:
        """Whether it is one sequence from its beginning, which needs no mask."""
        return not self.before and len(self.segments) == 1


def build_packs(sequences: Sequence[Ids], *, max_tokens: int) -> list[Pack]:
    """Packs that together hold every sequence once.

    Args:
        sequences: At least one token each.
        max_tokens: Positions per pack; a longer sequence gets a pack of its own.
    """
    packs: list[Pack] = []
    previous: Ids = ()
    for member in sorted(range(len(sequences)), key=lambda place: sequences[place]):
        sequence = sequences[member]
        shared = shared_length(previous, sequence) if packs else 0
        if not packs or len(packs[-1].ids) + len(sequence) - shared > max_tokens:
            packs.append(Pack())
            shared = 0
        packs[-1].add(member, sequence, shared=shared)
        previous = sequence
    return packs


def shared_length(one: Ids, other: Ids) -> int:
    """Tokens with which both begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # slices are compared faster than tokens
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def build_blocks(pack: Pack, *, costs: Costs) -> list[list[Span]]:
    """The blocks of a pack's attention; every position is a query of one span."""
    segments = [segment for segment in pack.segments if segment.end > segment.start]
    spans = sorted(_spans(segments, costs=costs), key=lambda span: (span.causal, span.num_queries, span.num_keys))
    blocks: list[list[Span]] = []
    for span in spans:
        if blocks and _fits(blocks[-1], span, costs=costs):
            blocks[-1].append(span)
        else:
            blocks.append([span])
    return blocks


def _spans(segments: Sequence[Segment], *, costs: Costs) -> list[Span]:
    """The cheapest cut of the segments into runs (dynamic programming over where the last run begins)."""
    best = [0.0]
    begins: list[int] = []
    for end in range(1, len(segments) + 1):
        options = [
            (best[begin] + _span_cost(segments[begin], segments[end - 1], single=end - begin == 1, costs=costs), begin)
            for begin in range(max(0, end - _WIDEST_SPAN), end)
        ]
        cost, begin = min(options)
        best.append(cost)
        begins.append(begin)
    spans: list[Span] = []
    end = len(segments)
    while end:
        begin = begins[end - 1]
        first, last = segments[begin], segments[end - 1]
        before = first.path[: first.num_shared]
        spans.append(Span(start=first.start, end=last.end, before=before, segments=list(segments[begin:end])))
        end = begin
    return spans


def _span_cost(first: Segment, last: Segment, *, single: bool, costs: Costs) -> float:
    queries = last.end - first.start
    keys = first.num_shared + queries
    pairs = queries * queries / 2 if single and not first.num_shared else queries * keys
    return pairs + costs.key * keys + costs.call / 8  # spans of similar size share a call


def _fits(block: Sequence[Span], span: Span, *, costs: Costs) -> bool:
    """Whether padding costs less than a call of its own. Spans come in ascending number of queries."""
    if block[0].causal is not span.causal:
        return False
    widest = max(span.num_keys, *(one.num_keys for one in block))
    before = len(block) * block[-1].num_queries * max(one.num_keys for one in block)
    return (len(block) + 1) * span.num_queries * widest <= before + span.num_queries * span.num_keys + costs.call


def ancestors_in_span(segment: Segment, span: Span) -> tuple[int, list[int]]:
    """Of the tokens before a segment: how many of `span.before`, from its first, and which positions of the span, from 0."""
    shared = segment.path[: segment.num_shared]
    outside = bisect_left(shared, span.start)
    return outside, [position - span.start for position in shared[outside:]]
