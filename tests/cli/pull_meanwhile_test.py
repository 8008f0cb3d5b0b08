# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the middle of a pull. Somebody edits the directory: no edit is lost unasked, and no pull says that
a directory is a commit which it is not. A disk fails: no loader starts on a mixture."""

import errno
import shutil

import kill_points
import testing

EDIT = b"edited meanwhile"


class PullMeanwhileTest(testing.Case):
    def setUp(self):
        super().setUp()
        kill_points.require(self)
        self.repo, self.out, tensors = self.scratch / "repo", self.scratch / "out", self.some_weights(3, 900)
        kept = self.some_weights(1, 900)
        for step in ("0", "1"):
            for shard in "abc":
                self.write_weights(f"{step}/{shard}.safetensors", tensors)
            self.write_weights(f"{step}/kept.safetensors", kept)
            if step == "0":
                self.write_weights("0/gone.safetensors", kept)
            self.write(f"{step}/config.json", "{}" + 40 * " ")
            self.write(f"{step}/model.safetensors.index.json", f'{{"step": {step}}}')
            self.run_ok("push", self.scratch / step, self.repo, "--step", step)
            tensors = self.moved(tensors)

    def points_of(self, *words):
        """The calls by which a pull of step 1 over step 0 changes something."""
        self.begin()
        log = self.scratch / "points"
        log.unlink(missing_ok=True)
        self.run_ok(*words, env=kill_points.environment(self.scratch, log=log))
        return [point for point in kill_points.read_log(log) if not point.writes]

    def begin(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.run_ok("pull", f"{self.repo}@step:0", self.out)

    def edit(self, name):
        with open(self.out / name, "r+b") as file:
            file.seek(-len(EDIT), 2)
            file.write(EDIT)

    def edited_at(self, point, words, name):
        """What the pull ended with that went on once a file was edited."""
        self.begin()
        pull = kill_points.Paused(self, point.number, *words)
        self.edit(name)
        return pull.go_on()

    def check_edits(self, name, is_end, *options):
        """Edits it at every point before the last one that is the end: of what is looked at."""
        words = "pull", *options, "-j1", f"{self.repo}@step:1", self.out
        points = self.points_of(*words)
        end = max(number for number, point in enumerate(points) if is_end(point))
        self.assertGreater(end, 3)
        for point in points[:end]:
            with self.subTest(name=name, options=options, number=point.number, point=point.told(self.scratch)):
                done = self.edited_at(point, words, name)
                self.assertTrue((self.out / name).read_bytes().endswith(EDIT))
                self.assertEqual(done.code, 3, self.told(done))
                self.assert_one_line_error(done)
                self.assertIn(name, done.err)
                again = self.run_any("pull", f"{self.repo}@step:1", self.out)
                self.assertEqual(again.code, 3, self.told(again))
                self.assertIn(name, again.err)
                self.run_ok("pull", "-f", f"{self.repo}@step:1", self.out)
                self.assert_same_tree(self.out, self.scratch / "1")

    def test_a_file_that_is_to_be_replaced(self):
        for name in ("b.safetensors", "c.safetensors"):
            self.check_edits(name, lambda point, name=name: point.other == str(self.out / name))

    def test_a_file_that_has_just_been_replaced(self):
        words = "pull", "-j1", f"{self.repo}@step:1", self.out
        for name in ("b.safetensors", "c.safetensors"):
            points = self.points_of(*words)
            renamed = next(number for number, point in enumerate(points) if point.other == str(self.out / name))
            self.assertTrue(points[renamed + 1].syncs)
            done = self.edited_at(points[renamed + 1], words, name)
            self.assertEqual(done.code, 3, self.told(done))
            self.assertIn(name, done.err)
            self.assertTrue((self.out / name).read_bytes().endswith(EDIT))
            again = self.run_any("pull", f"{self.repo}@step:1", self.out)
            self.assertEqual(again.code, 3, self.told(again))

    def test_a_directory_that_is_half_pulled_is_no_checkpoint(self):
        words = "pull", "-j1", f"{self.repo}@step:1", self.out
        points = self.points_of(*words)
        renamed = next(point for point in points if point.other == str(self.out / "b.safetensors"))
        self.begin()
        pull = kill_points.Paused(self, renamed.number, *words)
        for what in ("at work", "killed"):
            for done in (self.run_any("push", self.out, self.repo, "-b", "other"),
                         self.run_any("diff", self.scratch / "0", self.out)):
                self.assertEqual(done.code, 3, self.told(done))
                self.assertIn("may be a mixture", done.err)
            if what == "at work":
                pull.child.kill()
                pull.go_on()
        self.run_ok(*words)
        self.run_ok("push", self.out, self.repo, "-b", "other")

    def test_what_lies_in_a_half_pulled_directory_or_around_it_is_no_checkpoint(self):
        self.repo, self.out = self.scratch / "deep", self.scratch / "around/out"
        for step in ("0", "1"):
            shutil.copytree(self.scratch / step, self.scratch / f"deep-{step}/sub/model")
            self.run_ok("push", self.scratch / f"deep-{step}", self.repo, "--step", step)
        words = "pull", "-j1", f"{self.repo}@step:1", self.out
        half = next(point for point in self.points_of(*words) if point.other.endswith("/b.safetensors"))
        self.begin()
        pull = kill_points.Paused(self, half.number, *words)
        (self.scratch / "links").mkdir()
        (self.scratch / "links/model.safetensors").symlink_to(self.out / "sub/model/b.safetensors")
        mixed = self.out / "sub/model", self.out / "sub", self.scratch / "around", self.scratch / "links"
        for what in ("at work", "killed"):
            for path in mixed:
                done = self.run_any("push", path, self.repo, "-b", "other")
                self.assertEqual(done.code, 3, self.told(done))
                self.assertIn("may be a mixture", done.err)
                self.assert_one_line_error(done)
            self.write("around/beside/notes.txt", "of nobody's pull")
            self.run_ok("push", self.scratch / "around/beside", self.scratch / f"beside {what}")
            self.write("around/out/logs/notes.txt", "nor this")
            self.run_ok("push", self.out / "logs", self.scratch / f"logs {what}")
            if what == "at work":
                pull.child.kill()
                pull.go_on()
        self.run_ok(*words)
        for path in mixed:
            self.run_ok("push", path, self.repo, "-b", "other")

    def test_a_file_that_is_to_be_removed(self):
        self.check_edits("gone.safetensors", lambda point: point.path == str(self.out / "gone.safetensors"))

    def test_a_file_that_is_kept(self):
        self.check_edits("kept.safetensors", lambda point: point.path == str(self.out / ".wdelta/aside/config.json"))

    def test_entrances_that_are_made_anew(self):
        """Before they are set aside, or while they are: what is there then stays."""
        words = "pull", "-j1", f"{self.repo}@step:1", self.out
        for name in kill_points.ENTRANCES:
            points = self.points_of(*words)
            end = next(number for number, point in enumerate(points)
                       if str(self.out / name) == (point.other if point.call == "rename" else ""))
            self.assertGreater(end, 6)
            for point in points[:end]:
                if point.path == str(self.out / name):
                    continue  # the call itself, behind the last look
                with self.subTest(name=name, number=point.number, point=point.told(self.scratch)):
                    self.begin()
                    pull = kill_points.Paused(self, point.number, *words)
                    (self.out / name).unlink(missing_ok=True)
                    (self.out / name).write_bytes(EDIT)
                    done = pull.go_on()
                    self.assertEqual((self.out / name).read_bytes(), EDIT)
                    self.assertEqual(done.code, 3, self.told(done))
                    self.assertIn(name, done.err)

    def test_a_symlink_between_two_files(self):
        """What pull itself does is no edit."""
        for step in ("0", "1"):
            shutil.copy(self.scratch / step / "a.safetensors", self.scratch / step / "b.safetensors")
            self.run_ok("push", self.scratch / step, self.repo, "-b", "alike", "--tag", f"alike-{step}")
        self.run_ok("pull", f"{self.repo}@alike-0", self.out)
        (self.out / "b.safetensors").unlink()
        (self.out / "b.safetensors").symlink_to("a.safetensors")
        self.run_ok("pull", "-j1", f"{self.repo}@alike-1", self.out)
        self.assert_same_tree(self.out, self.scratch / "1")

    def test_a_file_that_is_made_where_a_directory_that_is_exchanged_had_none(self):
        words = "pull", "--swap", f"{self.repo}@step:0", self.out
        self.run_ok("pull", f"{self.repo}@step:1", self.out)
        log = self.scratch / "points"
        self.run_ok(*words, env=kill_points.environment(self.scratch, log=log))
        points = [point for point in kill_points.read_log(log) if not point.writes and not point.syncs]
        end = next(number for number, point in enumerate(points) if point.call == "renameat2")
        for point in points[2:end]:
            shutil.rmtree(self.out)
            self.run_ok("pull", f"{self.repo}@step:1", self.out)
            pull = kill_points.Paused(self, point.number, *words)
            (self.out / "gone.safetensors").write_bytes(EDIT)
            done = pull.go_on()
            self.assertEqual(done.code, 3, self.told(done))
            self.assertEqual((self.out / "gone.safetensors").read_bytes(), EDIT)

    def test_any_file_of_a_directory_that_is_exchanged(self):
        for name in ("a.safetensors", "kept.safetensors", "config.json"):
            self.check_edits(name, lambda point: point.call == "renameat2", "--swap")

    def test_a_disk_that_fails_to_sync(self):
        words = "pull", "-j1", f"{self.repo}@step:1", self.out
        self.points_of(*words)
        trees = [testing.describe(self.scratch / step) for step in ("0", "1")]
        syncs = [point for point in kill_points.read_log(self.scratch / "points") if point.syncs]
        self.assertGreater(len(syncs), 6)
        for point in syncs:
            with self.subTest(number=point.number, point=point.told(self.scratch)):
                self.begin()
                at = f"fail:{point.number}:{errno.EIO}"
                self.run_any(*words, env=kill_points.environment(self.scratch, at))
                self.assertIsNone(kill_points.mixture(testing.describe(self.out), trees))
                self.run_ok(*words)
                self.assert_same_tree(self.out, self.scratch / "1")


if __name__ == "__main__":
    testing.main()
