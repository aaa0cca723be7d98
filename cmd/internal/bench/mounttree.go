// Small files through a mount: programs working on a tree, compared with go-fuse's loopback.

package bench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The tree's shape.
const (
	treeDirs    = 100
	treeFileMax = 8 << 10 // the largest file, in bytes
)

// Trees in the working directory. The kept tree has a repository in it. Each mount also has a fresh
// tree, which each round unpacks and removes.
func (b *mountRun) keptTree(mount string) string { return filepath.Join(b.workDir(mount), "kept") }
func (b *mountRun) freshTree(mount string) string {
	return filepath.Join(b.workDir(mount), "fresh-"+mount)
}

// A treeTest is one program run on a tree.
type treeTest struct {
	row   *PairRow
	cold  bool // runs on a new mount
	needs string
	args  func(mount string) []string
}

// treeTests returns the tests in their order.
func (b *mountRun) treeTests() []treeTest {
	n := b.opts.Files
	find := func(m string) []string { return []string{"find", b.keptTree(m), "-ls"} }
	git := func(m string) []string { return []string{"git", "-C", b.keptTree(m), "status"} }
	row := func(name string, args ...any) *PairRow {
		return &PairRow{Name: fmt.Sprintf(name, args...), Unit: "s", Beside: "loopback"}
	}
	return []treeTest{
		{row("untar of %d files", n), true, "tar", func(m string) []string {
			return []string{"tar", "-xf", b.archive(), "-C", b.freshTree(m)}
		}},
		{row("find -ls, cold"), true, "find", find},
		{row("find -ls, warm"), false, "find", find},
		{row("git status, cold"), true, "git", git},
		{row("git status, warm"), false, "git", git},
		{row("rm -r"), true, "rm", func(m string) []string { return []string{"rm", "-r", b.freshTree(m)} }},
	}
}

// archive returns the tree archive's path.
func (b *mountRun) archive() string { return filepath.Join(b.rig.Scratch, "tree.tar") }

// trees runs all tests in rounds.
func (b *mountRun) trees(ctx context.Context) error {
	if err := b.makeArchive(); err != nil {
		return err
	}
	defer os.Remove(b.archive())
	if err := os.MkdirAll(filepath.Join(b.rig.Loopback, b.work), 0o755); err != nil {
		return err
	}
	tests := b.treeTests()
	mounts := []string{MountOurs, MountLoopback}
	if err := b.makeKeptTrees(ctx, mounts); err != nil {
		return err
	}
	for i := range b.opts.Rounds {
		for k := range mounts {
			m := mounts[(i+k)%len(mounts)] // the mounts take turns as the first mount
			if err := b.treeRound(ctx, m, tests); err != nil {
				return err
			}
		}
	}
	for _, t := range tests {
		if len(t.row.Mount.Values) == 0 {
			b.report.Skipped = append(b.report.Skipped, fmt.Sprintf("%s: there is no %s here", t.row.Name, t.needs))
			continue
		}
		t.row.compare()
		b.report.Pairs = append(b.report.Pairs, t.row)
	}
	return nil
}

// treeRound runs each program once.
func (b *mountRun) treeRound(ctx context.Context, mount string, tests []treeTest) error {
	for i, t := range tests {
		if _, err := exec.LookPath(t.needs); err != nil {
			continue
		}
		if t.cold {
			if err := b.mount(ctx, mount); err != nil {
				return err
			}
		}
		if i == 0 {
			if err := os.Mkdir(b.freshTree(mount), 0o755); err != nil {
				return err
			}
		}
		start := time.Now()
		if err := program(ctx, t.args(mount)...); err != nil {
			return fmt.Errorf("%s, %s: %w", t.row.Name, mount, err)
		}
		took := time.Since(start).Seconds()
		if mount == MountOurs {
			t.row.Mount.add(took)
		} else {
			t.row.Other.add(took)
		}
	}
	return b.unmount(mount)
}

// makeKeptTrees makes the kept trees, or a single tree if all mounts show the same directory.
func (b *mountRun) makeKeptTrees(ctx context.Context, mounts []string) error {
	if b.rig.Same {
		return b.makeKeptTree(ctx, filepath.Join(b.rig.Loopback, b.work, "kept"))
	}
	for _, m := range mounts {
		if err := b.mount(ctx, m); err != nil {
			return err
		}
		if err := b.makeKeptTree(ctx, b.keptTree(m)); err != nil {
			return err
		}
	}
	return nil
}

// makeKeptTree makes a tree with a repository of all its files.
func (b *mountRun) makeKeptTree(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := program(ctx, "tar", "-xf", b.archive(), "-C", dir); err != nil {
		return err
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil
	}
	// The repository is made locally and copied, so the thousands of objects are one pack.
	repo := filepath.Join(b.rig.Scratch, "repository")
	defer os.RemoveAll(repo)
	git := []string{"git", "--git-dir=" + repo, "--work-tree=" + dir, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "core.compression=0", "-c", "gc.auto=0"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "tree"}, {"config", "--unset", "core.worktree"}, {"repack", "-a", "-d", "-q"}} {
		if err := program(ctx, append(git[:len(git):len(git)], args...)...); err != nil && args[0] != "config" {
			return err
		}
	}
	return program(ctx, "cp", "-r", repo, filepath.Join(dir, ".git"))
}

// program runs a program to its end and discards the output. The first line on stderr becomes the
// error.
func program(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1",
		// git accepts any owner, because the server may show any
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "LC_ALL=C")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	err := cmd.Run()
	if line, _, _ := bytes.Cut(bytes.TrimSpace(complaints.Bytes()), []byte("\n")); err != nil && len(line) > 0 {
		err = errors.New(string(line))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// makeArchive writes the tree's archive: files in all sizes up to treeFileMax, in directories,
// dated as in a release archive.
func (b *mountRun) makeArchive() (err error) {
	f, err := os.Create(b.archive())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close()) }()
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	r := rand.NewChaCha8([32]byte{1})
	content := make([]byte, treeFileMax)
	for i := range b.opts.Files {
		dir := fmt.Sprintf("dir%02d/", i*treeDirs/b.opts.Files)
		if i == 0 || (i-1)*treeDirs/b.opts.Files != i*treeDirs/b.opts.Files {
			if err := w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: when, Uid: os.Geteuid(), Gid: os.Getegid()}); err != nil {
				return err
			}
		}
		n := i * 7919 % treeFileMax
		_, _ = r.Read(content[:n])
		h := &tar.Header{Name: fmt.Sprintf("%sfile%05d", dir, i), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(n), ModTime: when, Uid: os.Geteuid(), Gid: os.Getegid()}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(content[:n]); err != nil {
			return err
		}
	}
	return nil
}
