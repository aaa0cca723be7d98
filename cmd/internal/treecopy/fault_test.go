// Copies that end early: no incomplete file has a final name, and no data is lost.

package treecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A hooked source calls at before each read beyond a position.
type hooked struct {
	Source
	from int64
	at   func() error
}

func (h *hooked) Stream() bool { return false }

func (h *hooked) ReadAt(p []byte, off int64) (int, error) {
	if off >= h.from {
		if err := h.at(); err != nil {
			return 0, err
		}
	}
	return h.Source.ReadAt(p, off)
}

// bigTree makes two directories with files of several blocks, and small ones.
func bigTree(t *testing.T) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "src")
	for i := range 4 {
		write(t, strings.Repeat("0123456789abcdef", 300_000), top, fmt.Sprintf("d%d/large", i%2), fmt.Sprint(i))
		write(t, "small", top, fmt.Sprintf("d%d/small", i%2), fmt.Sprint(i))
	}
	return top
}

// onlyWhole checks that every file below dir is whole, and that at most rest temporary files
// remain.
func onlyWhole(t *testing.T, dir string, rest int) {
	t.Helper()
	left := 0
	for _, name := range strings.Fields(names(t, dir)) {
		fi, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err != nil:
			t.Error(err)
		case strings.Contains(name, ".nfsrdma-"):
			left++
		case fi.Mode().IsRegular() && fi.Size() != 5 && fi.Size() != 4_800_000:
			t.Errorf("%s has %d bytes", name, fi.Size())
		}
	}
	if left > rest {
		t.Errorf("%d temporary files are left in %s", left, names(t, dir))
	}
}

// TestInterruptedCopyLeavesNoHalfFile ends the context in the middle of a file.
func TestInterruptedCopyLeavesNoHalfFile(t *testing.T) {
	r := newRig(t, asCaller)
	src := bigTree(t)
	out := t.TempDir()
	old := write(t, "small", r.dir, "old")
	for side, dst := range map[string]Operand{"local": local(out), "remote": at(r.mount(t, "/dir"), "/"), "over": at(r.mount(t, "/dir"), "old")} {
		ctx, cancel := context.WithCancel(t.Context())
		from := src
		if side == "over" {
			from = filepath.Join(src, "d0/large/0")
		}
		tree := &fake{open: func(m Meta, s Source) (Source, error) {
			return &hooked{s, 2 << 20, func() error { cancel(); return nil }}, nil
		}}
		l := &log{}
		run := New(l.options(all))
		run.cleanup = time.Minute
		err := run.Copy(ctx, []Operand{at(tree, from)}, dst)
		if !errors.Is(err, context.Canceled) || len(l.lines) > 0 {
			t.Errorf("%s: %v %q", side, err, l.lines)
		}
	}
	onlyWhole(t, out, 0)
	onlyWhole(t, r.dir, 0)
	wantFile(t, "small", old)
}

// TestFullDiskLeavesNoHalfFile fills a server's memory and a small tmpfs. Files that do not fit are
// reported, existing targets stay, the rest is copied.
func TestFullDiskLeavesNoHalfFile(t *testing.T) {
	r := newRig(t, asCaller)
	big := write(t, strings.Repeat("x", memLimit+1), t.TempDir(), "big")
	x := r.mount(t, "/mem")
	keep := write(t, "keep", t.TempDir(), "keep")
	cp(t, all, at(x, "/target"), local(keep)).want(t)
	cp(t, all, at(x, "/target"), local(big)).want(t, "error writing '/target'")
	back := t.TempDir()
	cp(t, all, local(back), at(x, "/target"), local(keep)).want(t)
	wantFile(t, "keep", back, "target")
	cp(t, all, local(filepath.Join(back, "all")), at(x, "/")).want(t)
	if got := names(t, filepath.Join(back, "all")); got != "target" {
		t.Errorf("the server has %s", got)
	}

	machine.NeedRoot(t, "files of several users: needs root")
	small := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "none", small).CombinedOutput(); err != nil {
		machine.Skip(t, "no tmpfs can be mounted: "+string(out))
	}
	defer func() { _ = exec.Command("umount", "-l", small).Run() }()
	write(t, "precious", small, "big")
	l := cp(t, all, local(small), local(big), local(keep))
	l.want(t, "error writing '"+small+"/big'")
	wantFile(t, "precious", small, "big")
	wantFile(t, "keep", small, "keep")
	if got := names(t, small); got != "big keep" {
		t.Errorf("the disk has %s", got)
	}
}

