// Asynchronous direct writes while other programs read the page cache.

package fusefs_test

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// An iocb is a control block of asynchronous I/O (linux/aio_abi.h) on a little-endian machine.
type iocb struct {
	_      uint64 // data
	_, _   uint32 // key, rw_flags
	opcode uint16
	_      int16 // reqprio
	fd     uint32
	buf    uint64
	count  uint64
	_      int64 // offset
	_      uint64
	_, _   uint32 // flags, resfd
}

const iocbPwrite = 1 // IOCB_CMD_PWRITE

// writeAsync writes p at the start of the file by io_submit(2), and waits until the write
// completes.
func writeAsync(t *testing.T, ring uintptr, fd int, p []byte) {
	t.Helper()
	cb := &iocb{opcode: iocbPwrite, fd: uint32(fd), buf: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), count: uint64(len(p))}
	list := [1]*iocb{cb}
	if n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, ring, 1, uintptr(unsafe.Pointer(&list))); n != 1 {
		t.Fatalf("io_submit: %v", errno)
	}
	var event struct {
		data, obj uint64
		res, res2 int64
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, ring, 1, 1, uintptr(unsafe.Pointer(&event)), 0, 0)
		if n == 1 {
			break
		}
		if errno != unix.EINTR {
			t.Fatalf("io_getevents: %v", errno)
		}
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(cb)
	if event.res != int64(len(p)) {
		t.Fatalf("asynchronous write: got %d, want %d", event.res, len(p))
	}
}

// Pages that readers fill during an asynchronous direct write are dropped when the write ends.
func TestAsyncDirectWriteIsReadAtOnce(t *testing.T) {
	const size = 640 << 10
	m := mount(t, options{})
	var ring uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 4, uintptr(unsafe.Pointer(&ring)), 0); errno != 0 {
		t.Fatalf("io_setup: %v", errno)
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, ring, 0, 0)
	file, err := os.OpenFile(m.at("file"), os.O_CREATE|os.O_RDWR|syscall.O_DIRECT, 0o600)
	must.Succeed(t, err)
	defer file.Close()
	// Direct I/O needs whole pages.
	p, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must.Succeed(t, err)
	defer unix.Munmap(p)
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					_, _ = os.ReadFile(m.at("file"))
				}
			}
		})
	}
	for i := range 200 {
		for at := range p {
			p[at] = byte(i)
		}
		writeAsync(t, ring, int(file.Fd()), p)
		got, err := os.ReadFile(m.at("file"))
		must.Succeed(t, err)
		for at := range got {
			if got[at] != byte(i) {
				t.Errorf("write %d: got byte %#x at %d, want %#x", i, got[at], at, byte(i))
				break
			}
		}
		if t.Failed() {
			break
		}
	}
	close(over)
	readers.Wait()
}
