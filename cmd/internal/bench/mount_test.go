// Measurements of mounts: options, the mounts at each time, and cleanup after failures.

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestMountOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		o    MountOptions
		want string
	}{
		{MountOptions{Rounds: 1, Depth: 1}, ""},
		{MountOptions{Rounds: 9, Depth: maxDepth, Files: 1}, ""},
		{MountOptions{Rounds: 0, Depth: 1}, "--rounds 0 is less than 1"},
		{MountOptions{Rounds: -2, Depth: 1}, "--rounds -2 is less than 1"},
		{MountOptions{Rounds: 1, Depth: 0}, "--depth 0 is not in 1..1024"},
		{MountOptions{Rounds: 1, Depth: maxDepth + 1}, "--depth 1025 is not in 1..1024"},
		{MountOptions{Rounds: 1, Depth: 1, Files: -1}, "--files -1 is less than 0"},
	} {
		got := ""
		if err := c.o.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
		if c.want == "" {
			continue
		}
		// a rig without a server shows that nothing starts
		if err := Mount(t.Context(), MountRig{}, c.o, new(MountReport)); err == nil || err.Error() != c.want {
			t.Errorf("Mount with %+v: %v", c.o, err)
		}
	}
}

// The whole measurement with this machine's programs: every row has a value for each round.
func TestMountIsMeasured(t *testing.T) {
	m := newMountTest(t)
	m.opts.Rounds, m.opts.Files = 2, 12
	m.opts.Size += seqBlock / 2 // rounded down
	r, err := m.measure(t)
	if err != nil {
		t.Fatalf("measure: %v", err)
	}
	if r.CPUs != runtime.NumCPU() || r.Rounds != 2 || r.Depth != 2 {
		t.Errorf("%d CPUs, %d rounds, depth %d, want %d, 2, 2", r.CPUs, r.Rounds, r.Depth, runtime.NumCPU())
	}
	if r.Size != 2*seqBlock || r.Files != 12 || r.Verified != 2*r.Size {
		t.Errorf("size %d, %d files, %d bytes verified, want %d, 12, twice the size", r.Size, r.Files, r.Verified, 2*seqBlock)
	}
	data := []string{"READ 1 MiB in order MiB/s", "WRITE 1 MiB in order, fsync MiB/s", "READ 4 KiB anywhere, O_DIRECT, depth 32 calls/s"}
	if len(r.Data) != len(data) {
		t.Fatalf("%d rows of bytes, want %d", len(r.Data), len(data))
	}
	for i, d := range r.Data {
		if got := d.Name + " " + d.Unit; got != data[i] {
			t.Errorf("row %d is %q, want %q", i, got, data[i])
		}
		for _, f := range []Figure{d.Library, d.Null, d.Mount} {
			if len(f.Values) != 2 || slices.Min(f.Values) <= 0 {
				t.Errorf("%s: %+v", d.Name, f)
			}
		}
	}
	pairs := []string{"read again, from the cache", "untar of 12 files", "find -ls, cold", "find -ls, warm", "git status, cold", "git status, warm", "rm -r"}
	if len(r.Pairs) != len(pairs) || len(r.Skipped) != 0 {
		t.Fatalf("%d pairs, want %d; skipped: %q", len(r.Pairs), len(pairs), r.Skipped)
	}
	for i, p := range r.Pairs {
		if p.Name != pairs[i] || len(p.Mount.Values) != 2 || len(p.Other.Values) != 2 {
			t.Errorf("pair %d: %+v, want %s with two values each", i, p, pairs[i])
		}
		if want := p.Mount.Median / p.Other.Median; p.Ratio != want || p.Ratio <= 0 {
			t.Errorf("pair %d: ratio %v, want %v", i, p.Ratio, want)
		}
	}
}

