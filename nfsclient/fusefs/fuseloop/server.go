// The server of one connection: start, loop and end.

package fuseloop

import (
	"fmt"
	"log"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/internal/lead"
	"golang.org/x/sys/unix"
)

// A Server serves the requests of one mount.
type Server struct {
	// set once
	dir      string // "": not mounted by this Server
	direct   bool   // mounted by mount(2)
	dev      *device
	fs       fuse.RawFileSystem
	protocol *fuse.ProtocolServer
	log      *log.Logger
	settings fuse.InitIn // the kernel's INIT request
	buffers  buffers
	workers  workers
	readOne  func(fd uintptr, p []byte) (int, syscall.Errno) // read; tests replace it
	inflight inflight
	reader   readerState

	next *buffer // owned by the reader: memory for the next request
}

// newServer takes over fd, a newly mounted FUSE connection, and negotiates the features (INIT).
func newServer(fd int, fs fuse.RawFileSystem, opts *fuse.MountOptions) (*Server, error) {
	dev, err := openDevice(fd)
	if err != nil {
		return nil, err
	}
	s := &Server{dev: dev, fs: fs, protocol: fuse.NewProtocolServer(fs, opts), log: logTo(opts), readOne: read}
	s.buffers.init(maxWrite(opts))
	s.next = s.buffers.largest()
	s.workers.run = s.serve
	s.reader.lead.Init(lead.NewClock(lead.Tick), s.startReader)
	if err := s.init(); err != nil {
		dev.close()
		return nil, err
	}
	return s, nil
}

// init answers INIT, the first request.
func (s *Server) init() error {
	var n int
	var errno syscall.Errno
	err := s.dev.await(func() bool {
		n, errno = read(uintptr(s.dev.fd), s.next.b)
		return errno != unix.EAGAIN && errno != unix.EINTR
	})
	switch {
	case err != nil:
		return err
	case errno != 0:
		return fmt.Errorf("init: %w", errno)
	case n < inHeaderLen || parseHeader(s.next.b).opcode != opInit:
		return fmt.Errorf("init: the kernel's first request is another one")
	}
	in := s.next.b[:n]
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&s.settings)), unsafe.Sizeof(s.settings)), in)
	out := make([]byte, outHeaderLen+outDataMost)
	n, status := s.protocol.HandleRequest([][]byte{in}, [][]byte{out})
	if n == 0 {
		return fmt.Errorf("init: %v", status)
	}
	if errno := s.dev.write(out[:n]); errno != 0 {
		return fmt.Errorf("init: %w", errno)
	}
	if st := (*fuse.OutHeader)(unsafe.Pointer(unsafe.SliceData(out))).Status; st != 0 {
		return fmt.Errorf("init: %w", syscall.Errno(-st))
	}
	return nil
}

// Serve serves requests until the kernel sends no more. It returns after the last request has
// ended. Call Serve once.
func (s *Server) Serve() {
	s.initReader()
	s.workers.active.Go(s.readLoop)
	<-s.reader.ended
	gone := make(chan struct{})
	go func() {
		s.workers.end()
		close(gone)
	}()
	again := time.NewTicker(endTick)
	defer again.Stop()
	for {
		s.interruptAll()
		select {
		case <-gone:
			s.dev.close()
			return
		case <-again.C:
		}
	}
}

// accept handles one message with n bytes in next. If the message needs a reply, accept returns its
// request, entered in flight.
func (s *Server) accept(n int) *request {
	b := s.next.b[:n]
	if n < inHeaderLen {
		s.log.Printf("a request of %d bytes", n)
		return nil
	}
	h := parseHeader(b)
	switch h.opcode {
	case opForget, opBatchForget:
		s.protocol.HandleRequest([][]byte{b}, nil)
	case opInterrupt:
		s.interrupt(h, b)
	default:
		r := s.newRequest(h, n)
		r.others = s.inflight.add(r)
		return r
	}
	return nil
}

// serve runs one request in a worker.
func (s *Server) serve(r *request) {
	defer s.finish(r)
	if r.direct() {
		s.read(r)
		return
	}
	out := s.buffers.get(replyRoom(r.inHeader, r.bytes()))
	if out == nil {
		s.refuse(r.unique, fuse.EIO)
		return
	}
	defer out.release()
	r.inv[0], r.outv[0] = r.bytes(), out.b
	n, status := s.protocol.HandleRequest(r.inv[:], r.outv[:])
	switch {
	case n > 0:
		s.reply(r.unique, out.b[:n])
	case status != fuse.OK:
		s.refuse(r.unique, status)
	}
}
