// The rig: a socket that keeps message bounds serves as /dev/fuse, and the test as the kernel.

package fuseloop

import (
	"encoding/binary"
	"errors"
	"io"
	"log"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// patience bounds waits for expected messages on slow machines.
const patience = 2 * time.Minute

// Numbers from fuse.h that go-fuse does not export.
const (
	opGetattr = 3
	opWrite   = 16
)

// A kernel is the other end of the connection.
type kernel struct {
	t      testing.TB
	socket *os.File
	served chan struct{} // closed when Serve has returned; nil before
	s      *Server
}

// testOptions returns the options of a test's mount.
func testOptions() *fuse.MountOptions {
	return &fuse.MountOptions{MaxWrite: 1 << 20, MaxBackground: 16, Logger: log.New(io.Discard, "", 0)}
}

// connect returns a kernel and the Server's end of its connection.
func connect(t testing.TB) (*kernel, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("socketpair: %v", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		t.Fatalf("set nonblock: %v", err)
	}
	k := &kernel{t: t, socket: os.NewFile(uintptr(pair[0]), "kernel")}
	t.Cleanup(func() { k.socket.Close() })
	return k, pair[1]
}

// start returns a kernel that has exchanged INIT with a Server for fs.
func start(t testing.TB, fs fuse.RawFileSystem) *kernel {
	t.Helper()
	k, fd := connect(t)
	k.send(initMessage(7, 45))
	s, err := newServer(fd, fs, testOptions())
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	k.s = s
	if out := k.next(); out.unique != 1 || out.status != 0 {
		t.Fatalf("INIT: %+v", out)
	}
	return k
}

// serve runs Serve. The end of the test cuts the connection and waits for Serve.
func (k *kernel) serve() {
	k.served = make(chan struct{})
	go func() {
		k.s.Serve()
		close(k.served)
	}()
	k.t.Cleanup(k.cut)
}

// cut ends the connection and waits for Serve.
func (k *kernel) cut() {
	k.socket.Close()
	select {
	case <-k.served:
	case <-time.After(patience):
		k.t.Fatal("Serve does not return")
	}
}

func (k *kernel) send(msg []byte) {
	k.t.Helper()
	if _, err := k.socket.Write(msg); err != nil {
		k.t.Fatalf("send: %v", err)
	}
}

// An out is a reply or a notice.
type out struct {
	length, status int32
	unique         uint64
	body           []byte
}

// next returns the next reply or notice that the kernel receives.
func (k *kernel) next() out {
	k.t.Helper()
	_ = k.socket.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 256<<10)
	n, err := k.socket.Read(b)
	if err != nil || n < outHeaderLen {
		k.t.Fatalf("a message of %d bytes, %v", n, err)
	}
	o := out{int32(binary.NativeEndian.Uint32(b)), int32(binary.NativeEndian.Uint32(b[4:])), binary.NativeEndian.Uint64(b[8:]), b[outHeaderLen:n]}
	if int(o.length) != n {
		k.t.Fatalf("a message of %d bytes says that it has %d", n, o.length)
	}
	return o
}

// silent fails the test if there is a message. Requests that might cause one must have ended.
func (k *kernel) silent() {
	k.t.Helper()
	_ = k.socket.SetReadDeadline(time.Now())
	n, err := k.socket.Read(make([]byte, 1<<10))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		k.t.Fatalf("a message of %d bytes, %v", n, err)
	}
}

// ended waits until the Server has removed answered requests from its table, so that the test can
// reuse their numbers. The kernel reuses none.
func (k *kernel) ended() {
	k.t.Helper()
	must.Become(k.t, "the end of the requests", func() bool {
		k.s.inflight.mu.Lock()
		defer k.s.inflight.mu.Unlock()
		return len(k.s.inflight.all) == 0
	})
}

// message returns a request for a node, with a body.
func message(opcode uint32, unique, node uint64, body ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(inHeaderLen+len(body)))
	b = binary.NativeEndian.AppendUint32(b, opcode)
	b = binary.NativeEndian.AppendUint64(b, unique)
	b = binary.NativeEndian.AppendUint64(b, node)
	b = append(b, make([]byte, inHeaderLen-24)...)
	return append(b, body...)
}

// words encodes uint32 and uint64 values in the kernel's byte order.
func words(list ...any) (b []byte) {
	for _, w := range list {
		switch w := w.(type) {
		case uint32:
			b = binary.NativeEndian.AppendUint32(b, w)
		case uint64:
			b = binary.NativeEndian.AppendUint64(b, w)
		}
	}
	return b
}

func initMessage(major, minor uint32) []byte {
	return message(opInit, 1, 0, append(words(major, minor, uint32(1<<17), uint32(0)), make([]byte, 48)...)...)
}

// readMessage returns a READ for a file handle.
func readMessage(unique, fh, off uint64, size uint32) []byte {
	return message(opRead, unique, 2, words(fh, off, size, uint32(0), uint64(0), uint32(0), uint32(0))...)
}

func getattrMessage(unique, node uint64) []byte {
	return message(opGetattr, unique, node, make([]byte, 16)...)
}

// lkwMessage returns a SETLKW, which waits for a lock.
func lkwMessage(unique uint64) []byte { return message(opSetlkw, unique, 2, make([]byte, 48)...) }

func interruptMessage(unique, of uint64) []byte {
	return message(opInterrupt, unique, 0, words(of)...)
}

// A testFS answers READ as its test requires, and waits in SETLKW.
type testFS struct {
	fuse.RawFileSystem
	read func(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status)

	write  func(p []byte) bool // reports whether the data is right; nil: accepts any data
	linger <-chan struct{}     // SETLKW ignores interruption until it is closed; nil: it does not

	mu      sync.Mutex // guards the fields below
	forgot  map[uint64]uint64
	waiting int // requests that have begun to wait
}

func newTestFS() *testFS {
	return &testFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), forgot: make(map[uint64]uint64)}
}

func (f *testFS) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	return f.read(cancel, in, p)
}

func (f *testFS) Forget(node, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot[node] += n
}

func (f *testFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Ino, out.Nlink = in.NodeId, uint32(f.forgot[in.NodeId])
	return fuse.OK
}

func (f *testFS) Write(_ <-chan struct{}, _ *fuse.WriteIn, p []byte) (uint32, fuse.Status) {
	if f.write != nil && !f.write(p) {
		return 0, fuse.EIO
	}
	return uint32(len(p)), fuse.OK
}

func (f *testFS) Readlink(<-chan struct{}, *fuse.InHeader) ([]byte, fuse.Status) {
	return make([]byte, 4095), fuse.OK
}

func (f *testFS) SetLkw(cancel <-chan struct{}, _ *fuse.LkIn) fuse.Status {
	f.wait(cancel)
	if f.linger != nil {
		<-f.linger
	}
	return fuse.EINTR
}

// wait waits until the request is interrupted.
func (f *testFS) wait(cancel <-chan struct{}) {
	f.mu.Lock()
	f.waiting++
	f.mu.Unlock()
	<-cancel
}

// waiters returns the number of waiting requests.
func (f *testFS) waiters() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

// interruptible makes READs wait until they are interrupted.
func (f *testFS) interruptible() {
	f.read = func(cancel <-chan struct{}, _ *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
		f.wait(cancel)
		return nil, fuse.EINTR
	}
}
