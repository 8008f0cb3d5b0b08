# SPDX-License-Identifier: Apache-2.0
"""libcurl, and all that it brings, and libcrypto are loaded when a network is asked for, and not before."""

import re
from pathlib import Path

import testing

# Refused as soon as libcurl has taken it apart.
NETWORK = {"AWS_ENDPOINT_URL": "ftp://host", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


class NetworkLibraryTest(testing.Case):
    def setUp(self):
        super().setUp()
        if testing.is_static():
            self.skipTest("this binary is linked statically: it loads nothing, and knows no network")

    def loaded(self, *words, **env):
        """What the dynamic linker says it looked for."""
        said = self.run_any(*words, env={"LD_DEBUG": "files", **env}).err
        self.assertIn("libc.so", said)
        return said

    def test_directories_do_without(self):
        repo, tensors = self.scratch / "repo", self.some_weights(1, 4000)
        base = self.write_weights("1/model.safetensors", tensors).parent
        following = self.write_weights("2/model.safetensors", self.moved(tensors)).parent
        for words in (["--version"], ["diff", base, following], ["push", base, repo], ["push", following, repo],
                      ["log", repo], ["pull", repo, self.scratch / "3"], ["verify", repo], ["gc", repo]):
            self.assertNotRegex(self.loaded(*words), "libcurl|libcrypto", words)
        self.assertIn("libcurl", self.loaded("log", "s3://bucket/repo", **NETWORK))

    def fails_with_library_from(self, folder, says):
        self.run_fails(9, "log", "s3://bucket/repo", env={"LD_LIBRARY_PATH": str(folder), **NETWORK}, says=says)

    def test_one_that_cannot_be_loaded_is_named(self):
        for name in ("libcurl.so.4", "libcrypto.so.3"):
            with self.subTest(name):
                self.fails_with_library_from(self.write(f"{name}/{name}", b"no library").parent, [name])

    def test_one_without_a_function_that_is_needed_is_named(self):
        libc = re.search(r"/\S*/libc\.so\.6$", Path("/proc/self/maps").read_text(), re.MULTILINE)
        self.assertTrue(libc, "Python was not linked with glibc")
        (self.scratch / "libcurl.so.4").symlink_to(libc.group())
        self.fails_with_library_from(self.scratch, ["libcurl.so.4", "curl_global_init"])


if __name__ == "__main__":
    testing.main()
