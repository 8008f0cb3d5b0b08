# SPDX-License-Identifier: Apache-2.0
"""The blocks of a group, with parameters or without."""

from afresh import AFRESH, AfreshBlock
from blocks import Block
from classed import Batch, ClassedBlock
from group import Group
from refusal import require


def read_group(parameters, coded_batches, shape, what, with_afresh=False, batch=1):
    """One Block, ClassedBlock or (where the encoding has these) AfreshBlock for each block of the group, None for one
    without changes. batch: of how many blocks each of coded_batches is; more than one only where there are parameters.
    """
    group = Group(parameters, shape, f"{what}: group at block {shape.first_block}") if parameters else None
    blocks = []
    for first, coded in zip(range(0, len(shape.counts), batch), coded_batches):
        name = f"{what}: block {shape.first_block + first}"
        if batch > 1 or group and group.counts[first] is not None:
            places = range(first, min(first + batch, len(shape.counts)))
            blocks += _batched(coded, group, places, what)
        elif coded and with_afresh and coded[0] & 15 == AFRESH:
            blocks.append(AfreshBlock(coded, shape.counts[first], shape.width, name))
        else:
            blocks.append(Block(coded, shape.counts[first], shape.width, name) if coded else None)
    return blocks


def _batched(coded, group, places, what):
    """The blocks of one batch; a classed block that is coded alone is one too."""
    first_block = group.shape.first_block
    classed = [place for place in places if group.counts[place] is not None]
    name = f"{what}: batch at block {first_block + places[0]}"
    require(classed or not coded, f"{name}: {len(coded)} bytes without a classed block")
    batch = Batch(coded, group, classed, name)
    return [ClassedBlock(batch, group, place, f"{what}: block {first_block + place}") if place in classed else None
            for place in places]
