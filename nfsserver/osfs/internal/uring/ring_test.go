// Reads through the ring return the same as pread(2).

package uring

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Ring {
	t.Helper()
	r, err := Open()
	if err != nil {
		machine.Skip(t, "no io_uring: "+err.Error())
	}
	t.Cleanup(r.Close)
	return r
}

// More goroutines than the ring has entries read a file that is not in the page cache. Each reads
// its own blocks, and gets its own bytes.
func TestReadsOfManyAtOnce(t *testing.T) {
	const block, blocks = 4096, 1024
	want := make([]byte, block*blocks)
	rand.Read(want)
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err == nil {
		_, err = f.Write(want)
	}
	must.Succeed(t, err)
	defer f.Close()
	f.Sync()
	r := open(t)
	for range 3 {
		_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		var wg sync.WaitGroup
		for g := range 2 * entries {
			wg.Go(func() {
				p := make([]byte, block)
				for b := g; b < blocks; b += 2 * entries {
					n, err := r.ReadAt(int(f.Fd()), p, int64(b*block))
					for errors.Is(err, ErrFull) {
						runtime.Gosched()
						n, err = r.ReadAt(int(f.Fd()), p, int64(b*block))
					}
					if err != nil || n != block {
						t.Errorf("block %d: got %d bytes, %v, want %d", b, n, err, block)
					}
					if !bytes.Equal(p, want[b*block:(b+1)*block]) {
						t.Errorf("block %d: other bytes", b)
					}
				}
			})
		}
		wg.Wait()
	}
	if n, err := r.ReadAt(int(f.Fd()), make([]byte, 100), int64(len(want)-10)); n != 10 || err != nil {
		t.Errorf("%d bytes at the end, %v", n, err)
	}
	if n, err := r.ReadAt(int(f.Fd()), make([]byte, 100), int64(len(want))); n != 0 || err != nil {
		t.Errorf("%d bytes after the end, %v", n, err)
	}
	if _, err := r.ReadAt(-1, make([]byte, 100), 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
	if got := testing.AllocsPerRun(100, func() { r.ReadAt(int(f.Fd()), want[:block], 0) }); got > 0 {
		t.Errorf("%v allocations for a read", got)
	}
}

// While waiting reads fill the ring, one more read is refused at once.
func TestFullRing(t *testing.T) {
	r := open(t)
	var pipe [2]int
	must.Succeed(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	var wg sync.WaitGroup
	for range entries {
		wg.Go(func() {
			if n, err := r.ReadAt(pipe[0], make([]byte, 1), 0); n != 1 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	for len(r.free) > 0 {
		runtime.Gosched()
	}
	if _, err := r.ReadAt(pipe[0], make([]byte, 1), 0); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if n, err := unix.Write(pipe[1], make([]byte, entries)); n != entries || err != nil {
		t.Error(n, err)
	}
	unix.Close(pipe[1])
	wg.Wait()
}

// A read does not depend on the thread of the goroutine that reads: the thread may even end.
func TestThreadOfReader(t *testing.T) {
	r := open(t)
	var pipe [2]int
	must.Succeed(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	rd := <-r.free
	rd.p = make([]byte, 1)
	tid := onThreadThatEnds(func() {
		r.submit(rd, submission{op: opRead, fd: int32(pipe[0]), addr: uint64(uintptr(unsafe.Pointer(&rd.p[0]))), len: 1})
	})
	for thread := filepath.Join("/proc/self/task", strconv.Itoa(tid)); ; runtime.Gosched() {
		if _, err := os.Stat(thread); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if _, err := unix.Write(pipe[1], []byte{7}); err != nil {
		t.Fatalf("write to the pipe: %v", err)
	}
	<-rd.done
	if n := rd.res.Load(); n != 1 || rd.p[0] != 7 {
		t.Errorf("%d bytes: %v, %v", n, errnoOf(n), rd.p)
	}
	rd.p = nil
	r.free <- rd
}

// onThreadThatEnds runs work on a thread that ends afterwards, and returns the thread's number. A
// process's first thread never ends: a goroutine that gets it keeps it, and tries again on another
// thread.
func onThreadThatEnds(work func()) int {
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			work()
			tid <- unix.Gettid()
			return
		}
		tid <- onThreadThatEnds(work)
		runtime.UnlockOSThread()
	}()
	return <-tid
}
