// Many of everything: open files, names in one directory, and simultaneous programs; and the
// resources of the processes then.

package mount

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// status returns a figure of /proc/PID/status in KiB, such as VmRSS, or VmHWM, the peak.
func status(t *testing.T, pid int, name string) int {
	t.Helper()
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name+":" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	t.Fatalf("process %d has no %s", pid, name)
	return 0
}

// descriptors returns how many descriptors a process has.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	return len(list)
}

// manyName returns the name of file i of many.
func manyName(i int) string { return fmt.Sprintf("name-%07d", i) }

// openWorker makes and opens COUNT files, holds them until its standard input ends, and reads each
// then: DIR COUNT.
func openWorker(args []string) error {
	count, _ := strconv.Atoi(args[1])
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(count) + 100, Max: uint64(count) + 100}); err != nil {
		return err
	}
	files := make([]*os.File, count)
	for i := range files {
		f, err := os.OpenFile(filepath.Join(args[0], manyName(i)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.WriteString(manyName(i)); err != nil {
			return err
		}
		files[i] = f
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	b := make([]byte, 100)
	for i, f := range files {
		if n, err := f.ReadAt(b, 0); !errors.Is(err, io.EOF) || string(b[:n]) != manyName(i) {
			return fmt.Errorf("file %d: %q, %w", i, b[:n], err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// TestManyOpenFiles: thousands of files are open at once. Neither the mount's process nor the
// server has a descriptor for each.
func TestManyOpenFiles(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	dir, count := s.mount(t, "rdma", "/export"), scaled(1000, 10_000)
	pid := processOf(t, dir)
	before := status(t, pid, "VmRSS")
	w := startWorker(t, "open", inside(t, dir, "open"), strconv.Itoa(count))
	if n := figures(t, dir).Open; n < count {
		t.Errorf("%d files are open, of %d", n, count)
	}
	ours, theirs := descriptors(t, pid), descriptors(t, s.cmd.Process.Pid)
	t.Logf("%d open files: the mount has %d descriptors and %d KiB more memory, the server %d descriptors and %d KiB at most",
		count, ours, status(t, pid, "VmRSS")-before, theirs, status(t, s.cmd.Process.Pid, "VmHWM"))
	if ours > 100 {
		t.Errorf("%d descriptors of the mount", ours)
	}
	// The server closes files that have not been used for a moment. On a fast machine it may have
	// all files open until then.
	waitFor(t, "the server to close idle files", func() bool { return descriptors(t, s.cmd.Process.Pid) < 100 })
	if last, err := w.stop(); err != nil {
		t.Errorf("%s, %v", last, err)
	}
	waitFor(t, "all to be closed", func() bool { return figures(t, dir).Open == 0 })
}

// listWorker lists a directory of COUNT names, and must find each name once. Its arguments: DIR
// COUNT.
func listWorker(args []string) error {
	count, _ := strconv.Atoi(args[1])
	seen := make([]bool, count)
	d, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	for n := 0; ; {
		names, err := d.Readdirnames(1000)
		for _, name := range names {
			i, err := strconv.Atoi(strings.TrimPrefix(name, "name-"))
			if err != nil || i >= count || name != manyName(i) || seen[i] {
				return fmt.Errorf("%q is listed twice, or should not be", name)
			}
			seen[i] = true
			n++
		}
		if errors.Is(err, io.EOF) && n == count {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%d names of %d: %w", n, count, err)
		}
	}
}

// TestManyNames: a directory of any size is listed whole. The mount's memory for it is bounded by
// the memory option.
func TestManyNames(t *testing.T) {
	t.Parallel()
	needMounts(t)
	s := startServer(t)
	count, option := 12_000, "memory=16M" // half as many again as are kept
	if full {
		count, option = 1_000_000, "memory=384M"
	}
	many := filepath.Join(s.dir, "many")
	must.Succeed(t, os.Mkdir(many, 0o755))
	for i := range count {
		fd, err := unix.Open(filepath.Join(many, manyName(i)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Fatalf("unix.Open: %v", err)
		}
		unix.Close(fd)
	}
	dir := s.mount(t, "rdma", "/export", option)
	pid := processOf(t, dir)
	settle := func(after string) {
		t.Helper()
		f := figures(t, dir)
		t.Logf("%s: %d objects known, %d KiB of memory, %d at most", after, f.Nodes, status(t, pid, "VmRSS"), status(t, pid, "VmHWM"))
		if f.NodesMost == 0 || f.NodesMost > count {
			t.Fatalf("the bound is %d", f.NodesMost)
		}
		waitFor(t, "the kernel to forget objects", func() bool { f = figures(t, dir); return f.Nodes <= f.NodesMost*5/4 })
	}
	mustWork(t, "list", filepath.Join(dir, "many"), strconv.Itoa(count))
	settle("listed")
	for _, c := range []struct {
		text string
		want int
	}{
		{"find many | wc -l", count + 1},
		{"ls -U many | wc -l", count},
		{"ls -l many/name-00001* | wc -l", 100},
		{"ls -l many | wc -l", count + 1},
	} {
		if got := script(t, dir, c.text); got != strconv.Itoa(c.want) {
			t.Errorf("%s: %s, want %d", c.text, got, c.want)
		}
		settle(c.text)
	}
	if most := status(t, pid, "VmHWM"); full && !raceOn && most > 700<<10 {
		t.Errorf("%d KiB of memory", most)
	}
}

// TestManyPrograms: sixty-four programs write at once while the server is away. The waiting data
// stays within the memory bound, plus a buffer for each program, which mountstats counts.
func TestManyPrograms(t *testing.T) {
	t.Parallel()
	needMounts(t)
	const programs, block = 64, 1 << 20
	s := startServer(t)
	// dd asks for attributes first
	dir, local := s.mount(t, "rdma", "/export", "memory=16M", "actimeo=600"), tempDir(t, "local")
	inside(t, dir, "many")
	done := make(chan struct{})
	go func() {
		defer close(done)
		script(t, dir, fmt.Sprintf(`for i in $(seq %d); do {
			exec 3> many/$i
			: > %s/ready$i
			until test -e %[2]s/go; do sleep 0.1; done
			yes $i | head -c %d | dd bs=%d iflag=fullblock >&3 2> /dev/null
		} & done; wait`, programs, local, 2*block, block))
	}()
	waitFor(t, "all to have their files open", func() bool {
		ready, _ := filepath.Glob(local + "/ready*")
		return len(ready) == programs
	})
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	defer func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }()
	must.Succeed(t, os.WriteFile(local+"/go", nil, 0o644))
	waitFor(t, "all to wait for memory", func() bool { return figures(t, dir).RequestMemory > programs/2*block })
	f := figures(t, dir)
	t.Logf("%d KiB of request buffers, %d KiB of data, %d KiB of memory", f.RequestMemory>>10, f.Memory>>10, status(t, processOf(t, dir), "VmRSS"))
	if f.Memory > f.MemoryMost || f.RequestMemory > programs*block {
		t.Errorf("%d bytes are held of %d, and %d bytes of requests", f.Memory, f.MemoryMost, f.RequestMemory)
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatalf("Signal: %v", err)
	}
	<-done
	script(t, s.dir, fmt.Sprintf("for i in $(seq %d); do yes $i | head -c %d | cmp - many/$i; done", programs, 2*block))
	waitFor(t, "the requests to end", func() bool { return figures(t, dir).RequestMemory == 0 })
}
