# SPDX-License-Identifier: Apache-2.0
"""The blocks of a group, with parameters or without."""

from blocks import Block
from classed import ClassedBlock
from group import Group


def read_group(parameters, coded_blocks, shape, what):
    """One Block or ClassedBlock for each of coded_blocks, None for one without changes."""
    group = Group(parameters, shape, f"{what}: group at block {shape.first_block}") if parameters else None
    blocks = []
    for place, (coded, count) in enumerate(zip(coded_blocks, shape.counts)):
        name = f"{what}: block {shape.first_block + place}"
        if group and group.counts[place] is not None:
            blocks.append(ClassedBlock(coded, group, place, name))
        else:
            blocks.append(Block(coded, count, shape.width, name) if coded else None)
    return blocks
