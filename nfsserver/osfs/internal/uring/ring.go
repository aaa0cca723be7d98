// The ring: memory shared with the kernel, and its layout.

// Package uring reads files through io_uring(7). A goroutine that waits for a disk occupies no
// thread, and several reads share a system call.
package uring

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// params is struct io_uring_params; only used offsets have names.
type params struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	sq                                                   struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// A submission is struct io_uring_sqe for a read.
type submission struct {
	op, flags uint8
	prio      uint16
	fd        int32
	off, addr uint64
	len, how  uint32
	data      uint64
	_         [3]uint64
}

// A completion is struct io_uring_cqe.
type completion struct {
	data  uint64
	res   int32
	flags uint32
}

const (
	opRead          = 22 // IORING_OP_READ
	featSingleMmap  = 1  // IORING_FEAT_SINGLE_MMAP
	featNoDrop      = 2  // IORING_FEAT_NODROP: the kernel keeps completions that do not fit
	setupClamp      = 16 // IORING_SETUP_CLAMP
	registerEventfd = 4  // IORING_REGISTER_EVENTFD
	offSubmissions  = 0x10000000

	entries = 256
)

var errFeatures = errors.New("uring: a kernel without what is needed")

// A Ring has reads under way. Its methods are for any goroutine.
type Ring struct {
	// Set once.
	fd             int
	event          *os.File // an eventfd; signals completions
	memory, sqes   []byte
	sqHead, sqTail *atomic.Uint32
	cqHead, cqTail *atomic.Uint32
	sqMask, cqMask uint32
	array          []uint32
	submissions    []submission
	completions    []completion
	free           chan *read    // reads not under way: at most entries
	ended          chan struct{} // closed when reap has ended
	wake           chan struct{} // holds one token while there are submissions
	gone           chan struct{} // closed when submitter has ended

	mu       sync.Mutex
	tail     uint32 // guarded by mu: number of submissions written
	pending  uint32 // guarded by mu: submissions not yet passed to the kernel
	entering bool   // guarded by mu: the submitter passes them, or will do so

	reads [entries]read
}

// Open makes a ring. It fails if the kernel has no rings, or does not let this process have one.
func Open() (*Ring, error) {
	p := params{flags: setupClamp}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, entries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, errno
	}
	r := &Ring{fd: int(fd), free: make(chan *read, entries), ended: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{})}
	unix.CloseOnExec(r.fd)
	if err := r.init(&p); err != nil {
		r.unmap()
		return nil, err
	}
	go r.reap()
	go r.submitter()
	return r, nil
}

func (r *Ring) init(p *params) error {
	if p.features&featSingleMmap == 0 || p.features&featNoDrop == 0 || p.sqEntries < entries {
		return errFeatures
	}
	size := max(int(p.sq.array+p.sqEntries*4), int(p.cq.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(completion{})))
	var err error
	if r.memory, err = unix.Mmap(r.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return err
	}
	if r.sqes, err = unix.Mmap(r.fd, offSubmissions, int(p.sqEntries)*int(unsafe.Sizeof(submission{})), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return err
	}
	word := func(off uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&r.memory[off])) }
	r.sqHead, r.sqTail, r.sqMask = word(p.sq.head), word(p.sq.tail), word(p.sq.mask).Load()
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), word(p.cq.mask).Load()
	r.array = unsafe.Slice((*uint32)(unsafe.Pointer(&r.memory[p.sq.array])), p.sqEntries)
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&r.sqes[0])), p.sqEntries)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&r.memory[p.cq.cqes])), p.cqEntries)
	for i := range r.array { // slot i has submission i
		r.array[i] = uint32(i)
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	r.event = os.NewFile(uintptr(event), "uring")
	for i := range r.reads {
		r.reads[i].done = make(chan struct{}, 1)
		r.free <- &r.reads[i]
	}
	number := int32(event)
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerEventfd, uintptr(unsafe.Pointer(&number)), 1, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Close ends the ring. No read may be under way or follow.
func (r *Ring) Close() {
	close(r.wake)
	<-r.gone
	r.event.Close()
	<-r.ended
	r.unmap()
}

func (r *Ring) unmap() {
	if r.event != nil {
		r.event.Close()
	}
	for _, m := range [][]byte{r.memory, r.sqes} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	unix.Close(r.fd)
}

// errnoOf returns the error in the result of a completion.
func errnoOf(res int32) error {
	if res < 0 {
		return syscall.Errno(-res)
	}
	return nil
}
