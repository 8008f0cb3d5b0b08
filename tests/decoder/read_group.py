# SPDX-License-Identifier: Apache-2.0
"""The strips of a group, with parameters or without."""

from afresh import AFRESH, AfreshBlock
from blocks import Block
from classed import Batch, ClassedStrip
from group import Group, block_at
from refusal import require


def read_group(parameters, coded_batches, shape, what, batch=1, reference=None):
    """One Block, AfreshBlock or ClassedStrip for each strip of the group, None for one without changes. batch: of how
    many strips each of coded_batches is; more than one only where there are parameters. reference: the Referable that
    the group refers to, where it does."""
    group = None
    if parameters:
        name = f"{what}: group at block {shape.first_block}"
        group = Group(parameters, shape, name, reference and reference.parameters(shape.width))
    strips = []
    for first, coded in zip(range(0, len(shape.counts), batch), coded_batches):
        name = f"{what}: block {block_at(shape, first)}"
        if batch > 1 or shape.strip > 1 or group and group.counts[first] is not None:
            places = range(first, min(first + batch, len(shape.counts)))
            strips += _batched(coded, group, places, what)
        elif coded and coded[0] & 15 == AFRESH:
            strips.append(AfreshBlock(coded, shape.counts[first], shape.width, name))
        else:
            strips.append(Block(coded, shape.counts[first], shape.width, name) if coded else None)
    return strips


def _batched(coded, group, places, what):
    """The strips of one batch; a classed block that is coded alone is one too."""
    classed = [place for place in places if group.counts[place] is not None]
    name = f"{what}: batch at block {block_at(group.shape, places[0])}"
    require(classed or not coded, f"{name}: {len(coded)} bytes without a classed strip")
    batch = Batch(coded, group, classed, name)
    return [ClassedStrip(batch, group, place, f"{what}: strip at block {block_at(group.shape, place)}")
            if place in classed else None for place in places]