// Each cold program in a round gets a new mount. Rounds begin with alternating mounts. Meanwhile
// only the mount that measures FUSE alone stays mounted.
func TestMountsAreFreshForColdPrograms(t *testing.T) {
	fakePrograms(t, map[string]string{"tar": "", "find": "", "git": "", "rm": `exec /bin/rm "$@"`, "cp": ""})
	m := newMountTest(t)
	m.opts.Rounds, m.opts.Files = 2, 1
	if _, err := m.measure(t); err != nil {
		t.Fatalf("measure: %v", err)
	}
	want := []string{"+null", "+mount", "-mount"}
	for _, mount := range []string{"mount", "loopback", "loopback", "mount"} {
		for range 4 { // untar, find, git status, rm
			want = append(want, "+"+mount, "-"+mount)
		}
	}
	if got := m.mounts(t); !slices.Equal(got, append(want, "-null")) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without files there are no trees, programs and loopback.
func TestNoTreesWithoutFiles(t *testing.T) {
	t.Setenv("PATH", "")
	m := newMountTest(t)
	r, err := m.measure(t)
	if err != nil || len(r.Pairs) != 1 || len(r.Skipped) != 0 || r.Files != 0 {
		t.Errorf("%v, %d pairs, %q skipped", err, len(r.Pairs), r.Skipped)
	}
	if got := m.mounts(t); !slices.Equal(got, []string{"+null", "+mount", "-mount", "-null"}) {
		t.Errorf("%q", got)
	}
}

// A file has at least one block, and with one round the median is that round's value.
func TestMountOfTheLeastFile(t *testing.T) {
	m := newMountTest(t)
	m.opts.Size, m.opts.Depth = 1, 1
	r, err := m.measure(t)
	if err != nil || r.Size != seqBlock || r.Verified != 2*seqBlock {
		t.Fatalf("%v, %d bytes, %d verified", err, r.Size, r.Verified)
	}
	for _, d := range r.Data {
		if d.Mount.Median != d.Mount.Values[0] || d.Limit >= min(d.Library.Median, d.Null.Median) || d.Share != d.Mount.Median/d.Limit {
			t.Errorf("%+v", d)
		}
	}
}

// A mount that does not start, or fails at its end, ends the measurement with its name.
func TestFailuresOfTheMountsAreReported(t *testing.T) {
	for _, c := range []struct{ mount, mode, want string }{
		{MountNull, startsNot, "child process _mount did not start"},
		{MountOurs, startsNot, "child process _mount did not start"},
		{MountOurs, endsBadly, "the process of the mount mount: exit status 3"},
		{MountNull, endsBadly, "the process of the null mount: exit status 3"},
	} {
		m := newMountTest(t)
		m.modes[c.mount] = c.mode
		if _, err := m.measure(t); err == nil || err.Error() != c.want {
			t.Errorf("%s %s: %v, want %s", c.mount, c.mode, err, c.want)
		}
	}
}

// A mount that cannot be unmounted is named, and the server's files are not removed through it.
func TestMountThatStaysIsNamed(t *testing.T) {
	m := newMountTest(t)
	m.modes[MountNull] = staysThere
	m.rig.Clear = func(dir string) bool {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			return false
		}
		return os.Remove(dir) == nil
	}
	dir := filepath.Join(m.rig.Scratch, "mnt-null")
	err := Mount(t.Context(), m.rig, m.opts, new(MountReport))
	if want := dir + " is still mounted: unmount it with umount -l"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err != nil {
		t.Errorf("what was mounted is gone: %v", err)
	}
	if names, err := os.ReadDir(m.exported); err != nil || len(names) != 0 {
		// the other directories are removed nevertheless
		t.Errorf("%v, %v", names, err)
	}
}

// An interruption unmounts everything and removes all files: at the start, during the layout, and
// in the first and the last kind of reads.
func TestInterruptedMountLeavesNothing(t *testing.T) {
	for _, after := range []int64{0, 1, 5, 40} { // reads that are served before the interruption
		m := newMountTest(t)
		m.opts.Duration = time.Hour // of the random reads; only the interruption ends them
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if after == 0 {
			cancel()
		}
		var reads atomic.Int64
		m.tree.onRead(func([]byte, uint64) {
			if reads.Add(1) == after {
				cancel()
			}
		})
		if err := Mount(ctx, m.rig, m.opts, new(MountReport)); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d reads: %v", after, err)
		}
		m.nothingLeft(t)
	}
}

// An existing directory with the working directory's name is left alone.
func TestDirectoryOfSomebodyElse(t *testing.T) {
	m := newMountTest(t)
	work := filepath.Join(m.exported, fmt.Sprintf(".nfsrdma-bench-%d", os.Getpid()))
	must.Succeed(t, os.MkdirAll(filepath.Join(work, "kept"), 0o755))
	if err := Mount(t.Context(), m.rig, m.opts, new(MountReport)); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(work, "kept")); err != nil {
		t.Errorf("os.Stat: %v", err)
	}
}

// A refuser is a server's file tree that refuses to make directories.
type refuser struct{ nfsserver.FS }

func (refuser) Mkdir(nfsserver.Cred, nfsserver.Ref, string, *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return nfsserver.Ref{}, nfsserver.Attr{}, syscall.EACCES
}

func TestDirectoryMustBeWritable(t *testing.T) {
	m := newMountTest(t)
	m.rig.FS = serve(t, nfsclient.TCP, refuser{memory()})
	if _, err := m.measure(t); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "nfsrdma-bench") {
		t.Errorf("%v", err)
	}
	if got := m.mounts(t); len(got) != 0 {
		t.Errorf("mounted nevertheless: %q", got)
	}
}

// Without the scratch directory, mount points cannot be made; the server is cleaned up
// nevertheless.
func TestScratchMustBeThere(t *testing.T) {
	m := newMountTest(t)
	scratch := m.rig.Scratch
	m.rig.Scratch = filepath.Join(scratch, "none")
	err := Mount(t.Context(), m.rig, m.opts, new(MountReport))
	m.rig.Scratch = scratch
	m.nothingLeft(t)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "none/mnt-null") {
		t.Errorf("%v", err)
	}
}

// A directory is removed with all its contents at any depth; a missing one is no error.
func TestTreesOfTheServerAreRemoved(t *testing.T) {
	fsys := serve(t, nfsclient.TCP, memory())
	for _, dir := range []string{"work", "work/a", "work/a/b", "work/c"} {
		if err := fsys.Mkdir(t.Context(), dir, 0o755); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		f, err := fsys.Create(t.Context(), dir+"/file", 0o644)
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		f.Close()
	}
	for range 2 {
		if err := removeAll(t.Context(), fsys, "work"); err != nil {
			t.Errorf("removeAll: %v", err)
		}
		left(t, fsys, "work")
	}
	f, err := fsys.Create(t.Context(), "file", 0o644)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	f.Close()
	if err := removeAll(t.Context(), fsys, "file"); err == nil {
		t.Error("a file was taken for a directory")
	}
}