// TestLostServerEndsTheCopy: one line reports it, temporary files that remain are named, and no
// incomplete file has its final name.
func TestLostServerEndsTheCopy(t *testing.T) {
	t.Parallel()
	r := newRig(t, asCaller)
	tree := &fake{open: func(m Meta, s Source) (Source, error) {
		return &hooked{s, 2 << 20, func() error { r.kill(); return nil }}, nil
	}}
	l := &log{}
	x := r.mount(t, "/dir")
	run := New(l.options(all))
	// calls wait until the server comes back; the timeout stands for a user's interrupt
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := run.Copy(ctx, []Operand{at(tree, filepath.Join(bigTree(t), "d0/large/0"))}, at(x, "/f"))
	onlyWhole(t, r.dir, 1)
	if err == nil && run.failures.Load() == 0 {
		t.Error("success")
	}
	if got := names(t, r.dir); strings.Contains(got, ".nfsrdma-") && !strings.Contains(strings.Join(l.lines, "\n"), "is left behind, remove it") {
		t.Errorf("left %s, said %q", got, l.lines)
	}
}

// TestErrorsDoNotEndTheCopy: each unreadable file and directory is reported in a line, and the rest
// is copied.
func TestErrorsDoNotEndTheCopy(t *testing.T) {
	src, out := bigTree(t), t.TempDir()
	tree := &fake{
		open: func(m Meta, s Source) (Source, error) {
			switch m.Name {
			case "1":
				return nil, syscall.EACCES
			case "2":
				return &hooked{s, 1 << 20, func() error { return syscall.EIO }}, nil
			}
			return s, nil
		},
		sub: func(_ context.Context, m Meta) error {
			if m.Name == "d0" {
				return syscall.EACCES
			}
			return nil
		},
	}
	l := cp(t, all, local(out), local(src+"/no"), at(tree, src), local(filepath.Join(src, "d0/small/0")))
	l.want(t, "cannot stat '"+src+"/no'", "cannot access '"+src+"/d0'",
		"cannot open '"+src+"/d1/large/1' for reading", "cannot open '"+src+"/d1/small/1' for reading")
	if got := names(t, out); got != "0 src src/d0 src/d1 src/d1/large src/d1/large/3 src/d1/small src/d1/small/3" {
		t.Error(got)
	}
	tree.sub = nil
	l = cp(t, all, local(out), at(tree, src))
	l.want(t, "error reading '"+src+"/d0/large/2'", "large/1", "small/1")
	onlyWhole(t, out, 0)
}

// A restarting sink loses written data several times, like a server that restarts.
type restarting struct {
	Sink
	left *int
}

func (s *restarting) Sync() error {
	if *s.left > 0 {
		*s.left--
		return fmt.Errorf("close: %w", nfsclient.ErrLostWrites)
	}
	return s.Sink.Sync()
}

// TestLostWritesAreSentAgain: a file of any size is resent after up to maxResend restarts.
func TestLostWritesAreSentAgain(t *testing.T) {
	for _, size := range []int{10, 5 << 20} {
		want := strings.Repeat("r", size)
		src := write(t, want, t.TempDir(), "f")
		for restarts := range maxResend + 2 {
			out := t.TempDir()
			left := restarts
			dst := &fake{sink: func(_ string, s Sink) (Sink, error) { return &restarting{s, &left}, nil }}
			l := &log{}
			run := New(l.options(all))
			if err := run.Copy(t.Context(), []Operand{local(src)}, at(dst, out+"/f")); err != nil {
				t.Fatalf("Copy: %v", err)
			}
			if restarts > maxResend {
				l.want(t, "error writing")
				if got := names(t, out); got != "" {
					t.Errorf("left %s", got)
				}
				continue
			}
			l.want(t)
			wantFile(t, want, out, "f")
			if n := run.Bytes.Load(); n != int64(size) {
				t.Errorf("%d restarts: counted %d bytes of %d", restarts, n, size)
			}
		}
	}
}

