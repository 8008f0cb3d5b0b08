# SPDX-License-Identifier: Apache-2.0
"""A reader of whole repositories, written from wdelta-repository(5) alone: it checks all that the page says and
rebuilds files by every recipe there is. What recipes refer to on the Hub it is given."""

import base64
import binascii
import hashlib
import os
import re
from collections import namedtuple
from pathlib import Path

import contested
from blake3 import blake3
from delta import Delta, Named, check_content, check_path, check_seal
from refusal import is_count, require, require_bounded, strict_json

INLINE_FILE, INLINE_TOTAL = 64 << 10, 256 << 10
PACKED = 1 << 20
NEAREST = 64  # ancestors in a row

Recipe = namedtuple("Recipe", "digest size object offset length base")  # base is None for bytes as they are
Reference = namedtuple("Reference", "digest size model commit path etag base", defaults=(None,))
Commit = namedtuple("Commit", "id parent step message meta files recipes ancestors")
File = namedtuple("File", "path size digest executable content")  # content is None unless the manifest has it


def is_digest(text):
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None


def is_time(text):
    return isinstance(text, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text) is not None


def is_name(text):
    part = "[A-Za-z0-9_][A-Za-z0-9_.-]*"
    return (re.fullmatch(f"{part}(/{part})*", text) is not None and len(text) <= 200 and not is_digest(text) and
            not any(re.fullmatch("[0-9]{16}", each) for each in text.split("/")))


def is_strings(value):
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


