// The start of a connection, its requests, and its end.

package fuseloop

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func TestInitAnswersTheKernel(t *testing.T) {
	k, fd := connect(t)
	k.send(initMessage(7, 45))
	s, err := newServer(fd, newTestFS(), testOptions())
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	defer s.dev.file.Close()
	out := k.next()
	if out.unique != 1 || out.status != 0 {
		t.Errorf("reply to %d with status %d, want 1 and 0", out.unique, out.status)
	}
	major, most := out.body[:4], out.body[20:24]
	if got, want := append(major[:4:4], most...), words(uint32(7), uint32(1<<20)); !bytes.Equal(got, want) {
		t.Errorf("version and largest WRITE: got % x, want % x", got, want)
	}
	if s.settings.Minor != 45 {
		t.Errorf("the kernel's version is taken for %d.%d", s.settings.Major, s.settings.Minor)
	}
}

func TestInitThatFails(t *testing.T) {
	for name, msg := range map[string][]byte{
		"another version": initMessage(6, 1), "another request": getattrMessage(1, 1), "no header": {1, 2, 3}, "cut": initMessage(7, 45)[:inHeaderLen],
	} {
		k, fd := connect(t)
		k.send(msg)
		if _, err := newServer(fd, newTestFS(), testOptions()); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: the descriptor is still open: %v", name, err)
		}
	}
}

// However many requests wait, later requests are not delayed.
func TestWaitingRequestsHoldNoneBack(t *testing.T) {
	const waiting = 3 * idleMost
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	for i := range uint64(waiting) {
		k.send(readMessage(100+i, 1, 0, 4096))
	}
	must.Become(t, "all READs at work", func() bool { return f.waiters() == waiting })
	k.send(getattrMessage(7, 1))
	if out := k.next(); out.unique != 7 || out.status != 0 {
		t.Fatalf("%+v", out)
	}
	for i := range uint64(waiting) {
		k.send(interruptMessage(1000+i, 100+i))
		if out := k.next(); out.status != -int32(unix.EINTR) {
			t.Fatalf("%+v", out)
		}
	}
	idle := func() int {
		k.s.workers.mu.Lock()
		defer k.s.workers.mu.Unlock()
		return len(k.s.workers.idle)
	}
	must.Become(t, "as many idle workers as are kept", func() bool { return idle() == idleMost })
}

// FORGET gets no reply, and is done before later messages.
func TestForgetHasNoReply(t *testing.T) {
	k := start(t, newTestFS())
	k.serve()
	k.send(message(opForget, 2, 5, words(uint64(3))...))
	k.send(message(opBatchForget, 3, 0, words(uint32(2), uint32(0), uint64(5), uint64(4), uint64(6), uint64(1))...))
	k.send(getattrMessage(4, 5))
	out := k.next()
	const nlinkAt = 16 + 64 // in struct fuse_attr_out
	if out.unique != 4 || !bytes.Equal(out.body[nlinkAt:nlinkAt+4], words(uint32(7))) {
		t.Errorf("%+v", out)
	}
}

// Concurrent WRITEs each have their own data: a large WRITE keeps the reader's buffer.
func TestWritesHaveTheirData(t *testing.T) {
	f := newTestFS()
	sizes := []int{0, 1, 4096, smallBuffer - 80, smallBuffer - 79, smallBuffer, 100_000, 100_000, 5}
	goOn := make(chan struct{})
	f.write = func(p []byte) bool {
		f.wait(goOn)
		i := slices.Index(sizes, len(p))
		return len(p) == 0 || bytes.Equal(p, bytes.Repeat([]byte{p[0]}, len(p))) && (p[0] == byte(i) || len(p) == 100_000)
	}
	k := start(t, f)
	k.serve()
	for i, size := range sizes {
		data := bytes.Repeat([]byte{byte(i)}, size)
		if i == 7 {
			data = bytes.Repeat([]byte{'z'}, size)
		}
		k.send(message(opWrite, uint64(i+10), 2, append(words(uint64(1), uint64(0), uint32(size), uint32(0), uint64(0), uint32(0), uint32(0)), data...)...))
	}
	must.Become(t, "all WRITEs at work", func() bool { return f.waiters() == len(sizes) })
	close(goOn)
	for range sizes {
		out := k.next()
		if size := sizes[out.unique-10]; out.status != 0 || !bytes.Equal(out.body, words(uint32(size), uint32(0))) {
			t.Errorf("%d bytes: %+v", size, out)
		}
	}
}

