# SPDX-License-Identifier: Apache-2.0
"""Where the blocks of each tensor lie: "The block index" of wdelta-delta(5)."""

from collections import namedtuple

from blocks import read_varint
from elements import BLOCK_ELEMENTS, width_of
from group import Referable, Shape, row_length, strip_counts
from read_group import read_group
from refusal import Refused, require

TENSOR, BUNDLE = 1, 2  # encodings
MOST_IN_BATCH = 64
LARGEST_STRIP = 5  # its logarithm

# What is said of a group with parameters: of how many blocks a strip is, of how many strips a batch, and which group
# before it its reference is, 0 for none; and whether it skips rows.
Coding = namedtuple("Coding", "strip batch back skips")


class Index:
    """Reads the index of a delta, entry by entry in their order."""

    def __init__(self, content, tensors, names_limit, what):
        """tensors: those of the result by name. names_limit: of the bytes of all names in bundles."""
        self._names_left = names_limit
        self._content, self._tensors, self._what, self._at = content, tensors, what, 0
        self._rest = b""  # of the entry, behind the blocks that were read
        self._done = set()  # the tensors that have a place
        self.groups = []  # a Coding for each that has parameters
        self._referable = []  # the groups that those to come may refer to

    def read(self, name, entry):
        """For each tensor of an entry, by name, how many elements each strip has and how it is coded, None for one
        without changes."""
        require(self._at < len(self._content), f"{self._what}: {name}: the index is cut")
        encoding = self._content[self._at]
        self._at += 1
        require(encoding in (TENSOR, BUNDLE), f"{self._what}: {name}: unknown encoding {encoding}")
        self._rest, strips = entry, {}
        for one in [name] if encoding == TENSOR else self._names(f"{self._what}: {name}"):
            what = f"{self._what}: {one}"
            require(one in self._tensors, f"{what}: no such tensor in the result")
            require(one not in self._done, f"{what}: a tensor in two places")
            self._done.add(one)
            strips[one] = self._strips(self._tensors[one], what)
        require(not self._rest, f"{self._what}: {name}: blocks are shorter than the entry")
        return strips

    def finish(self):
        require(self._at == len(self._content), f"{self._what}: bytes behind the index")

    def _varint(self, what):
        number, self._at = read_varint(self._content, self._at, what)
        return number

    def _taken(self, length, what):
        require(length <= len(self._rest), f"{what}: blocks are longer than the entry")
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    def _names(self, what):
        """The names of the tensors in a bundle, each in front of what is told of it."""
        count, before = self._varint(what), b""
        require(count >= 1, f"{what}: a bundle of no tensors")
        for _ in range(count):
            shared, more = self._varint(what), self._varint(what)
            require(shared <= len(before), f"{what}: a name begins with more than the one before it has")
            require(more <= len(self._content) - self._at, f"{what}: a name is cut")
            self._names_left -= shared + more
            require(self._names_left >= 0, f"{what}: too many names")
            before = before[:shared] + bytes(self._content[self._at:self._at + more])
            self._at += more
            try:
                yield before.decode()
            except UnicodeDecodeError as error:
                raise Refused(f"{what}: a name that is no UTF-8") from error

    def _strips(self, tensor, what):
        number = self._varint(what)
        elements = (tensor.end - tensor.begin) // width_of(tensor.dtype)
        require(number == -(-elements // BLOCK_ELEMENTS), f"{what}: {number} blocks for {elements} elements")
        counts = [min(BLOCK_ELEMENTS, elements - block * BLOCK_ELEMENTS) for block in range(number)]
        strips, first = [], 0
        while first < number:
            size = self._varint(what)
            require(1 <= size <= number - first, f"{what}: a group of {size} blocks")
            strips += self._group(tensor, first, counts[first:first + size], what)
            first += size
        return strips

    def _group(self, tensor, first, counts, what):
        """The strips of a group, from its block with the number first on."""
        parameter_length, strip, batch, back = self._varint(what), 1, 1, 0
        if parameter_length:
            told = self._varint(what)
            require(told & 7 <= LARGEST_STRIP, f"{what}: a strip of 2^{told & 7} blocks")
            strip, back = 1 << (told & 7), told >> 3
            require(back <= len(self._referable), f"{what}: a group refers to the one {back} before it, of "
                                                  f"{len(self._referable)}")
        strip_elements = strip_counts(first, counts, strip)
        if parameter_length and len(strip_elements) > 1:
            batch = self._varint(what)
            require(1 <= batch <= MOST_IN_BATCH, f"{what}: batches of {batch} strips")
        lengths = [self._varint(what) for _ in range(0, len(strip_elements), batch)]
        shape = Shape(width_of(tensor.dtype), row_length(tensor.shape), first, strip_elements, strip)
        parameters = self._taken(parameter_length, what)
        coded = [self._taken(length, what) for length in lengths]
        strips = read_group(parameters, coded, shape, what, batch, self._referable[-back] if back else None)
        if parameters:
            self.groups.append(Coding(strip, batch, back, bool(parameters[0] & 4)))
            if not back:
                self._referable.append(Referable(parameters, shape, f"{what}: group at block {first}"))
        return list(zip(strip_elements, strips))