class Repository:
    """A repository in a directory. models: the bytes of files on the Hub by (model, commit, path)."""

    def __init__(self, root, models=None):
        self.root, self.models = Path(root), models or {}
        top = self._sealed("wdelta.json", "wdelta-repository")
        require(re.fullmatch("[0-9a-f]{32}", str(top.get("id"))), "wdelta.json: bad id")
        branches = top.get("branches", "exclusive")
        require(branches in ("exclusive", "contested"), "wdelta.json: branches are moved in a way that is not known")
        self.tick_ms = top.get("tick_ms") if branches == "contested" else None
        if branches == "contested":
            require(all(is_count(top.get(name)) and 1 <= top[name] <= 600000 for name in ("settle_ms", "tick_ms")),
                    "wdelta.json: bad times")
        self.objects, self.made, self.recipes = {}, {}, {}

    def _read(self, key):
        require((self.root / key).is_file(), f"{key}: is not there")
        return (self.root / key).read_bytes()

    def _document(self, key, kind, newest=1):
        document = strict_json(self._read(key), dict, key, bounded=kind != "wdelta-recipes")
        require(document.get("format") == kind, f"{key}: is no {kind}")
        require(is_count(document.get("version")) and 1 <= document["version"] <= newest, f"{key}: of another version")
        return document

    def _sealed(self, key, kind, newest=1):
        document, text = self._document(key, kind, newest), self._read(key)
        require(re.search(rb',"digest":"[0-9a-f]{64}"}\n\Z', text), f"{key}: does not end in its digest")
        check_seal(text, document.get("digest"), key)
        return document

    def keys(self, under):
        """All keys below a prefix, sorted."""
        found = []
        for folder, _, files in os.walk(self.root / under):
            found += [str(Path(folder, name).relative_to(self.root)) for name in files]
        return sorted(found)

    def names(self, kind):
        """What each of the "branches" or "tags" stands for: the commits of its entries that count, oldest first, and
        None for each time that it was deleted."""
        if self.tick_ms is not None:
            entries = self._contested(kind)
            return {name: [entry.commit for entry in contested.line(entries[name], self.tick_ms)] for name in entries}
        entries = {}
        for name, number, entry, key in self._entries(kind):
            require(re.fullmatch("[0-9]{16}", number), f"{key}: is no key of an entry")
            entries.setdefault(name, []).append(entry["commit"])
            require(int(number) == len(entries[name]), f"{key}: the numbers have a gap before it")
        return entries

    def tips(self, kind):
        """Where each of them stands that is there."""
        return {name: commits[-1] for name, commits in self.names(kind).items() if commits and commits[-1] is not None}

    def forks(self, kind):
        """The commits by name that entries name which neither count nor were withdrawn, and no entry that counts."""
        named = {commit for each in ("branches", "tags") for commits in self.names(each).values() for commit in commits}
        return {name: {entry.commit for entry in contested.left(entries, self.tick_ms)} - named - {None}
                for name, entries in self._contested(kind).items()}

    def _contested(self, kind):
        entries = {}
        for name, last, entry, key in self._entries(kind):
            written_ms = (self.root / key).stat().st_mtime_ns // 10**6  # in a directory, the store's time is that of files
            entries.setdefault(name, []).append(contested.entry_of(last, entry, written_ms))
        return entries

    def _entries(self, kind):
        """All entries of branches or tags: name, last part of the key, document, key."""
        for key in self.keys(kind):
            name, last = key.removeprefix(kind + "/").rsplit("/", 1)
            require(is_name(name), f"{key}: is no key of an entry")
            entry = self._sealed(key, "wdelta-entry", newest=2)
            is_deletion = entry["version"] == 2 and "commit" in entry and entry["commit"] is None
            require((is_deletion or is_digest(entry.get("commit"))) and is_time(entry.get("time")) and
                    re.fullmatch("[0-9a-f]{32}", str(entry.get("write"))), f"{key}: bad entry")
            yield name, last, entry, key

    def commits(self):
        return [key.removeprefix("commits/").removesuffix(".json") for key in self.keys("commits")]

    def commit(self, commit_id):
        key = f"commits/{commit_id}.json"
        require(blake3(self._read(key)) == commit_id, f"{key}: does not have its digest")
        document = self._document(key, "wdelta-commit")
        require(document["parent"] is None or is_digest(document["parent"]), f"{key}: bad parent")
        require(is_time(document["time"]) and isinstance(document["author"], str) and
                isinstance(document["message"], str), f"{key}: bad strings")
        require(document["step"] is None or is_count(document["step"]), f"{key}: bad step")
        require(is_strings(document["meta"]) and is_digest(document["recipes"]), f"{key}: bad meta or recipes")
        files = [_file(value, key) for value in document["files"]]
        paths = [file.path.encode() for file in files]
        require(paths == sorted(set(paths)), f"{key}: files are out of order or twice there")
        for path in paths:
            parts = path.split(b"/")
            require(not any(b"/".join(parts[:end]) in paths for end in range(1, len(parts))), f"{key}: file in a file")
        inlined = [file.size for file in files if file.content is not None]
        require(max(inlined, default=0) <= INLINE_FILE and sum(inlined) <= INLINE_TOTAL, f"{key}: too much inlined")
        ancestors = [_ancestor(value, key) for value in document["ancestors"]]
        _check_distances([distance for distance, _ in ancestors], key)
        require((ancestors[0][1] if ancestors else None) == document["parent"], f"{key}: the parent is no ancestor")
        return Commit(commit_id, document["parent"], document["step"], document["message"], document["meta"], files,
                      document["recipes"], ancestors)

    def books(self, commit):
        """The recipes of all books of a commit, one list for each."""
        books = {}
        for key in self.keys(f"recipes/{commit.id}"):
            digest = Path(key).stem
            require(key == f"recipes/{commit.id}/{digest}.json" and blake3(self._read(key)) == digest,
                    f"{key}: does not have its digest")
            document = self._document(key, "wdelta-recipes", newest=2)
            for each in [*document["recipes"], *(document[name] for name in document.keys() - {"recipes"})]:
                require_bounded(each, key)
            books[digest] = [_recipe(value, document["version"], key) for value in document["recipes"]]
        require(commit.recipes in books, f"{commit.id}: the book that was written with it is not there")
        return books

    def _object(self, name):
        if name not in self.objects:
            key = f"objects/{name[:2]}/{name}"
            self.objects[name] = self._read(key)
            require(blake3(self.objects[name]) == name.removesuffix(".safetensors"), f"{key}: does not have its digest")
        return self.objects[name]

    def stored(self, recipe):
        """The bytes that a recipe names."""
        stored = self._object(recipe.object)[recipe.offset:recipe.offset + recipe.length]
        require(len(stored) == recipe.length, f"{recipe.object}: is too short for a recipe")
        return stored

    def _referred(self, recipe):
        place = recipe.model, recipe.commit, recipe.path
        require(place in self.models, f"{place}: is not there")
        content = self.models[place]
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content)
        hashed = hashlib.sha256(content) if len(recipe.etag) == 64 else blob
        require(hashed.hexdigest() == recipe.etag, f"{place}: is another file")
        return content

    def delta(self, recipe):
        """The delta that a recipe with a base is."""
        return Delta(self.stored(recipe), recipe.object)

    def _by(self, recipe):
        """What one recipe makes, or None when that takes something that is not known yet."""
        if any(base not in self.made for base in recipe.base or []):
            return None
        if isinstance(recipe, Reference):
            content = self._referred(recipe)
        elif recipe.base is None:
            content = self.stored(recipe)
        else:
            delta = self.delta(recipe)
            require(tuple(base.digest for base in delta.base) == recipe.base,
                    f"{recipe.object}: applies to another base")
            require((delta.result.size, delta.result.digest) == (recipe.size, recipe.digest),
                    f"{recipe.object}: makes another file than its recipe says")
            content = delta.apply([self.made[base] for base in recipe.base]).content
        check_content(content, Named("", recipe.size, recipe.digest), str(recipe))
        return content

    def make_all(self, recipes):
        """Follows every recipe, those of one digest too that could be had otherwise. Returns the digests it made."""
        left = set(recipes)
        while left:
            done = set()
            for recipe in left:
                content = self.recipes.get(recipe) or self._by(recipe)
                if content is not None:
                    self.made[recipe.digest] = self.recipes[recipe] = content
                    done.add(recipe)
            require(done, f"no way to make {sorted(recipe.digest for recipe in left)}")
            left -= done
        return {recipe.digest for recipe in recipes}

    def checkpoint(self, commit):
        """The files of a commit by path, as contents and whether they are executable."""
        books = self.books(commit)
        # The book that was written with a commit holds all that it needs.
        made = self.make_all(books[commit.recipes])
        for book in books.values():
            self.make_all(book + books[commit.recipes])
        found = {}
        for file in commit.files:
            content = file.content
            if content is not None:
                check_content(content, Named(file.path, file.size, file.digest), f"{commit.id}: {file.path}")
            else:
                require(file.digest in made, f"{commit.id}: no recipe for {file.path}")
                content = self.made[file.digest]
                require(len(content) == file.size, f"{commit.id}: {file.path} has another size")
            found[file.path] = content, file.executable
        return found

    def check_objects(self):
        """Of objects that are there, what has been read and how: no bytes that nobody asks for."""
        used = {}
        for recipe in self.recipes:
            if isinstance(recipe, Recipe):
                used.setdefault(recipe.object, set()).add((recipe.offset, recipe.length))
        for key in self.keys("objects"):
            name = Path(key).name
            require(key == f"objects/{name[:2]}/{name}" and name in used, f"{key}: nothing names it")
            at = 0
            for offset, length in sorted(used[name]):
                require(offset == at, f"{key}: bytes at {at} that nothing names")
                at += length
                require(len(used[name]) == 1 or length <= PACKED, f"{key}: a long file in a pack")
            require(at == len(self.objects[name]), f"{key}: bytes at {at} that nothing names")
        require(not self.keys("staging"), "staging/ holds files, and no writer is at work")


