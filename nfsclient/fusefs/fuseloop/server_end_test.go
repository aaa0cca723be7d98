// The end of the connection in Go's network poller.

package fuseloop

import (
	"bytes"
	"log"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection that ends right after the last request causes no log line: the reader does not wait,
// and the device reports the unmount.
func TestEndBeforeTheWait(t *testing.T) {
	// epoll reports the same for a full pipe without a reader as for a dead connection: only an
	// error.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatalf("pipe: %v", err)
	}
	var err error
	for err == nil {
		_, err = unix.Write(pipe[1], make([]byte, 4096))
	}
	dev, err := openDevice(pipe[1])
	if err != nil {
		t.Fatalf("open device: %v", err)
	}
	var said bytes.Buffer
	s := &Server{dev: dev, log: log.New(&said, "", 0)}
	s.buffers.init(0)
	s.next = s.buffers.largest()
	reads := 0
	s.readOne = func(uintptr, []byte) (int, syscall.Errno) {
		if reads++; reads > 1 {
			return 0, unix.ENODEV
		}
		unix.Close(pipe[0])
		return 0, unix.EAGAIN
	}
	s.Serve()
	if said.Len() > 0 {
		t.Errorf("said: %s", &said)
	}
	if reads != 2 {
		t.Errorf("the device was read %d times", reads)
	}
}