// TestSizesAreNotBelieved: all bytes of a file are copied, whatever its listed size.
func TestSizesAreNotBelieved(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, 1, smallRead - 1, smallRead, blockSize - 1, blockSize, blockSize + 1, 3*blockSize + 5} {
		want := bytes.Repeat([]byte("size"), n/4+1)[:n]
		src := write(t, string(want), dir, fmt.Sprint(n))
		for _, said := range []int64{0, 1, int64(n), int64(n) - 1, int64(n) + 1, blockSize, 1 << 40, 1<<63 - 1} {
			if said < 0 {
				continue
			}
			s, err := os.Open(src)
			if err != nil {
				t.Fatalf("os.Open: %v", err)
			}
			var got buffer
			r := New(Options{})
			c := &content{src: &plainSource{s}, m: &Meta{Size: said, Used: uint64(said)}}
			if err = c.begin(make([]byte, blockSize)); err == nil {
				err = r.pump(t.Context(), c, &got, true)
			}
			if err != nil || !bytes.Equal(got.b, want) {
				t.Errorf("%d bytes, said to be %d: got %d, %v", n, said, len(got.b), err)
			}
			s.Close()
		}
	}
	cp(t, all, local(filepath.Join(dir, "cpus")), local("/proc/cpuinfo")).want(t)
	b, _ := os.ReadFile(filepath.Join(dir, "cpus"))
	if !bytes.HasPrefix(b, []byte("processor")) {
		t.Errorf("/proc/cpuinfo: %d bytes", len(b))
	}
}

type plainSource struct{ *os.File }

func (plainSource) Stream() bool                               { return false }
func (plainSource) NextData(int64) (int64, int64, bool, error) { return 0, 0, false, nil }
func (s plainSource) Size() (int64, error)                     { return 0, errors.New("not asked") }
func (plainSource) ACLs(context.Context) (nfsclient.ACLs, error) {
	return nfsclient.ACLs{}, errors.New("not asked")
}

// A buffer is a Sink in memory.
type buffer struct {
	Sink
	mu sync.Mutex
	b  []byte
}

func (b *buffer) Stream() bool { return false }
func (b *buffer) Sync() error  { return nil }

func (b *buffer) Truncate(size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b = append(b.b, make([]byte, max(0, size-int64(len(b.b))))...)[:size]
	return nil
}

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if grow := off + int64(len(p)) - int64(len(b.b)); grow > 0 {
		b.b = append(b.b, make([]byte, grow)...)
	}
	return copy(b.b[off:], p), nil
}

// TestFIFOs: a FIFO is read to its end, and the wait for a writer can be cancelled.
func TestFIFOs(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must.Succeed(t, syscall.Mkfifo(pipe, 0o600))
	want := strings.Repeat("through the pipe ", 200_000)
	go func() { _ = os.WriteFile(pipe, []byte(want), 0) }()
	cp(t, Options{Follow: FollowAlways}, local(filepath.Join(dir, "f")), local(pipe)).want(t)
	wantFile(t, want, dir, "f")

	got := make(chan string)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			got <- err.Error()
			return
		}
		b, _ := io.ReadAll(f)
		got <- string(b)
	}()
	cp(t, Options{Follow: FollowAlways}, local(pipe), local(filepath.Join(dir, "f"))).want(t)
	if b := <-got; b != want {
		t.Errorf("%d bytes came out of the FIFO", len(b))
	}
	if fi, err := os.Lstat(pipe); err != nil || fi.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the FIFO is %v, %v", fi, err)
	}
	cp(t, Options{Follow: FollowAlways}, local("/dev/null"), local(filepath.Join(dir, "f"))).want(t)

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	l := &log{}
	if err := New(l.options(Options{})).Copy(ctx, []Operand{local(pipe)}, local(filepath.Join(dir, "g"))); !errors.Is(err, context.Canceled) {
		t.Errorf("a FIFO without a writer: %v", err)
	}
}
