# SPDX-License-Identifier: Apache-2.0
"""The blocks of a group, with parameters or without."""

from afresh import AFRESH, AfreshBlock
from blocks import Block
from classed import ClassedBlock
from group import Group


def read_group(parameters, coded_blocks, shape, what, with_afresh=False):
    """One Block, ClassedBlock or (where the encoding has these) AfreshBlock for each of coded_blocks, None for one
    without changes."""
    group = Group(parameters, shape, f"{what}: group at block {shape.first_block}") if parameters else None
    blocks = []
    for place, (coded, count) in enumerate(zip(coded_blocks, shape.counts)):
        name = f"{what}: block {shape.first_block + place}"
        if group and group.counts[place] is not None:
            blocks.append(ClassedBlock(coded, group, place, name))
        elif coded and with_afresh and coded[0] & 15 == AFRESH:
            blocks.append(AfreshBlock(coded, count, shape.width, name))
        else:
            blocks.append(Block(coded, count, shape.width, name) if coded else None)
    return blocks
