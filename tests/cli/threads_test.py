# SPDX-License-Identifier: Apache-2.0
"""Where the system has no more threads (a container's limit on processes, most likely) the work is done by those that
are there: the same bytes, later."""

import fault_points
import hub_test
import s3_test
import testing


class FewThreads(testing.Case):
    def setUp(self):
        super().setUp()
        fault_points.require(self)

    def with_threads(self, most, *words):
        refused = self.scratch / "refused"
        refused.unlink(missing_ok=True)
        self.run_ok(*words, env=fault_points.environment_of_few_threads(most, refused))
        # Every command asks for one, to take signals.
        self.assertTrue(refused.exists() or most > 0, "no thread was refused")

    def there_and_back(self, *repositories):
        """Pushes two checkpoints to each, pulls both, the newest first, and proves them, with no, one, ... more threads."""
        checkpoints = self.make_run("run", "--size", "48M", "--shards", 2, "--steps", 2)
        for most, repo in enumerate(repositories):
            self.push_and_pull(most, checkpoints, repo, self.scratch / f"out-{most}")

    def push_and_pull(self, most, checkpoints, repo, out):
        for checkpoint in checkpoints:
            self.with_threads(most, "push", checkpoint, repo)
        for revision, checkpoint in (("main", checkpoints[1]), ("main~1", checkpoints[0])):
            self.with_threads(most, "pull", f"{repo}@{revision}", out)
            self.assert_same_tree(out, checkpoint)
            self.with_threads(most, "verify", out, f"{repo}@{revision}")
        self.with_threads(most, "verify", f"{repo}@main")


class OnADirectory(FewThreads):
    def test_a_delta_is_made_and_applied(self):
        checkpoints = self.make_run("run", "--size", "48M", "--steps", 2, "--single")
        old, new = (next(checkpoint.glob("*.safetensors")) for checkpoint in checkpoints)
        expected = self.scratch / "expected"
        self.run_ok("diff", old, new, "-o", expected)
        for most in (0, 1, 2, 3):
            delta, rebuilt = self.scratch / "delta", self.scratch / "rebuilt"
            self.with_threads(most, "diff", old, new, "-o", delta, "-j4")
            self.assert_same_file(delta, expected)
            self.with_threads(most, "apply", old, delta, "-o", rebuilt, "-j4")
            self.assert_same_file(rebuilt, new)

    def test_checkpoints_go_there_and_back(self):
        self.there_and_back(*(self.scratch / f"repository-{most}" for most in range(3)))


class OnS3(FewThreads, s3_test.S3Case):
    def test_checkpoints_go_there_and_back(self):
        self.serve()
        self.there_and_back(*(f"{s3_test.REPO}/{most}" for most in range(3)))


class OnTheHub(FewThreads, hub_test.HubCase):
    def test_checkpoints_go_there_and_back(self):
        self.make_repository()
        self.there_and_back(hub_test.REPO)


if __name__ == "__main__":
    testing.main()