def _file(value, key):
    require(isinstance(value, dict) and is_count(value.get("size")) and is_digest(value.get("digest")) and
            isinstance(value.get("executable"), bool), f"{key}: bad description of a file")
    check_path(value.get("path"), key)
    content = None
    require(not ("text" in value and "base64" in value), f"{key}: {value['path']} has its content twice")
    if "text" in value:
        content = value["text"].encode()
    elif "base64" in value:
        try:
            content = base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            require(False, f"{key}: {value['path']}: {error}")
    return File(value["path"], value["size"], value["digest"], value["executable"], content)


def _ancestor(value, key):
    require(isinstance(value, dict) and is_count(value.get("distance")) and is_digest(value.get("id")) and
            is_time(value.get("time")) and (value.get("step") is None or is_count(value["step"])) and
            isinstance(value.get("message"), str) and "\n" not in value["message"] and
            len(value["message"].encode()) <= 200, f"{key}: bad summary of an ancestor")
    return value["distance"], value["id"]


def _check_distances(distances, key):
    row = min(len(distances), NEAREST)
    require(distances[:row] == list(range(1, row + 1)), f"{key}: nearest ancestors are not in a row")
    stretches = [distance.bit_length() for distance in distances[row:]]
    require(all(distance > NEAREST for distance in distances[row:]) and stretches == sorted(set(stretches)),
            f"{key}: two ancestors in one stretch")


def _reference(value, key):
    require(is_digest(value.get("digest")) and is_count(value.get("size")) and "object" not in value and
            "base" not in value, f"{key}: bad reference")
    name = "[A-Za-z0-9._-]+"
    require(re.fullmatch(f"{name}/{name}", str(value["model"])) is not None, f"{key}: bad model")
    require(re.fullmatch("[0-9a-f]{40}", str(value.get("commit"))) is not None, f"{key}: bad commit of a model")
    require(re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", str(value.get("etag"))) is not None, f"{key}: bad etag")
    check_path(value.get("path"), key)
    return Reference(*(value[name] for name in ("digest", "size", "model", "commit", "path", "etag")))


def _recipe(value, version, key):
    if version >= 2 and isinstance(value, dict) and "model" in value:
        return _reference(value, key)
    require(isinstance(value, dict) and is_digest(value.get("digest")) and is_count(value.get("size")) and
            isinstance(value.get("object"), str) and is_digest(value["object"].removesuffix(".safetensors")) and
            is_count(value.get("offset")) and is_count(value.get("length")), f"{key}: bad recipe")
    base = value.get("base")
    if "base" in value:
        require(isinstance(base, list) and all(map(is_digest, base)), f"{key}: bad base")
        base = tuple(base)
    else:
        require(value["length"] == value["size"], f"{key}: a file as it is, and of another size")
    return Recipe(value["digest"], value["size"], value["object"], value["offset"], value["length"], base)
