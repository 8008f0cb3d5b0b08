# SPDX-License-Identifier: Apache-2.0
"""The blocks of a group, with parameters or without."""

from blocks import Block
from classed import CLASSED, ClassedBlock
from group import Group
from refusal import require


def read_group(parameters, coded_blocks, shape, what):
    """One Block or ClassedBlock for each of coded_blocks, None for one without changes."""
    group = Group(parameters, shape, f"{what}: group at block {shape.first_block}") if parameters else None
    blocks = []
    for place, (coded, count) in enumerate(zip(coded_blocks, shape.counts)):
        name = f"{what}: block {shape.first_block + place}"
        classed = bool(coded) and coded[0] & 15 == CLASSED
        if group:
            require(classed == (group.counts[place] is not None), f"{name}: mode is not what the group says")
        if classed and group:
            blocks.append(ClassedBlock(coded, group, place, name))
        else:
            blocks.append(Block(coded, count, shape.width, name) if coded else None)
    return blocks