// Replies fit even if the request gives no size, as with READLINK. Requests with absurd sizes are
// refused.
func TestRoomOfReplies(t *testing.T) {
	const opReadlink, opUnheardOf = 5, 4711
	f := newTestFS()
	k := start(t, f)
	k.serve()
	k.send(message(opReadlink, 2, 9))
	if out := k.next(); out.unique != 2 || len(out.body) != 4095 {
		t.Errorf("READLINK: %d bytes, status %d", len(out.body), out.status)
	}
	for _, c := range []struct {
		what string
		msg  []byte
		want unix.Errno
	}{
		{"READ of 4 GiB", readMessage(3, 1, 0, 1<<32-1), unix.EINVAL},
		{"READDIR of 4 GiB", message(opReaddir, 3, 1, words(uint64(1), uint64(0), uint32(1<<32-1), uint32(0), uint64(0), uint64(0))...), unix.EIO},
		{"READ that is cut", readMessage(3, 1, 0, 4096)[:60], unix.EIO},
		{"an unknown operation", message(opUnheardOf, 3, 1), unix.ENOSYS},
	} {
		k.send(c.msg)
		out := k.next()
		if out.unique != 3 || out.status != -int32(c.want) {
			t.Errorf("%s: reply to %d with status %d, want 3 and %d", c.what, out.unique, out.status, -int32(c.want))
		}
		if len(out.body) > 0 {
			t.Errorf("%s: %d bytes in the reply, want none", c.what, len(out.body))
		}
	}
}

// The end of the connection ends all waits, and Serve returns after the last request.
func TestEndOfTheConnection(t *testing.T) {
	f := newTestFS()
	var ended atomic.Int32
	f.read = func(cancel <-chan struct{}, _ *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
		f.wait(cancel)
		ended.Add(1)
		return nil, fuse.EINTR
	}
	k := start(t, f)
	k.serve()
	const each = 20
	for i := range uint64(each) {
		k.send(readMessage(100+i, 1, 0, 4096))
		k.send(lkwMessage(200 + i))
	}
	must.Become(t, "all at work", func() bool { return f.waiters() == 2*each })
	if !k.s.Connected() {
		t.Error("not connected while it serves")
	}
	k.cut()
	if k.s.Connected() {
		t.Error("connected after the end")
	}
	if n := ended.Load(); n != each {
		t.Errorf("Serve has returned before %d READs", each-n)
	}
	if st := k.s.InodeNotify(1, 0, 0); st != fuse.EBADF {
		t.Errorf("a notice after the end: %v", st)
	}
}

// Errors that the device returns in place of a request, and their effects.
func TestErrorsOfTheDevice(t *testing.T) {
	for _, last := range []syscall.Errno{unix.ENODEV, unix.ECONNABORTED} {
		k := start(t, newTestFS())
		script := []syscall.Errno{unix.EINTR, unix.ENOENT, 0, unix.ENOENT, 0, last}
		k.s.readOne = func(fd uintptr, p []byte) (int, syscall.Errno) {
			errno := script[0]
			if errno == 0 {
				n, errno := read(fd, p)
				if errno == 0 {
					script = script[1:]
				}
				return n, errno
			}
			script = script[1:]
			return 0, errno
		}
		k.send(getattrMessage(2, 1))
		k.send(getattrMessage(3, 1))
		k.s.Serve()
		got := map[uint64]bool{k.next().unique: true, k.next().unique: true}
		if !got[2] || !got[3] {
			t.Errorf("%v: answered %v, want 2 and 3", last, got)
		}
		if len(script) > 0 {
			t.Errorf("%v: %v left, want nothing", last, script)
		}
	}
}
